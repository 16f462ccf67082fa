"""Appendix D.2: the risk of B = 1, 2, 4 batches in the overparameterized setting of the paper, exactly."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

import reshuffle as rs
from reshuffle import plotting

BATCHES = (1, 2, 4)
EPOCHS = 300
ALPHA = 0.2


@dataclass(frozen=True, eq=False)
class Curve:
    """One curve of the figure, and what a user asks of it."""

    batches: int
    risk: rs.Risk
    limit: rs.Limit
    best: rs.BestEpoch
    critical_alpha: float


def compute(n: int = 1000, p: int = 1500, noise: float = 0.5, seed: int = 0) -> list[Curve]:
    """The exact curves at step alpha / B, for one draw of the data.

    >>> [curve.best.epoch for curve in compute(n=40, p=60)]
    [5, 5, 5]
    """
    problem = rs.gaussian(n, p, noise=noise, seed=seed)
    curves = []
    for batches in BATCHES:
        scheme = rs.RandomReshuffling(batches) if batches > 1 else rs.FullBatch()
        run = rs.descend(problem, scheme, alpha=ALPHA)
        curves.append(
            Curve(
                batches=batches,
                risk=run.risk(np.arange(EPOCHS + 1)),
                limit=run.limit(),
                best=run.best_epoch(),
                critical_alpha=batches * rs.critical_step(problem, scheme),
            )
        )
    return curves


def draw(curves: list[Curve], path: Path) -> None:
    """The whole trajectory beside its last fifty epochs."""
    figure = plotting.figure(9.6, 3.8)
    whole, end = figure.subplots(1, 2, width_ratios=(1.4, 1))
    for curve, colour in zip(curves, plotting.COLOURS, strict=False):
        label = "full batch" if curve.batches == 1 else f"{curve.batches} batches"
        plotting.risk_curve(curve.risk, label=label, colour=colour, ax=whole)
        plotting.mark_best(curve.best.epoch, curve.best.risk, colour=colour, ax=whole)
        plotting.risk_curve(curve.risk, label=label, colour=colour, ax=end)
    whole.set_title("exact risk; dots: best stopping time", fontsize=10)
    whole.legend(frameon=False)
    end.set_title("the last 50 epochs", fontsize=10)
    end.set_xlim(EPOCHS - 50, EPOCHS)
    tails = np.concatenate([curve.risk.total[-51:] for curve in curves])
    margin = 0.1 * (tails.max() - tails.min())
    end.set_ylim(tails.min() - margin, tails.max() + margin)
    end.set_ylabel("")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main() -> None:
    """Print the table and draw the figure."""
    from rich.console import Console
    from rich.table import Table

    curves = compute()
    table = Table(title="n = 1000, p = 1500, noise 0.5, alpha = 0.2, step = alpha / B: exact, no training")
    for heading in ("batches", "best epoch", "risk there", "risk at 300", "limit", "converges up to alpha"):
        table.add_column(heading, justify="right")
    for curve in curves:
        assert curve.limit.risk is not None
        table.add_row(
            str(curve.batches),
            f"{curve.best.epoch:g}",
            f"{curve.best.risk:.6f}",
            f"{curve.risk.total[EPOCHS]:.6f}",
            f"{float(curve.limit.risk.total):.6f}",
            f"{curve.critical_alpha:.4f}",
        )
    console = Console()
    console.print(table)
    path = Path("out") / "risk_over.png"
    draw(curves, path)
    console.print(f"Drawn to {path}")


if __name__ == "__main__":
    main()
