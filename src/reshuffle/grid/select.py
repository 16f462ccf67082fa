"""Parts of a swept grid that can be drawn: one or two dimensions of it, and where its points stand."""

from typing import TYPE_CHECKING, Any

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._uncertainty import significant
from reshuffle.errors import ArgumentError

if TYPE_CHECKING:
    from xarray import DataArray


def part(answer: Any, dims: tuple[str, ...], chosen: dict[str, Any]) -> "DataArray":
    """The answer along some dimensions, at the nearest chosen value of others.

    Along epochs that are neither given nor chosen the least is taken: every point stops when it is best.
    """
    from reshuffle.grid.workers import required

    xarray = required("xarray", "sweep")
    if not isinstance(answer, xarray.DataArray):
        raise TypeError(
            f'answer must be a variable of a sweep, such as found["risk"], but it is a {type(answer).__name__}.'
        )
    for name in (*dims, *chosen):
        if name not in answer.dims:
            allowed = f"have the dimension {name!r}"
            raise ArgumentError("answer", allowed, f"it has {', '.join(map(str, answer.dims))}")
    for name, value in chosen.items():
        is_number = answer[name].dtype.kind in "iuf"
        answer = answer.sel({name: value}, method="nearest" if is_number else None)
    if "epochs" in answer.dims and "epochs" not in dims:
        answer = answer.min("epochs")
    answer = answer.squeeze([name for name in answer.dims if name not in dims and answer.sizes[name] == 1])
    left = [str(name) for name in answer.dims if name not in dims]
    if left:
        raise ValueError(
            f"answer has the dimensions {', '.join(left)} too; choose a value, such as {left[0]}=..."
        )
    made: DataArray = answer.transpose(*dims)
    return made


def is_geometric(values: Any) -> bool:
    """True if values are more evenly spread in their logarithm.

    >>> is_geometric([1, 2, 4, 8]), is_geometric([1, 2, 3, 4]), is_geometric([0.0, 0.1, 1.0])
    (True, False, False)
    """
    points = np.asarray(values)
    if points.dtype.kind not in "iuf" or len(points) < 3 or not (points > 0).all() or np.isinf(points).any():
        return False
    linear, logarithmic = np.abs(np.diff(points)), np.abs(np.diff(np.log(points)))
    return bool(linear.max() / linear.min() > logarithmic.max() / logarithmic.min())


def edges(values: Any) -> FloatArray:
    """Borders between points and beyond the outer ones (k + 1,); those of words and of infinity are their numbers.

    >>> edges([1, 2, 4, 8]).round(3)
    array([ 0.707,  1.414,  2.828,  5.657, 11.314])
    >>> edges(["a", "b"])
    array([-0.5,  0.5,  1.5])
    """
    points = np.asarray(values)
    if not is_numeric(points):
        return np.arange(len(points) + 1, dtype=np.float64) - 0.5
    geometric = is_geometric(points)
    along = np.log(points) if geometric else points.astype(np.float64)
    middle = (along[1:] + along[:-1]) / 2
    if not len(middle):
        return np.array([along[0] - 0.5, along[0] + 0.5])
    ends = np.array([2 * along[0] - middle[0], *middle, 2 * along[-1] - middle[-1]])
    return np.asarray(np.exp(ends) if geometric else ends, dtype=np.float64)


def middle(values: Any, number: int) -> float:
    """The position of one of the points on an axis."""
    points = np.asarray(values)
    return float(points[number]) if is_numeric(points) else float(number)


def worth_showing(values: FloatArray, times: float) -> tuple[float, float]:
    """The least and the most that a picture shows, at most so many times the median.

    >>> worth_showing(np.array([0.5, 1.0, 1e300, np.inf, np.nan]), 10.0)
    (0.5, 10.0)
    """
    known = values[np.isfinite(values)]
    if not known.size:
        return 0.0, 0.0
    most = float(known.max())
    return float(known.min()), min(most, times * float(np.median(known))) if known.min() > 0 else most


def label(value: Any) -> str:
    """A value of a dimension in words.

    >>> label(np.float64(0.12345)), label(np.int64(65536)), label("FullBatch")
    ('0.1235', '65536', 'FullBatch')
    """
    return significant(value, 4) if isinstance(value, float) else str(value)


def words(array: "DataArray") -> str:
    """The label of an array, with its unit if it has one."""
    name, unit = array.attrs.get("long_name", array.name), array.attrs.get("units", "")
    return f"{name}, {unit}" if unit not in ("", "1", name) else str(name)


def is_numeric(values: Any) -> bool:
    """True if points are placed by their values: finite numbers in ascending or descending order."""
    points = np.asarray(values)
    if points.dtype.kind not in "iuf" or not np.isfinite(points).all():
        return False
    return bool((np.diff(points) > 0).all() or (np.diff(points) < 0).all())
