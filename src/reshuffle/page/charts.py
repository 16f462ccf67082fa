"""Lines, bars and axes of charts, and numbers in words, as all tabs share them."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reshuffle._arrays import FloatArray
from reshuffle._uncertainty import significant
from reshuffle.free.plot import histogram
from reshuffle.page.answers import Axis, ChartSeries
from reshuffle.plotting import spectrum_view

GREW = 1e100
"""A test error beyond this diverges."""
_DASHES = {"second": "7 4", "third": "8 3 2 3", "fourth": "2 3", "grey": "2 3"}
"""Dashes of lines by their colour, for those who cannot tell the colours apart."""


def number(value: float, digits: int = 4) -> str:
    """Return a number for people, or words for what is none.

    >>> number(0.512345), number(math.inf), number(math.nan)
    ('0.5123', 'diverges', 'not known')
    """
    if math.isnan(value):
        return "not known"
    return significant(value, digits) if value < GREW else "diverges"


def count(value: float, what: str) -> str:
    """Return a number of things in words: 1 epoch, 2 epochs."""
    return f"{value:g} {what}{'s' * (value != 1)}"


def numbers(values: ArrayLike) -> list[Any]:
    """Return numbers of any shape as lists for JSON: ten digits, None for what is not finite."""
    array = np.asarray(values, dtype=float)
    if array.ndim:
        return [numbers(one) for one in array]
    return float(f"{float(array):.10g}") if np.isfinite(array) else None  # type: ignore[return-value]


def line(label: str, x: ArrayLike, y: ArrayLike, colour: str = "first", **changed: Any) -> ChartSeries:
    """Return a line, with the dashes of its colour; its label is its key in files."""
    key, dash = label.replace(" ", "_"), _DASHES.get(colour, "")
    known = {"key": key, "label": label, "x": numbers(x), "y": numbers(y), "colour": colour, "dash": dash}
    return ChartSeries(**(known | changed))


def framed(label: str, key: str, values: FloatArray, share: float, most: float = math.inf) -> Axis:
    """Return an axis of errors with all values up to `most`, and a share of their range on both sides."""
    known = values[np.isfinite(values) & (values <= most)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    margin = share * (high - low) if high > low else 0.1 * abs(low) or 1.0
    return Axis(label, key, False, max(0.0, low - margin), high + margin)


def bars(label: str, eigenvalues: FloatArray, colour: str, atoms: Sequence[float] = (0.0,)) -> ChartSeries:
    """Return the histogram of a matrix as a density; eigenvalues at atoms are left out, but counted."""
    heights, cuts = histogram(eigenvalues, min(60, max(10, len(eigenvalues) // 8)), atoms=atoms)
    return ChartSeries("", label, numbers(cuts), numbers(heights), colour, "bars")


def density_axis(series: Sequence[ChartSeries]) -> Axis:
    """Return the axis of densities: hard edges leave through the top, and so do bars far above the law."""
    lines, counts = ([one for one in series if one.kind == kind] for kind in ("line", "bars"))
    top = max((float(np.max(one.y, initial=0.0)) for one in counts), default=0.0)
    curves = [(np.array(one.x, dtype=float), np.array(one.y, dtype=float)) for one in lines]
    # What is not finite is None: at a point it is infinite, and between points there is a gap.
    curves = [(t, np.where(np.isnan(density) & ~np.isnan(t), np.inf, density)) for t, density in curves]
    if of_law := spectrum_view(curves).top:
        top = max(of_law, min(top, 3 * of_law))
    # Arrows have their masses above them.
    has_arrows = any(one.kind == "arrows" for one in series)
    return Axis("density", "density", False, 0.0, (1.2 if has_arrows else 1.06) * top or 1.0)
