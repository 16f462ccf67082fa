"""Theorem batch_generr_exact and Lemma gd_generr: the bias has a cross term that they do not print."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import reshuffle as rs
from reshuffle import plotting
from reshuffle._core.arrays import FloatArray
from reshuffle.paper.figure import Claim, Figure, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture


@dataclass(frozen=True, eq=False)
class Numbers:
    """The risk with and without the cross term, and by simulation.

    Attributes
    ----------
    epochs, exact, claimed : (k,)
    simulated : Estimate
        The risk of the mean iterate, from pairs of runs.
    """

    epochs: FloatArray
    exact: FloatArray
    claimed: FloatArray
    simulated: rs.Estimate


def compute(n: int, p: int, epochs: int, runs: int, seed: int) -> Numbers:
    """More parameters than samples, and a covariance that is not a multiple of the identity."""
    covariance = 4 / np.arange(1, p + 1)
    rng = np.random.default_rng(seed)
    problem = rs.gaussian(n, p, covariance=covariance, noise=0.2, beta_star=rng.standard_normal(p), seed=rng)
    scheme = rs.RandomReshuffling(2)
    step = 0.1 * rs.critical_step(problem, scheme)
    when = np.arange(epochs + 1)
    risk = rs.descend(problem, scheme, step=step).risk(when)
    simulation = rs.simulate(problem, scheme, step=step, epochs=when, runs=runs, seed=seed, fresh_noise=True)
    assert simulation.mean_iterate_risk is not None
    claimed = risk.frozen + risk.bias + risk.variance
    return Numbers(when.astype(np.float64), risk.total, claimed, simulation.mean_iterate_risk)


def draw(numbers: Numbers) -> "Picture":
    """The risks, and beside them how far both formulas are from simulation, in its standard errors."""
    picture = plotting.figure(9.6, 3.9)
    risks, misses = picture.subplots(1, 2)
    colour, epochs = plotting.scheme_colour("reshuffling", 2), numbers.epochs
    few = np.unique(np.geomspace(1, len(epochs) - 1, 20).round().astype(int))
    simulated, error = numbers.simulated.mean, numbers.simulated.standard_error
    risks.plot(
        epochs[few],
        simulated[few],
        "o",
        color=colour,
        markersize=5,
        markerfacecolor="white",
        label="simulated; errors are smaller than the circles",
    )
    for values, label, shade, style in (
        (numbers.exact, "with the cross term", colour, "-"),
        (numbers.claimed, "as printed", "#555555", "--"),
    ):
        plotting.curve(
            epochs[1:], values[1:], label=label, colour=shade, style=style, ylabel="risk", ax=risks
        )
        off = np.abs(values - simulated)[1:] / error[1:]
        plotting.curve(epochs[1:], off, label=label, colour=shade, style=style, ylabel="", ax=misses)
    misses.axhline(2, color="grey", linewidth=0.8, linestyle=":", label="2 standard errors")
    misses.set(ylabel="distance from simulation, in standard errors", yscale="log")
    for ax in (risks, misses):
        ax.set_xscale("log")
        ax.set_xlim(1, epochs[-1])
        ax.legend(frameon=False, fontsize=9)
    return picture


def table(numbers: Numbers) -> Table:
    """Every epoch."""
    return Table(
        {
            "epoch": numbers.epochs.astype(int),
            "exact": numbers.exact,
            "as_printed": numbers.claimed,
            "simulated": numbers.simulated.mean,
            "standard_error": numbers.simulated.standard_error,
        }
    )


def claims(numbers: Numbers) -> list[Claim]:
    """The formula as printed, judged by simulation."""
    error = numbers.simulated.standard_error[1:]
    printed, exact = (
        float((np.abs(numbers.simulated.mean - values)[1:] / error).max())
        for values in (numbers.claimed, numbers.exact)
    )
    first = f"at epoch 0 the risk is {numbers.exact[0]:.4f}, printed {numbers.claimed[0]:.4f}"
    return [
        Claim(
            "Theorem batch_generr_exact, Lemma gd_generr",
            "the bias is a frozen plus a learnable term",
            f"{first}; off from simulation by up to {printed:.0f} standard errors, with the cross term {exact:.1f}",
            printed < 4,
            "with p > rank and Sigma not a multiple of I add 2 e_0' P_0 Sigma (I - B step Z)^k P_Z e_0",
        )
    ]


FIGURE = Figure(
    title="Theorem batch_generr_exact: the cross term",
    caption="More parameters than samples and a covariance with a decaying spectrum: frozen and learnable errors "
    "overlap in the norm of Σ, and the formula as printed misses it.",
    full={"n": 40, "p": 60, "epochs": 200, "runs": 4000, "seed": 3},
    quick={"n": 20, "p": 30, "epochs": 100, "runs": 1000, "seed": 3},
    compute=compute,
    draw=draw,
    table=table,
    claims=claims,
)
