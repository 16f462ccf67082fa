"""The pictures of the tab without data: the test error with its parts, and the spectrum beside the full batch."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reshuffle.cli import render
from reshuffle.page import drawing
from reshuffle.page.tab import Picture

if TYPE_CHECKING:
    import reshuffle as rs
    from reshuffle import asymptotics
    from reshuffle._arrays import FloatArray

LAST = 1000
"""Epochs."""


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The density of a law at points, or of the eigenvalues of one matrix between cuts."""

    x: "FloatArray"
    y: "FloatArray"
    is_sampled: bool


def sampled(eigenvalues: "FloatArray", size: int) -> Spectrum:
    """The histogram of some of `size` eigenvalues, the others being 0."""
    import numpy as np

    counts, cuts = np.histogram(eigenvalues, bins=30)
    return Spectrum(cuts, counts / size / np.diff(cuts), True)


def number(value: float) -> str:
    """Four digits, or words.

    >>> number(0.55171), number(math.inf)
    ('0.5517', 'without bound')
    """
    return render.number(value, 4) if value < math.inf else "without bound"


def risk_picture(setting: str, risk: "rs.Risk | asymptotics.LimitingRisk", best: "rs.BestEpoch") -> Picture:
    """The test error and its parts along the epochs."""
    ax = drawing.axes("epochs", "test error (risk) and its parts")
    parts = (
        ("total", risk.total, drawing.FIRST, {"linewidth": 2.6}),
        ("not learned yet (bias)", risk.bias, drawing.SECOND, {"linestyle": "--"}),
        ("noise (variance)", risk.variance, drawing.THIRD, {"linestyle": "-."}),
        ("never learned (frozen)", risk.frozen, drawing.GREY, {"linestyle": ":"}),
    )
    drawing.logarithmic(ax, "x")
    for label, heights, colour, style in parts:
        drawing.line(ax, risk.epochs, heights, label, colour, **style)
    if 1 <= best.epoch <= LAST:
        ax.plot([best.epoch], [best.risk], "o", color=drawing.FIRST, markersize=7, zorder=4)
    # What diverges leaves through the top; the start, signal^2 = 1, stays in sight.
    drawing.heights(ax, [risk.total], largest=max(2.0, 3 * float(best.risk)))
    drawing.legend(ax)
    start, end = number(float(risk.total[0])), number(float(risk.total[-1]))
    when = "in the limit" if best.epoch == math.inf else f"after {best.epoch:g} epochs"
    words = (
        f"Test error along the epochs at {setting}: {start} after one epoch, smallest {when} at "
        f"{number(best.risk)}, {end} after {LAST} epochs."
    )
    columns = {"epoch": risk.epochs.tolist()}
    columns |= {
        name: getattr(risk, name).tolist() for name in ("total", "frozen", "bias", "cross", "variance")
    }
    return Picture("risk", "Test error along the epochs", drawing.document(ax), words, columns)


def spectrum_picture(setting: str, values: Mapping[str, Any], spectrum: "Spectrum") -> Picture:
    """How fast directions are learned: the spectrum of one epoch, beside that of the full batch."""
    import numpy as np

    from reshuffle import asymptotics, plotting

    law = asymptotics.marchenko_pastur(values["aspect"], values["alpha"])
    t, density = plotting.spectrum_points(law)
    ax = drawing.axes("eigenvalue of one epoch; above 2 it diverges", "density")
    columns: dict[str, list[float | str]] = {"law": [], "eigenvalue": [], "density": []}
    drawing.line(ax, t, density, "full batch", drawing.FIRST, linestyle="--")
    _add(columns, "full batch", t, density)
    batches = f"{values['batches']} batches" if values["batches"] > 1 else "full batch"
    if spectrum.is_sampled:
        cuts, heights = spectrum.x, spectrum.y
        ax.stairs(
            heights, cuts, fill=True, color=drawing.SECOND, alpha=0.45, linewidth=0, label=f"{batches}, drawn"
        )
        _add(columns, f"{batches}, drawn", (cuts[1:] + cuts[:-1]) / 2, heights)
    elif values["batches"] > 1:
        drawing.line(ax, spectrum.x, spectrum.y, batches, drawing.SECOND)
        _add(columns, batches, spectrum.x, spectrum.y)
    # A hard edge grows without bound: most of the curve is what counts.
    usual = [np.quantile(one[np.isfinite(one)], 0.8) for one in (density, spectrum.y)]
    drawing.heights(ax, [density, spectrum.y], largest=2 * float(max(usual)))
    ax.axvline(2.0, color=drawing.GREY, linewidth=1.0, linestyle=":")
    drawing.legend(ax, loc="upper right")
    words = (
        f"Spectrum of one epoch at {setting}: from {number(np.nanmin(spectrum.x))} to "
        f"{number(np.nanmax(spectrum.x))}; the full batch has it from {number(np.nanmin(t))} to "
        f"{number(np.nanmax(t))}. What is above 2 diverges."
    )
    return Picture("spectrum", "How fast it learns: the spectrum", drawing.document(ax), words, columns)


def _add(columns: dict[str, list[float | str]], name: str, x: "FloatArray", y: "FloatArray") -> None:
    import numpy as np

    kept = np.isfinite(x)
    columns["law"] += [name] * int(kept.sum())
    columns["eigenvalue"] += x[kept].tolist()
    columns["density"] += y[kept].tolist()
