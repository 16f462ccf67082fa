"""Proposition fixedp_error_limit: the trajectory where every batch modifies features alike."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import reshuffle as rs
from reshuffle import plotting
from reshuffle._arrays import FloatArray
from reshuffle.paper.figure import Claim, Columns, Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture


@dataclass(frozen=True, eq=False)
class Numbers:
    """Risks and coordinates: exact, by the corrected formulas, as printed.

    Attributes
    ----------
    epochs, exact, corrected, claimed : (k,)
        The risk.
    corrected_error, claimed_error : float
        The largest error of the formula for a coordinate of the iterate.
    """

    epochs: FloatArray
    exact: FloatArray
    corrected: FloatArray
    claimed: FloatArray
    corrected_error: float
    claimed_error: float


def compute(rows: int, p: int, batches: int, alpha: float, epochs: int, seed: int) -> Numbers:
    """Repeat one block of rows B times: then Pi_b = I - p(W) for every b, as the proposition assumes."""
    rng = np.random.default_rng(seed)
    X = np.tile(rng.standard_normal((rows, p)), (batches, 1))
    n, noise = len(X), 1.0
    beta_star = rng.standard_normal(p) / np.sqrt(p)
    eta = noise * rng.standard_normal(n)
    problem = rs.LeastSquares(X, X @ beta_star + eta, beta_star=beta_star, noise=noise)
    run = rs.descend(problem, rs.RandomReshuffling(batches=batches), alpha=alpha)
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    values = s**2 / n
    when = np.arange(epochs + 1)
    # alpha lambda (1 - p(lambda)), in closed form.
    decay = (1 - alpha * values / batches) ** (batches * when[:, np.newaxis])
    start, mapped_inputs = Vt @ -beta_star, U.T @ eta
    iterate = (run.iterate(when) - beta_star) @ Vt.T
    variance = noise**2 / n * ((1 - decay) ** 2 / values).sum(axis=1)
    return Numbers(
        when.astype(np.float64),
        run.risk(when).total,
        (decay**2 * start**2).sum(axis=1) + variance,
        (decay**2 * start).sum(axis=1) + variance,
        float(np.abs(decay * start + (1 - decay) / s * mapped_inputs - iterate).max()),
        float(np.abs(decay * start + (1 - decay) / values * mapped_inputs - iterate).max()),
    )


def draw(numbers: Numbers) -> "Picture":
    """The risk and both formulas."""
    picture = plotting.figure(6.4, 4.0)
    ax = picture.add_subplot()
    colour = plotting.scheme_colour("reshuffling", 4)
    for values, label, shade, style in (
        (numbers.exact, "exact", colour, "-"),
        (numbers.corrected, "the proposition, corrected", "#000000", ":"),
        (numbers.claimed, "the proposition, as printed", "#555555", "--"),
    ):
        plotting.curve(numbers.epochs, values, label=label, colour=shade, style=style, ylabel="risk", ax=ax)
    ax.legend(frameon=False, fontsize=9)
    return picture


def table(numbers: Numbers) -> Columns:
    """Every epoch."""
    return {
        "epoch": numbers.epochs.astype(int),
        "exact": numbers.exact,
        "corrected": numbers.corrected,
        "as_printed": numbers.claimed,
    }


def claims(numbers: Numbers) -> list[Claim]:
    """Both displays of the proposition."""
    off = float(np.abs(numbers.claimed - numbers.exact).max())
    right = float(np.abs(numbers.corrected - numbers.exact).max())
    return [
        Claim(
            "Proposition fixedp_error_limit, first display",
            "the noise enters coordinate i as (1 / lambda_i) [U' eta]_i",
            f"off by {numbers.claimed_error:.2g}; with 1 / s_i by {numbers.corrected_error:.1e}",
            numbers.claimed_error < 1e-9,
            "1 / s_i = 1 / sqrt(n lambda_i)",
        ),
        Claim(
            "Proposition fixedp_error_limit, second display",
            "the bias sums lambda_i [...]^(2k) [V'(beta_0 - beta_*)]_i",
            f"off by {off:.2g}; with the coordinate squared by {right:.1e}",
            off < 1e-9,
            "[V'(beta_0 - beta_*)]_i squared",
        ),
    ]


FIGURES = {
    "fixed-dimension": Figure(
        title="Proposition fixedp_error_limit: trajectories in fixed dimension",
        caption="One block of rows, repeated: every batch modifies the features alike, as the proposition assumes. "
        "Its formulas hold once two slips are mended.",
        full={"rows": 50, "p": 20, "batches": 4, "alpha": 0.4, "epochs": 60, "seed": 2},
        quick={},
        compute=compute,
        draw=draw,
        table=table,
        claims=claims,
    ),
}
