"""The picture of an advice: the test error along the epochs, and what wrong choices cost."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reshuffle.cli.advice_words import Advice, root
from reshuffle.cli.terminal import Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture


def picture(advice: Advice, curves: Sequence[Series]) -> "Picture":
    """Draw both beside each other."""
    from reshuffle import plotting

    made = plotting.figure(11.0, 4.2)
    left, right = made.subplots(1, 2)
    _along_epochs(advice, curves, left)
    plotting.plan_map(advice.plan, ax=right)
    return made


def _along_epochs(advice: Advice, curves: Sequence[Series], ax: "Axes") -> None:
    import numpy as np

    from reshuffle import plotting

    label = "RMSE on new rows" if advice.is_single else "test error, share of the variance"
    for colour, one in zip(plotting.COLOURS, curves, strict=False):
        plotting.curve(one.x, one.y, label=one.label, colour=colour, ylabel=label, ax=ax)
    best, promise = advice.plan.best, advice.promise

    def shown(value: float, error: float) -> tuple[float, float]:
        return root(value, error) if advice.is_single else (value, error)

    height, error = shown(best.test_error, best.standard_error)
    ax.errorbar(best.epochs, height, yerr=error, fmt="o", color=plotting.COLOURS[0], capsize=3, zorder=3,
                label=f"promised after {best.epochs} epochs, ± its standard error")  # fmt: skip
    if promise is not None:
        height, error = shown(promise.mean_run, promise.standard_error)
        # A little to the right, beside what was promised.
        ax.errorbar(1.15 * best.epochs, height, yerr=error if np.isfinite(error) else None, fmt="s", color="black",
                    capsize=3, zorder=3, label=f"on {promise.rows} held-out rows")  # fmt: skip
    simple = shown(advice.plan.least_squares.mean_square, 0.0)[0]
    ax.axhline(simple, color="black", linewidth=0.8, linestyle="--", zorder=1, label="least squares")
    ax.set_xscale("log")
    plotting.scale_values(ax)
    ax.legend(frameon=False, fontsize=7)
