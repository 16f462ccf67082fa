"""Section 3.2 beside simulation: the cross term that its formula lacks, and what a run has above its mean."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import reshuffle as rs
from reshuffle import plotting
from reshuffle._arrays import FloatArray
from reshuffle.paper.figure import CIRCLES, Claim, Columns, Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture


@dataclass(frozen=True, eq=False)
class Numbers:
    """The exact risk of the mean iterate, and what runs do.

    Attributes
    ----------
    epochs, exact : (k,)
    printed : (k,)
        The formula of the paper, without the cross term.
    mean_iterate, runs : Estimate
        The risk of the mean iterate, from pairs of runs that share their noise, and of single runs.
    """

    epochs: FloatArray
    exact: FloatArray
    printed: FloatArray
    mean_iterate: rs.Estimate
    runs: rs.Estimate

    @property
    def spread(self) -> FloatArray:
        """What shuffling adds."""
        return self.runs.mean - self.mean_iterate.mean


def compute_cross_term(n: int, p: int, epochs: int, runs: int, seed: int) -> Numbers:
    """More parameters than samples, and a covariance that is not a multiple of the identity."""
    covariance = 4 / np.arange(1, p + 1)
    rng = np.random.default_rng(seed)
    problem = rs.gaussian(n, p, covariance=covariance, noise=0.2, beta_star=rng.standard_normal(p), seed=rng)
    return _compute(problem, 2, 0.1, epochs, runs, seed)


def compute_runs(n: int, p: int, batches: int, share: float, epochs: int, runs: int, seed: int) -> Numbers:
    """A step at a share of the largest, where shuffling shows."""
    return _compute(rs.gaussian(n, p, noise=0.5, seed=seed), batches, share, epochs, runs, seed)


def _compute(
    problem: rs.LeastSquares, batches: int, share: float, epochs: int, runs: int, seed: int
) -> Numbers:
    scheme = rs.RandomReshuffling(batches=batches)
    step = share * rs.critical_step(problem, scheme)
    when = np.arange(epochs + 1)
    risk = rs.descend(problem, scheme, step=step).risk(when)
    simulation = rs.simulate(problem, scheme, step=step, epochs=when, runs=runs, seed=seed, fresh_noise=True)
    assert simulation.expected_risk is not None
    assert simulation.risk is not None
    printed = risk.frozen + risk.bias + risk.variance
    return Numbers(when.astype(np.float64), risk.total, printed, simulation.risk, simulation.expected_risk)


def _deviation(values: FloatArray, estimate: rs.Estimate) -> FloatArray:
    """How many standard errors the values are from an estimate, at each epoch but the first."""
    off: FloatArray = np.abs(values - estimate.mean)[1:] / estimate.standard_error[1:]
    return off


def draw_cross_term(numbers: Numbers) -> "Picture":
    """The risks, and beside them how far both formulas are from simulation, in its standard errors."""
    picture = plotting.figure(9.6, 3.9)
    risks, misses = picture.subplots(1, 2)
    colour, epochs = plotting.scheme_colour("reshuffling", 2), numbers.epochs
    few = np.unique(np.geomspace(1, len(epochs) - 1, 20).round().astype(int))
    simulated = "simulated; errors are smaller than the circles"
    risks.plot(epochs[few], numbers.mean_iterate.mean[few], color=colour, label=simulated, **CIRCLES)
    for values, label, shade, style in (
        (numbers.exact, "with the cross term", colour, "-"),
        (numbers.printed, "as printed", "#555555", "--"),
    ):
        plotting.curve(
            epochs[1:], values[1:], label=label, colour=shade, style=style, ylabel="risk", ax=risks
        )
        off = _deviation(values, numbers.mean_iterate)
        plotting.curve(epochs[1:], off, label=label, colour=shade, style=style, ylabel="", ax=misses)
    misses.axhline(2, color="grey", linewidth=0.8, linestyle=":", label="2 standard errors")
    misses.set(ylabel="distance from simulation, in standard errors", yscale="log")
    for ax in (risks, misses):
        ax.set_xscale("log")
        ax.set_xlim(1, epochs[-1])
        ax.legend(frameon=False, fontsize=9)
    return picture


def draw_runs(numbers: Numbers) -> "Picture":
    """Runs above their lower bound."""
    picture = plotting.figure(6.4, 4.0)
    ax = picture.add_subplot()
    colour = plotting.scheme_colour("reshuffling", 4)
    plotting.simulated_band(
        numbers.epochs, numbers.runs, label="single runs: mean ± 2 s.e.", colour=colour, ax=ax
    )
    for values, label, style in (
        (numbers.exact, "mean iterate, exact", "-"),
        (numbers.exact + numbers.spread, "mean iterate, exact + spread from pairs of runs", ":"),
    ):
        plotting.curve(numbers.epochs, values, label=label, colour=colour, style=style, ylabel="risk", ax=ax)
    ax.legend(frameon=False, fontsize=9)
    return picture


def table_of_cross_term(numbers: Numbers) -> Columns:
    """Every epoch."""
    return {
        "epoch": numbers.epochs.astype(int),
        "exact": numbers.exact,
        "as_printed": numbers.printed,
        "simulated": numbers.mean_iterate.mean,
        "standard_error": numbers.mean_iterate.standard_error,
    }


def table_of_runs(numbers: Numbers) -> Columns:
    """Every epoch."""
    return {
        "epoch": numbers.epochs.astype(int),
        "exact_mean_iterate": numbers.exact,
        "simulated_run": numbers.runs.mean,
        "standard_error": numbers.runs.standard_error,
        "spread": numbers.spread,
    }


def claims_of_cross_term(numbers: Numbers) -> list[Claim]:
    """The formula as printed, judged by simulation."""
    printed, exact = (
        float(_deviation(values, numbers.mean_iterate).max()) for values in (numbers.printed, numbers.exact)
    )
    first = f"at epoch 0 the risk is {numbers.exact[0]:.4f}, printed {numbers.printed[0]:.4f}"
    return [
        Claim(
            "Theorem batch_generr_exact, Lemma gd_generr",
            "the bias is a frozen plus a learnable term",
            f"{first}; off from simulation by up to {printed:.0f} standard errors, with the cross term {exact:.1f}",
            printed < 4,
            "with p > rank and Sigma not a multiple of I add 2 e_0' P_0 Sigma (I - B step Z)^k P_Z e_0",
        )
    ]


def claims_of_runs(numbers: Numbers) -> list[Claim]:
    """The remark that closes Section 3.2."""
    off = float(_deviation(numbers.exact + numbers.spread, numbers.runs).max())
    top = int(np.argmax(numbers.spread))
    share = numbers.spread[top] / numbers.exact[top]
    return [
        Claim(
            "closing remark of Section 3.2",
            "the expected risk of a run is that of the mean iterate plus the variance over the orders",
            f"the two sides differ by at most {off:.2f} standard errors; the spread is at most "
            f"{numbers.spread[top]:.4f}, {share:.0%} of the risk, at epoch {top}",
            off < 4,
        ),
        Claim(
            "closing remark of Section 3.2",
            "so the risk of the mean iterate is a lower bound",
            f"the spread is between {numbers.spread[1:].min():.2e} and {numbers.spread.max():.2e}",
            bool((numbers.spread[1:] > 0).all()),
        ),
    ]


FIGURES = {
    "cross-term": Figure(
        title="Theorem batch_generr_exact: the cross term",
        caption="More parameters than samples and a covariance with a decaying spectrum: frozen and learnable "
        "errors overlap in the norm of Σ, and the formula as printed misses it.",
        full={"n": 40, "p": 60, "epochs": 200, "runs": 4000, "seed": 3},
        quick={"n": 20, "p": 30, "epochs": 100, "runs": 1000},
        compute=compute_cross_term,
        draw=draw_cross_term,
        table=table_of_cross_term,
        claims=claims_of_cross_term,
    ),
    "run-risk": Figure(
        title="Closing remark of Section 3.2: the risk of a run",
        caption="A run is worse than the mean of all runs, by the spread that shuffling causes.",
        full={"n": 200, "p": 150, "batches": 4, "share": 0.7, "epochs": 60, "runs": 4000, "seed": 1},
        quick={"n": 60, "p": 40, "runs": 1000},
        compute=compute_runs,
        draw=draw_runs,
        table=table_of_runs,
        claims=claims_of_runs,
    ),
}
