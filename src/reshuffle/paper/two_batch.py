"""Propositions twobatch_step_cond and twobatch_generr_Zonly: a safe step, and an interval for the risk."""

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
    """The interval of one run, and what many random problems say.

    Attributes
    ----------
    alpha : float
    epochs, exact, low, high : (k,)
    widths : (a,)
        The largest relative width of the interval, at alpha, alpha/2, alpha/4, ...
    rates, norm_ratios : (draws,)
        The spectral radius of two-batch descent at 0.999 of the step that the proposition allows, and |Z| / |W|.
    smallest : float
        The smallest eigenvalue of Z in the detailed problem, at 3 times its critical step.
    norm_where_tight, excess_where_tight : float
        |Z| where the upper bound is said to be tight, and how many times the step exceeds what is assumed.
    """

    alpha: float
    epochs: FloatArray
    exact: FloatArray
    low: FloatArray
    high: FloatArray
    widths: FloatArray
    rates: FloatArray
    norm_ratios: FloatArray
    smallest: float
    norm_where_tight: float
    excess_where_tight: float


def compute(n: int, p: int, draws: int, seed: int) -> Numbers:
    """One problem in detail, and many small ones of random shape and scale."""
    problem = rs.gaussian(n, p, noise=0.5, seed=seed)
    alpha = 0.5 * rs.critical_step(problem, rs.FullBatch())
    when = np.unique(np.geomspace(1, 1000, 60).round())
    runs = [rs.descend(problem, rs.RandomReshuffling(batches=2), alpha=alpha / 2**k) for k in range(4)]
    intervals = [run.risk_interval(when) for run in runs]
    exact = rs.descend(problem, rs.RandomReshuffling(batches=2), alpha=alpha).risk(when).total
    rng = np.random.default_rng(seed)
    rates, norm_ratios = np.array([_at_the_allowed_step(rng) for _ in range(draws)]).T
    return Numbers(
        alpha,
        when,
        exact,
        intervals[0].lower,
        intervals[0].upper,
        np.array([float(((i.upper - i.lower) / (i.upper + i.lower)).max()) for i in intervals]),
        rates,
        norm_ratios,
        _smallest_eigenvalue(problem),
        *_where_said_to_be_tight(),
    )


def _smallest_eigenvalue(problem: rs.LeastSquares) -> float:
    scheme = rs.RandomReshuffling(batches=2)
    epoch = rs.Epoch(problem, scheme, 3 * rs.critical_step(problem, scheme))
    return float(epoch.decay_rates.min()) / (2 * epoch.step)


def _at_the_allowed_step(rng: np.random.Generator) -> tuple[float, float]:
    # Equal batches, as the paper has them.
    shape = 2 * rng.integers(1, 15), rng.integers(1, 30)
    X = rng.standard_normal(shape) * rng.lognormal(size=shape[1])
    problem = rs.LeastSquares(X, np.zeros(shape[0]))
    # Full batch must converge at twice the step of a visit.
    largest = rs.critical_step(problem, rs.FullBatch())
    step = 0.999 * largest / 2
    run = rs.descend(problem, rs.RandomReshuffling(batches=2), step=step)
    decay_rates = rs.Epoch(problem, rs.RandomReshuffling(batches=2), step).decay_rates
    Z_norm, W_norm = float(np.abs(decay_rates).max()) / (2 * step), 2 / largest
    return run.stability().rate, Z_norm / W_norm


def _where_said_to_be_tight() -> tuple[float, float]:
    """W_1 = W_2 = c I and step 2 / c, as the proof has it."""
    c = 3.0
    X = np.sqrt(2 * c) * np.vstack([np.eye(2), np.eye(2)])
    problem = rs.LeastSquares(X, np.zeros(4))
    step = 2 / c
    Z = rs.Epoch(problem, rs.RandomReshuffling(batches=2), step).Z
    return float(np.abs(Z).max()), step * float(np.linalg.norm(X.T @ X / 4, 2))


def draw(numbers: Numbers) -> "Picture":
    """The risk inside its interval."""
    picture = plotting.figure(6.4, 4.0)
    ax = picture.add_subplot()
    colour = plotting.scheme_colour("reshuffling", 2)
    ax.fill_between(
        numbers.epochs,
        numbers.low,
        numbers.high,
        color=colour,
        alpha=0.2,
        linewidth=0,
        label="interval from Z alone",
    )
    plotting.curve(
        numbers.epochs, numbers.exact, label="exact risk, 2 batches", colour=colour, ylabel="risk", ax=ax
    )
    ax.set_xscale("log")
    ax.legend(frameon=False, fontsize=9)
    return picture


def table(numbers: Numbers) -> Columns:
    """The risk and its interval."""
    return {
        "epoch": numbers.epochs.astype(int),
        "lower": numbers.low,
        "exact": numbers.exact,
        "upper": numbers.high,
    }


def claims(numbers: Numbers) -> list[Claim]:
    """Both propositions, and where the second is said to be tight."""
    inside = bool(((numbers.low <= numbers.exact) & (numbers.exact <= numbers.high)).all())
    order = float(np.log2(numbers.widths[-2] / numbers.widths[-1]))
    return [
        Claim(
            "Proposition twobatch_step_cond",
            "if full batch converges at twice the step, two batches converge",
            f"spectral radius {1 - numbers.rates.max():.1e} or more below 1 in {len(numbers.rates)} problems, "
            "at 0.999 of that step",
            bool((numbers.rates < 1).all()),
        ),
        Claim(
            "after Proposition twobatch_step_cond",
            "Z has some sort of shrinkage effect on the operator norm, compared to W",
            f"|Z| / |W| is between {numbers.norm_ratios.min():.4f} and {numbers.norm_ratios.max():.4f} there",
            bool((numbers.norm_ratios <= 1 + 1e-12).all()),
        ),
        Claim(
            "after Proposition twobatch_step_cond",
            "Z may have negative eigenvalues if alpha is large enough",
            f"at 3 times the critical step of the problem drawn, the smallest is {numbers.smallest:.4f}",
            numbers.smallest < 0,
        ),
        Claim(
            "Proposition twobatch_generr_Zonly",
            "the risk lies in the interval [R_-, R_+], whose width is linear in alpha",
            f"{'at every' if inside else 'not at every'} epoch; the width shrinks like alpha^{order:.3f}",
            inside and abs(order - 1) < 0.15,
        ),
        Claim(
            "Proposition twobatch_generr_Zonly",
            "the upper bound is tight if W_1 = W_2 = c^2 I and alpha = 2/c",
            f"there |Z| = {numbers.norm_where_tight:.1g}, and the step is {numbers.excess_where_tight:.3g} times "
            "what is assumed",
            numbers.norm_where_tight > 1e-9 and numbers.excess_where_tight <= 1,
            "the equality is 0 = 0, outside the assumption",
        ),
    ]


FIGURES = {
    "two-batch": Figure(
        title="Propositions twobatch_step_cond and twobatch_generr_Zonly: two batches",
        caption="The exact risk of two-batch descent, inside the interval that Z alone allows.",
        full={"n": 300, "p": 200, "draws": 500, "seed": 0},
        quick={"n": 100, "p": 60, "draws": 100},
        compute=compute,
        draw=draw,
        table=table,
        claims=claims,
    ),
}
