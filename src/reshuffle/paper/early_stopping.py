"""Section 3.3.1, its last sentence: another best stopping time, and possibly a lower early-stopped risk."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import reshuffle as rs
from reshuffle import plotting
from reshuffle._arrays import FloatArray
from reshuffle.paper.figure import Claim, Columns, Figure, look

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

BATCHES = (1, 2, 4, 8)


@dataclass(frozen=True, eq=False)
class Numbers:
    """The best stopping times.

    Attributes
    ----------
    alphas : (a,)
    epochs, risks : (batches, a)
        Where the exact risk is smallest, certified, and how small.
    """

    alphas: FloatArray
    epochs: FloatArray
    risks: FloatArray


def compute(n: int, p: int, noise: float, count: int, seed: int) -> Numbers:
    """Search all epochs, for every alpha up to where full batch diverges."""
    problem = rs.gaussian(n, p, noise=noise, seed=seed)
    alphas = np.linspace(0.1, 0.98, count) * rs.critical_step(problem, rs.FullBatch())
    epochs, risks = np.zeros((2, len(BATCHES), count))
    for row, batches in enumerate(BATCHES):
        for column, alpha in enumerate(alphas):
            best = rs.descend(problem, rs.RandomReshuffling(batches=batches), alpha=float(alpha)).best_epoch()
            epochs[row, column], risks[row, column] = best.epoch, best.risk
    return Numbers(alphas, epochs, risks)


def draw(numbers: Numbers) -> "Picture":
    """Time times alpha, and the risk, against alpha."""
    picture = plotting.figure(9.6, 3.9)
    left, right = picture.subplots(1, 2)
    for row, batches in enumerate(BATCHES):
        style = look("reshuffling", batches)
        left.plot(numbers.alphas, numbers.epochs[row], marker="o", markersize=3, **style)
        right.plot(numbers.alphas, numbers.risks[row], marker="o", markersize=3, **style)
    plotting.plain(left, "α (step α/B)", "best epoch")
    plotting.plain(right, "α (step α/B)", "risk at the best epoch")
    left.legend(frameon=False, fontsize=9)
    return picture


def table(numbers: Numbers) -> Columns:
    """The best epochs and risks."""
    size = len(numbers.alphas)
    return {
        "batches": np.repeat(BATCHES, size),
        "alpha": np.tile(numbers.alphas, len(BATCHES)),
        "best_epoch": numbers.epochs.ravel().astype(int),
        "risk": numbers.risks.ravel(),
    }


def claims(numbers: Numbers) -> list[Claim]:
    """The last sentence of Section 3.3.1."""
    other = numbers.epochs[1:] != numbers.epochs[0]
    change = numbers.risks[1:] / numbers.risks[0] - 1
    return [
        Claim(
            "Section 3.3.1",
            "mini-batch descent may have a different optimal stopping time",
            f"in {other.mean():.0%} of the settings (B = 2, 4, 8), by up to "
            f"{np.abs(numbers.epochs[1:] - numbers.epochs[0]).max():.0f} epochs",
            bool(other.any()),
        ),
        Claim(
            "Section 3.3.1",
            "and a different early-stopped risk, possibly lower",
            f"lower in {(change < -1e-9).mean():.0%} of the settings; it changes by {change.min():+.2%} to "
            f"{change.max():+.2%}",
            bool((change < -1e-9).any()),
        ),
    ]


FIGURES = {
    "early-stopping": Figure(
        title="Section 3.3.1: early stopping",
        caption="The best stopping time and the risk there, exact and certified, against the step.",
        full={"n": 400, "p": 600, "noise": 0.5, "count": 12, "seed": 0},
        quick={"n": 80, "p": 120, "count": 7},
        compute=compute,
        draw=draw,
        table=table,
        claims=claims,
    ),
}
