"""The points of a grid: which recipe each stands for, checked before any work begins; steps if none are named."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from reshuffle import _arrays, schemes
from reshuffle._arrays import FloatArray
from reshuffle.planning.answers import REFUSALS
from reshuffle.planning.mean_steps_left_out import Spectrum
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.recipe import Average
from reshuffle.run.run import Run, descend
from reshuffle.schemes.base import Scheme

_LOWEST, _HIGHEST = 0.01, 2.0
"""In safe steps: the smallest step of the grid, of the smallest safe step, and the largest, of the largest."""
_COUNT = 16


@dataclass(frozen=True, eq=False)
class Point:
    """One point of a grid.

    Attributes
    ----------
    place : tuple of int
        Where it is.
    problem : int
        Which of the problems it is about.
    scheme : Scheme
    recipe : dict
        The arguments of `descend` beside these.
    """

    place: tuple[int, ...]
    problem: int
    scheme: Scheme
    recipe: Mapping[str, Any]

    def run(self, problem: LeastSquares) -> Run:
        """The run that it stands for."""
        return descend(problem, self.scheme, **self.recipe)


@dataclass(frozen=True, eq=False)
class Grid:
    """All points: values and labels by the names of the dimensions, in their order."""

    values: dict[str, list[Any]]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each dimension has."""
        return tuple(len(values) for values in self.values.values())

    @property
    def labels(self) -> dict[str, list[Any]]:
        """What stands along each dimension: numbers, and the words for what is none."""
        return {
            name: [label(value) for value in values] if name in ("scheme", "average") else values
            for name, values in self.values.items()
        }

    def points(self) -> Iterator[tuple[tuple[int, ...], dict[str, Any]]]:
        """Every place, and the values there."""
        places = product(*(range(length) for length in self.shape))
        for place, values in zip(places, product(*self.values.values()), strict=True):
            yield place, dict(zip(self.values, values, strict=True))


def label(value: Any) -> str:
    """The words for a scheme or an average.

    >>> label(schemes.RandomReshuffling), label(schemes.RandomReshuffling(4)), label(None)
    ('RandomReshuffling', 'RandomReshuffling(batches=4)', 'None')
    """
    return value.__name__ if isinstance(value, type) else repr(value)


def _below_one(name: str, value: Any) -> float:
    number = _arrays.nonnegative(name, value)
    if number >= 1:
        raise ValueError(f"{name} must be at least 0 and below 1, but it is {value!r}.")
    return number


def _scheme(name: str, value: Any) -> Any:
    """A scheme, its class, or the name of its class."""
    known = [each for each in schemes.__all__ if each not in ("Scheme", "Shuffle", "Unit")]
    if isinstance(value, str) and value in known:
        return getattr(schemes, value)
    if isinstance(value, Scheme) or (isinstance(value, type) and issubclass(value, Scheme)):
        return value
    raise ValueError(f"{name} must be a scheme, its class or one of {', '.join(known)}, but it is {value!r}.")


def _average(name: str, value: Any) -> Average | None:
    if value is None or isinstance(value, Average):
        return value
    raise TypeError(f"{name} must be None, EMA(...) or TailAverage(...), but it is {value!r}.")


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "batches": lambda name, value: _arrays.whole_number(name, value, 1),
    "batch_size": lambda name, value: _arrays.whole_number(name, value, 1),
    "step": _arrays.nonnegative,
    "alpha": _arrays.nonnegative,
    "momentum": _below_one,
    "nesterov": _arrays.flag,
    "penalty": _arrays.nonnegative,
    "scheme": _scheme,
    "average": _average,
    "seed": lambda name, value: _arrays.whole_number(name, value, 0),
}
"""What a grid may run over, and what each value must be."""


def grid(over: Any, fixed: Mapping[str, Any]) -> Grid:
    """Check the dimensions of a grid; what is fixed must not be among them."""
    if not isinstance(over, Mapping) or not over:
        raise TypeError(
            f'over must say what the grid runs over, such as {{"batches": [2, 4], "step": [0.01, 0.1]}}, '
            f"but it is {over!r}."
        )
    values = {}
    for name, given in over.items():
        if name not in _CHECKS:
            raise ValueError(f"over must hold names among {', '.join(_CHECKS)}, but one is {name!r}.")
        if fixed.get(name) is not None:
            raise TypeError(f"{name} must be given once, but it is in over and beside it too.")
        values[name] = _checked_values(name, given)
    for one, other in (("step", "alpha"), ("batches", "batch_size")):
        both = [name for name in (one, other) if name in values or fixed.get(name) is not None]
        if len(both) == 2:
            raise TypeError(f"at most one of {one} and {other} must be given, but both are.")
    if not any(name in values or fixed.get(name) is not None for name in ("step", "alpha")):
        raise TypeError("exactly one of step and alpha must be given, in over or beside it, but none is.")
    return Grid(values)


def _checked_values(name: str, given: Any) -> list[Any]:
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, (Sequence, np.ndarray, range)):
        raise TypeError(f"over[{name!r}] must be a list of values, but it is {given!r}.")
    if np.ndim(given) != 1 and name not in ("scheme", "average"):
        raise ValueError(f"over[{name!r}] must be a list of values, but it has {np.ndim(given)} dimensions.")
    values = [_CHECKS[name](f"over[{name!r}][{place}]", value) for place, value in enumerate(given)]
    if not values:
        raise ValueError(f"over[{name!r}] must hold at least one value, but it is empty.")
    labels = [label(value) for value in values]
    for one in labels:
        if labels.count(one) > 1:
            raise ValueError(
                f"over[{name!r}] must hold each value once, but {one} is there {labels.count(one)} times."
            )
    return values


_OF_BATCHES = ("batches", "batch_size")
_NOT_OF_DESCENT = ("scheme", "seed", "drop_last", *_OF_BATCHES)


def points(grid: Grid, fixed: Mapping[str, Any], problems: Sequence[LeastSquares]) -> list[Point]:
    """Every point of the grid with its scheme; number k of the problems belongs to seed number k."""
    found = []
    for place, values in grid.points():
        settings = {**fixed, **values}
        number = place[list(grid.values).index("seed")] if "seed" in grid.values else 0
        kind = _scheme("scheme", settings["scheme"])
        scheme = _made(kind, settings, problems[number].n)
        recipe = {
            name: value
            for name, value in settings.items()
            if name not in _NOT_OF_DESCENT and value is not None
        }
        found.append(Point(place, number, scheme, recipe))
    return found


def _made(kind: Any, settings: Mapping[str, Any], n: int) -> Scheme:
    given = {name: settings[name] for name in _OF_BATCHES if settings.get(name) is not None}
    if isinstance(kind, Scheme):
        if given:
            raise TypeError(
                f"{', '.join(given)} must not be given beside {kind!r}, which has batches of its own; "
                f"give the class, {type(kind).__name__}."
            )
        kind.partition(n)
        return kind
    takes = inspect.signature(kind).parameters
    if not takes:
        return _checked(kind(), n)
    wrong = [name for name in given if name not in takes]
    if wrong or not given:
        what = f"but {wrong[0]} is given" if wrong else "but neither batches nor batch_size is given"
        raise TypeError(f"scheme {kind.__name__} is made as {kind.__name__}({kind.example}), {what}.")
    if settings.get("drop_last"):
        given["drop_last"] = True
    return _checked(kind(**given), n)


def _checked(scheme: Scheme, n: int) -> Scheme:
    scheme.partition(n)
    return scheme


def refusals(found: Sequence[Point], problems: Sequence[LeastSquares]) -> dict[int, str]:
    """Why some points are no runs at all, by their number; where none is one, the error of the first is raised."""
    refused: dict[int, str] = {}
    first: Exception | None = None
    for number, point in enumerate(found):
        try:
            point.run(problems[point.problem])
        except REFUSALS as refusal:
            refused[number] = str(refusal)
            first = first or refusal
    if first is not None and len(refused) == len(found):
        raise first
    return refused


def auto_steps(problem: LeastSquares, schemes: Sequence[Scheme], count: int = _COUNT) -> FloatArray:
    """Steps (count,) in even steps of their logarithm, from a hundredth of a safe step up to two of them.

    The safe step of a scheme is one below which single runs converge in the mean square; it is smaller for smaller
    batches, so that the grid begins with the smallest and ends with the largest of all schemes.

    >>> from reshuffle import FullBatch
    >>> auto_steps(LeastSquares([[1.0], [3.0]], [0.0, 0.0]), [FullBatch()], 3).round(4)
    array([0.004 , 0.0566, 0.8   ])
    """
    if not problem.rank:
        raise ValueError("X must not be zero in all its entries, but it is; give steps yourself.")
    spectrum = Spectrum.of(problem)
    safe = [spectrum.safe_step(scheme) for scheme in schemes]
    return np.geomspace(_LOWEST * min(safe), _HIGHEST * max(safe), count)
