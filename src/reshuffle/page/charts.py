"""Charts as numbers, which the browser draws, and the lines, bars and axes that all tabs share."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from reshuffle._arrays import FloatArray

_DASHES = {"second": "7 4", "third": "8 3 2 3", "fourth": "2 3", "grey": "2 3"}
"""Dashes of lines by their colour, for those who cannot tell the colours apart."""


@dataclass(frozen=True)
class Axis:
    """An axis of a chart: `key` heads its numbers in a file, `names` are the rows of a chart by category."""

    label: str
    key: str
    is_log: bool = False
    low: float | None = None
    high: float | None = None
    names: Sequence[str] = ()


@dataclass(frozen=True)
class Series:
    """Numbers in a chart, as a line, bars (`x` are the cuts), dots or arrows from 0 to a weight."""

    key: str
    label: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str = "first"
    kind: str = "line"
    dash: str = ""
    width: float = 2.0


@dataclass(frozen=True)
class Chart:
    """A chart that the browser draws.

    Attributes
    ----------
    name, title : str
        Of the files it is saved to, and above it.
    words : str
        Its main numbers in a sentence, for those who do not see it.
    x, y : Axis
    series : list of Series
    marks : list of (float, str)
        Places on the horizontal axis with a line and a word each.
    handle : str
        The input that a handle on the horizontal axis moves, if any.
    morph : (list of float, list of list of list of float), optional
        Positions of the handle's input, and the heights of all lines of the first chart at each: the browser
        interpolates between them while the handle moves.
    frames : list of list of list of float, optional
        The `x` of all series at every moment, for a play button; `moments` names them.
    """

    name: str
    title: str
    words: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    marks: Sequence[tuple[float, str]] = ()
    handle: str = ""
    morph: tuple[Sequence[float], Sequence[Sequence[Sequence[float]]]] | None = None
    frames: Sequence[Sequence[Sequence[float]]] = ()
    moments: Sequence[str] = ()


def numbers(values: "ArrayLike") -> list[Any]:
    """Return numbers of any shape as lists for JSON: ten digits, None for what is not finite."""
    import numpy as np

    array = np.asarray(values, dtype=float)
    if array.ndim:
        return [numbers(one) for one in array]
    return float(f"{float(array):.10g}") if np.isfinite(array) else None  # type: ignore[return-value]


def line(label: str, x: "ArrayLike", y: "ArrayLike", colour: str = "first", **changed: Any) -> Series:
    """Return a line, with the dashes of its colour; its label is its key in files."""
    key, dash = label.replace(" ", "_"), _DASHES.get(colour, "")
    return Series(**{"key": key, "label": label, "x": numbers(x), "y": numbers(y), "colour": colour, "dash": dash}
                  | changed)  # fmt: skip


def framed(label: str, key: str, values: "FloatArray", share: float, most: float = math.inf) -> Axis:
    """Return an axis of errors with all values up to `most`, and a share of their range on both sides."""
    import numpy as np

    known = values[np.isfinite(values) & (values <= most)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    margin = share * (high - low) if high > low else 0.1 * abs(low) or 1.0
    return Axis(label, key, False, max(0.0, low - margin), high + margin)


def bars(label: str, eigenvalues: "FloatArray", colour: str, atoms: Sequence[float] = (0.0,)) -> Series:
    """Return the histogram of a matrix as a density; eigenvalues at atoms are left out, but counted."""
    from reshuffle.free.plot import histogram

    heights, cuts = histogram(eigenvalues, min(60, max(10, len(eigenvalues) // 8)), atoms=atoms)
    return Series("", label, numbers(cuts), numbers(heights), colour, "bars")


def density_axis(series: Sequence[Series]) -> Axis:
    """Return the axis of densities: a hard edge grows without bound, and most of the curve is what counts."""
    import numpy as np

    heights = {
        kind: [np.array(one.y, dtype=float) for one in series if one.kind == kind]
        for kind in ("line", "bars")
    }
    top = max((float(np.nanmax(one, initial=0.0)) for one in heights["bars"]), default=0.0)
    if heights["line"]:
        usual = max(float(np.nanquantile(one, 0.8)) for one in heights["line"] if one.size)
        of_lines = min(max(float(np.nanmax(one)) for one in heights["line"]), 2 * usual)
        top = max(of_lines, min(top, 3 * of_lines))
    return Axis("density", "density", False, 0.0, 1.1 * top or 1.0)
