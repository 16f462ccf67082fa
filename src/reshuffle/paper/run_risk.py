"""The remark that closes Section 3.2: the risk of a run is that of the mean iterate plus a spread."""

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
    """The lower bound and what runs do.

    Attributes
    ----------
    epochs, exact : (k,)
        The exact risk of the mean iterate.
    simulated : Estimate
        The risk of single runs.
    spread : (k,)
        What shuffling adds, from pairs of runs that share their noise.
    """

    epochs: FloatArray
    exact: FloatArray
    simulated: rs.Estimate
    spread: FloatArray
    deviation: float


def compute(n: int, p: int, batches: int, share: float, epochs: int, runs: int, seed: int) -> Numbers:
    """A step at a share of the largest, where shuffling shows."""
    problem = rs.gaussian(n, p, noise=0.5, seed=seed)
    scheme = rs.RandomReshuffling(batches)
    step = share * rs.critical_step(problem, scheme)
    when = np.arange(epochs + 1)
    exact = rs.descend(problem, scheme, step=step).risk(when).total
    simulation = rs.simulate(problem, scheme, step=step, epochs=when, runs=runs, seed=seed, fresh_noise=True)
    assert simulation.risk is not None
    assert simulation.mean_iterate_risk is not None
    mean = simulation.mean_iterate_risk
    deviation = float((np.abs(mean.mean - exact)[1:] / mean.standard_error[1:]).max())
    spread = simulation.risk.mean - mean.mean
    return Numbers(when.astype(np.float64), exact, simulation.risk, spread, deviation)


def draw(numbers: Numbers) -> "Picture":
    """Runs above their lower bound."""
    picture = plotting.figure(6.4, 4.0)
    ax = picture.add_subplot()
    colour = plotting.scheme_colour("reshuffling", 4)
    plotting.simulated_band(
        numbers.epochs, numbers.simulated, label="single runs: mean ± 2 s.e.", colour=colour, ax=ax
    )
    plotting.curve(
        numbers.epochs, numbers.exact, label="mean iterate, exact", colour=colour, ylabel="risk", ax=ax
    )
    plotting.curve(
        numbers.epochs,
        numbers.exact + numbers.spread,
        label="mean iterate, exact + spread from pairs of runs",
        colour=colour,
        style=":",
        ylabel="risk",
        ax=ax,
    )
    ax.legend(frameon=False, fontsize=9)
    return picture


def table(numbers: Numbers) -> Table:
    """Every epoch."""
    return Table(
        {
            "epoch": numbers.epochs.astype(int),
            "exact_mean_iterate": numbers.exact,
            "simulated_run": numbers.simulated.mean,
            "standard_error": numbers.simulated.standard_error,
            "spread": numbers.spread,
        }
    )


def claims(numbers: Numbers) -> list[Claim]:
    """The remark."""
    gap = numbers.simulated.mean - numbers.exact - numbers.spread
    off = float((np.abs(gap)[1:] / numbers.simulated.standard_error[1:]).max())
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


FIGURE = Figure(
    title="Closing remark of Section 3.2: the risk of a run",
    caption="A run is worse than the mean of all runs, by the spread that shuffling causes.",
    full={"n": 200, "p": 150, "batches": 4, "share": 0.7, "epochs": 60, "runs": 4000, "seed": 1},
    quick={"n": 60, "p": 40, "batches": 4, "share": 0.7, "epochs": 60, "runs": 1000, "seed": 1},
    compute=compute,
    draw=draw,
    table=table,
    claims=claims,
)
