"""Grids of recipes at once: work that they share is done once, and answers are cached.

The points of a grid are checked before any work begins. Those that differ in the step alone share their mean maps,
and every answer is computed once, wherever it is in the grid.
"""

import inspect
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays, schemes
from reshuffle._arrays import FloatArray
from reshuffle._progress import track
from reshuffle.epoch.select import Accuracy
from reshuffle.errors import ArgumentError
from reshuffle.grid import workers
from reshuffle.grid.cache import Cache, UnknownContentError, hashed_problems, hashed_question
from reshuffle.grid.metrics import METRICS, REFUSALS, Answer, Metric, answers_of, checked
from reshuffle.problem import checked_problem
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.recipe import Average, StepLike
from reshuffle.run import Run, descend
from reshuffle.schemes import RandomReshuffling
from reshuffle.schemes.base import Scheme

if TYPE_CHECKING:
    from distributed import Client
    from xarray import Dataset

_EPOCHS = (1, 3, 10, 30, 100, 300, 1000)
_ATTEMPTS = 5
"""Attempts at work whose data were lost with the workers that had them."""


def sweep(
    problem: LeastSquares | Callable[[int], LeastSquares] | ArrayLike,
    y: ArrayLike | None = None,
    *,
    over: Mapping[str, Sequence[Any]],
    metrics: str | Sequence[str] | None = None,
    epochs: ArrayLike = _EPOCHS,
    scheme: Scheme | type[Scheme] | str = RandomReshuffling,
    batches: int | None = None,
    batch_size: int | None = None,
    drop_last: bool = False,
    step: StepLike | None = None,
    alpha: StepLike | None = None,
    momentum: float | None = None,
    nesterov: bool | None = None,
    penalty: float | None = None,
    unpenalized: ArrayLike = (),
    average: Average | None = None,
    start: ArrayLike | None = None,
    method: str = "auto",
    rtol: float = Accuracy.rtol,
    budget: float = Accuracy.budget,
    n_jobs: int = 1,
    client: "Client | None" = None,
    cache: str | PathLike[str] | None = None,
    ask: str | Sequence[str] | None = None,
) -> "Dataset":
    """Metrics of every recipe of a grid, as labelled arrays; nothing is trained.

    The answer at every point is that of `descend(problem, scheme, ...)`. What recipes share is done once: the mean
    map of an epoch of B shuffled batches is a polynomial of degree B - 1 in the step, so that a hundred steps cost
    B + 1 mean maps. A point without an answer is nan, with its `reason`, and what diverges is inf: a run that
    surely diverges is found by a few drawn orders, and not followed. Leave-one-out is that of a single run: of the
    mean iterate, plus what random orders add. The former is that of the mean step for large problems, and for many
    fixed batches, with what the order of visits may change as its error; a smaller `rtol` asks for that of the run.

    Parameters
    ----------
    problem : LeastSquares, or (n, p) with y
        Or a function of a seed that makes a problem, if `over` has a "seed".
    y : (n,) or (n, t), optional
        The responses, where `problem` is a matrix of features.
    over : dict
        The dimensions of the grid and the values along each of them: "batches" or "batch_size", "step" or "alpha",
        "momentum", "nesterov", "penalty", "scheme" (schemes, their classes, or the names of these), "average",
        "seed".
    metrics : str or list of str, optional
        "risk", "expected_risk" (of a single run), "leave_one_out" (of a single run), "mean_leave_one_out",
        "training_loss", "expected_training_loss" (of a single run), "excess_training_loss", "degrees_of_freedom",
        "iterate", "limit", "limit_distance", "best_epoch", "stability", "mean_square_stability", "critical_step",
        "mean_square_critical_step". By default the risk if the truth is known, and otherwise leave-one-out.
    epochs : (k,)
        Epochs, math.inf included, for the metrics that depend on them.
    scheme : scheme, class or name of a class
        Where it is not in the grid. A class is given the batches of the grid.
    batches, batch_size, drop_last
        As in schemes.
    step, alpha, momentum, nesterov, penalty, unpenalized, average, start, method, rtol, budget
        As in `descend`, for all points.
    n_jobs : int
        Processes of joblib on this machine, -1 for one per core; each has its share of the cores for its BLAS.
    client : distributed.Client, optional
        Of a Dask cluster, whose workers then do the work.
    cache : path, optional
        A folder in which every answer is stored as soon as it is there, by a hash of data, recipe, metric and
        version: a sweep that was interrupted goes on where it was, and damaged files are computed again.
    ask : str or list of str, optional
        The former name of `metrics`.

    Returns
    -------
    xarray.Dataset
        With a dimension per name in `over`, one for the epochs, and "output" if y has several columns. Each
        metric has a variable of its name and others for its parts (`risk_bias`), their errors (`risk_error`)
        and the like, with units; `reason` and `error_kind` have a dimension "question" with the names of metrics.

    >>> import reshuffle as rs
    >>> problem = rs.gaussian(100, 150, noise=0.5, seed=1)
    >>> found = rs.sweep(problem, over={"batches": [1, 2, 4], "alpha": [0.1, 0.2, 0.4]}, epochs=[1, 10, 100])
    >>> dict(found.sizes)
    {'batches': 3, 'alpha': 3, 'epochs': 3, 'question': 1}
    >>> found["risk"].sel(alpha=0.2, epochs=10).round(4).values.tolist()
    [0.5796, 0.5816, 0.5801]
    >>> best = found["risk"].argmin(...)
    >>> {name: found[name].values[place].item() for name, place in best.items()}
    {'batches': 1, 'alpha': 0.2, 'epochs': 10.0}
    """
    from reshuffle import __version__

    workers.required("xarray", "sweep")
    if ask is not None:
        warnings.warn("ask= is now metrics=.", DeprecationWarning, stacklevel=2)
        metrics = ask if metrics is None else metrics
    fixed: dict[str, Any] = {
        "scheme": scheme, "batches": batches, "batch_size": batch_size,
        "drop_last": _arrays.flag("drop_last", drop_last), "step": step, "alpha": alpha, "momentum": momentum,
        "nesterov": nesterov, "penalty": penalty, "unpenalized": unpenalized, "average": average, "start": start,
        "method": method, "rtol": rtol, "budget": budget,
    }  # fmt: skip
    # A scheme is there by default.
    in_grid = isinstance(over, Mapping) and "scheme" in over
    values = dimensions(over, {**fixed, "scheme": None} if in_grid else fixed)
    problems = _problems(problem, y, values.get("seed"))
    when = np.atleast_1d(_arrays.epochs(epochs))
    if when.ndim != 1 or not when.size or len(np.unique(when)) < len(when):
        raise ArgumentError("epochs", "be a list of different epochs, at least one", f"it is {epochs!r}")
    wanted = checked(metrics, problems)
    computed_by = workers.chosen(n_jobs, client)
    points = grid_points(values, fixed, problems)
    runs: dict[int, Run] = {}
    refused: dict[int, Exception] = {}
    for number, point in enumerate(points):
        try:
            runs[number] = point.run(problems[point.problem])
        except REFUSALS as refusal:
            refused[number] = refusal
    if not runs:
        raise refused[0]
    store = None if cache is None else Cache(cache)
    data = hashed_problems(problems, required=store is not None)
    keys: dict[tuple[int, str], str] = {}
    for (number, run), metric in product(runs.items(), wanted):
        content, key = data[points[number].problem], ""
        try:
            key = hashed_question(run, content, metric, when) if content else ""
        except UnknownContentError:
            if store is not None:
                raise
        keys[number, metric.name] = key or f"{number} {metric.name}"
    known: dict[str, dict[str, Answer]] = {}
    if store is not None:
        for key, name in {key: name for (_, name), key in keys.items()}.items():
            if (answers := store.get(key, METRICS[name])) is not None:
                known[key] = answers
    for key, name, answers in _computed(points, runs, problems, keys, known, when, computed_by):
        known[key] = answers
        if store is not None:
            store.put(key, METRICS[name], answers)
    found = []
    for number in range(len(points)):
        if number in refused:
            none = Answer(np.asarray(np.nan), np.asarray(np.nan), reason=str(refused[number]))
            found.append({each.name: none for metric in wanted for each in metric.quantities})
        else:
            parts = [known[keys[number, metric.name]] for metric in wanted]
            found.append({name: answer for part in parts for name, answer in part.items()})
    defaults = inspect.signature(sweep).parameters
    recipe = [
        f"{name}={label(value)}"
        for name, value in fixed.items()
        if name not in values
        and (name == "scheme" or not (value is None or np.array_equal(value, defaults[name].default)))
    ]
    attributes = {
        "recipe": ", ".join(recipe),
        "version": __version__,
        "data_sha256": ", ".join(data) or "unknown",
        "from_cache": 0 if store is None else store.found,
        "distrusted": 0 if store is None else store.distrusted,
    }
    return _dataset(values, problems[0], wanted, when, found, attributes)


# ------------------------------------------------------------------------------------------- the points of a grid


def _scheme(name: str, value: Any) -> Any:
    """A scheme, its class, or the name of its class."""
    known = [each for each in schemes.__all__ if each not in ("Scheme", "Shuffle", "Unit")]
    if isinstance(value, str) and value in known:
        return getattr(schemes, value)
    if isinstance(value, Scheme) or (isinstance(value, type) and issubclass(value, Scheme)):
        return value
    raise ArgumentError(name, f"be a scheme, its class or one of {', '.join(known)}", f"it is {value!r}")


def _average(name: str, value: Any) -> Average | None:
    if value is None or isinstance(value, Average):
        return value
    raise TypeError(f"{name} must be None, EMA(...) or TailAverage(...), but it is {value!r}.")


_DIMENSIONS: dict[str, tuple[Callable[[str, Any], Any], str, str]] = {
    "batches": (lambda name, value: _arrays.whole_number(name, value, 1), "number of batches", "1"),
    "batch_size": (lambda name, value: _arrays.whole_number(name, value, 1), "rows of a batch", "rows"),
    "step": (_arrays.nonnegative, "step of a visit", "(unit of X)^-2"),
    "alpha": (_arrays.nonnegative, "full-batch step", "(unit of X)^-2"),
    "momentum": (_arrays.below_one, "momentum", "1"),
    "nesterov": (_arrays.flag, "True for Nesterov's momentum", "1"),
    "penalty": (_arrays.nonnegative, "weight decay", "1"),
    "scheme": (_scheme, "how rows are visited", ""),
    "average": (_average, "average of the iterates", ""),
    "seed": (lambda name, value: _arrays.whole_number(name, value, 0), "seed of the problem", ""),
}
"""Dimensions of a grid: the check of a value, the label and the unit."""
_OF_BATCHES = ("batches", "batch_size")
_NOT_OF_DESCENT = ("scheme", "seed", "drop_last", *_OF_BATCHES)


@dataclass(frozen=True, eq=False)
class Point:
    """A point of a grid: the number of its problem, and the scheme and arguments of `descend`."""

    problem: int
    scheme: Scheme
    recipe: Mapping[str, Any]

    def run(self, problem: LeastSquares) -> Run:
        """The run at this point."""
        return descend(problem, self.scheme, **self.recipe)


def dimensions(over: Any, fixed: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The checked values along each dimension of a grid; what is fixed must not be among them."""
    if not isinstance(over, Mapping) or not over:
        raise TypeError(
            f'over must say what the grid runs over, such as {{"batches": [2, 4], "step": [0.01, 0.1]}}, '
            f"but it is {over!r}."
        )
    values = {}
    for name, given in over.items():
        if name not in _DIMENSIONS:
            raise ArgumentError("over", f"hold names among {', '.join(_DIMENSIONS)}", f"one is {name!r}")
        if fixed.get(name) is not None:
            raise TypeError(f"{name} must be given once, but it is in over and outside of it, too.")
        if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, (Sequence, np.ndarray, range)):
            raise TypeError(f"over[{name!r}] must be a list of values, but it is {given!r}.")
        if np.ndim(given) != 1 and name not in ("scheme", "average"):
            allowed = "be a list of values"
            raise ArgumentError(f"over[{name!r}]", allowed, f"it has {np.ndim(given)} dimensions")
        check, _, _ = _DIMENSIONS[name]
        values[name] = [check(f"over[{name!r}][{place}]", value) for place, value in enumerate(given)]
        if not values[name]:
            raise ArgumentError(f"over[{name!r}]", "hold at least one value", "it is empty")
        labels = [label(value) for value in values[name]]
        one, times = Counter(labels).most_common(1)[0]
        if times > 1:
            raise ArgumentError(f"over[{name!r}]", "hold each value once", f"{one} is there {times} times")
    given = {*values, *(name for name, value in fixed.items() if value is not None)}
    for one, other in (("step", "alpha"), ("batches", "batch_size")):
        if {one, other} <= given:
            raise TypeError(f"at most one of {one} and {other} must be given, but both are.")
    if not {"step", "alpha"} & given:
        raise TypeError("exactly one of step and alpha must be given, in over or outside of it, but none is.")
    return values


def label(value: Any) -> str:
    """A scheme or an average as text.

    >>> label(schemes.RandomReshuffling), label(schemes.RandomReshuffling(batches=4)), label(None)
    ('RandomReshuffling', 'RandomReshuffling(batches=4)', 'None')
    """
    return value.__name__ if isinstance(value, type) else repr(value)


def grid_points(
    values: Mapping[str, list[Any]], fixed: Mapping[str, Any], problems: Sequence[LeastSquares]
) -> list[Point]:
    """Every point of a grid, the last dimension fastest; problem number k belongs to seed number k."""
    found = []
    for here in product(*values.values()):
        at = dict(zip(values, here, strict=True))
        settings = {**fixed, **at}
        number = values["seed"].index(at["seed"]) if "seed" in values else 0
        scheme = _made(_scheme("scheme", settings["scheme"]), settings)
        scheme.partition(problems[number].n)
        known = {name: value for name, value in settings.items() if value is not None}
        recipe = {name: value for name, value in known.items() if name not in _NOT_OF_DESCENT}
        found.append(Point(number, scheme, recipe))
    return found


def _made(kind: Any, settings: Mapping[str, Any]) -> Scheme:
    """A scheme with the batches of a point."""
    given = {name: settings[name] for name in _OF_BATCHES if settings.get(name) is not None}
    if isinstance(kind, Scheme):
        if given:
            raise TypeError(
                f"{', '.join(given)} must not be given with {kind!r}, which has batches already; "
                f"give the class, {type(kind).__name__}."
            )
        return kind
    takes = inspect.signature(kind).parameters
    wrong = [name for name in given if name not in takes]
    if takes and (wrong or not given):
        what = f"but {wrong[0]} is given" if wrong else "but neither batches nor batch_size is given"
        raise TypeError(f"scheme {kind.__name__} is made as {kind.__name__}({kind.example}), {what}.")
    if settings.get("drop_last"):
        given["drop_last"] = True
    made: Scheme = kind(**given) if takes else kind()
    return made


def _problems(problem: Any, y: Any, seeds: Sequence[int] | None) -> list[LeastSquares]:
    if seeds is not None:
        if not callable(problem) or y is not None:
            raise TypeError(
                "problem must be a function of the seed, such as functools.partial(rs.gaussian, 200, 300), "
                f'since over has "seed", but it is a {type(problem).__name__}.'
            )
        made = [checked_problem(problem(seed=seed)) for seed in seeds]
        shapes = {(each.p, each.outputs) for each in made}
        if len(shapes) > 1:
            raise ValueError("problem must make problems with as many columns and outputs for every seed.")
        return made
    if y is None and callable(problem):
        raise TypeError(
            'problem must be a LeastSquares, or over must have the "seed" that this function takes.'
        )
    return [checked_problem(problem) if y is None else LeastSquares(problem, y)]


# ---------------------------------------------------------------------------------------------- their answers


def _computed(
    points: Sequence[Point],
    runs: Mapping[int, Run],
    problems: Sequence[LeastSquares],
    keys: Mapping[tuple[int, str], str],
    known: Mapping[str, Any],
    when: FloatArray,
    computed_by: workers.Here,
) -> Iterator[tuple[str, str, dict[str, Answer]]]:
    """Keys, names of metrics and answers that are not known yet, as they are ready; each is computed once."""
    first = {key: place for place, key in reversed(list(keys.items())) if key not in known}
    remaining: dict[int, list[str]] = {}
    for number, name in sorted(first.values()):
        remaining.setdefault(number, []).append(name)
    for number in {points[number].problem for number in remaining}:
        # Every point needs it: it travels with the problem.
        assert problems[number].reduction is not None
    total = len(remaining)
    done = 0
    for attempt in range(_ATTEMPTS):
        families = [
            (points[family[0]].problem, [(number, points[number], remaining[number]) for number in family])
            for family in _families(points, runs, remaining)
        ]
        parts = workers.split(families, computed_by.workers)
        found = computed_by.compute(partial(_of_family, when=when), problems, parts)
        try:
            for number, answers in track(found, total - done, f"sweeping, {len(known)} answers were there"):
                done += 1
                for name in remaining.pop(number):
                    mine = {each.name: answers[each.name] for each in METRICS[name].quantities}
                    yield keys[number, name], name, mine
            return
        except computed_by.losses:
            # Data that every worker had are gone if all of them were lost at once: they are handed out again.
            if attempt == _ATTEMPTS - 1:
                raise


def _families(
    points: Sequence[Point], runs: Mapping[int, Run], remaining: Mapping[int, Sequence[str]]
) -> list[list[int]]:
    """The numbers of points that differ in nothing but the step, and may share mean maps; others by themselves."""
    families: dict[object, list[int]] = {}
    for number, names in remaining.items():
        point, run = points[number], runs[number]
        shares = any(METRICS[name].uses_mean_map for name in names)
        if not (shares and run.scheme.is_symmetric and run.recipe.is_plain):
            families[number] = [number]
            continue
        rest = {name: value for name, value in sorted(point.recipe.items()) if name not in ("step", "alpha")}
        families.setdefault((point.problem, point.scheme, repr(rest)), []).append(number)
    return list(families.values())


def _of_family(
    problem: LeastSquares, items: list[tuple[int, Point, Sequence[str]]], when: FloatArray
) -> Iterator[tuple[int, dict[str, Answer]]]:
    """Numbers and answers of points that differ in the step alone, from mean maps at a few steps."""
    runs = {number: point.run(problem) for number, point, _ in items}
    names = {number: wanted for number, _, wanted in items}
    steps = {number: run.recipe.at(0).step for number, run in runs.items()} if len(items) > 1 else {}
    for step, shared in next(iter(runs.values())).at_steps(list(steps.values())) if steps else ():
        for number in [number for number in runs if steps[number] == step]:
            del runs[number]
            yield number, answers_of(shared, names[number], when)
    for number, run in runs.items():
        yield number, answers_of(run, names[number], when)


def _dataset(
    values: Mapping[str, list[Any]],
    problem: LeastSquares,
    wanted: Sequence[Metric],
    epochs: FloatArray,
    found: Sequence[Mapping[str, Answer]],
    attributes: Mapping[str, Any],
) -> "Dataset":
    """The answers at all points, in the order of the grid, as labelled arrays."""
    grid, data = tuple(map(len, values.values())), {}

    def add(name: str, axes: Any, shape: tuple[int, ...], entries: Any, text: str, unit: str) -> None:
        arrays = np.array([np.broadcast_to(entry, shape) for entry in entries])
        notes = {"long_name": text, "units": unit}
        data[name] = ((*values, *axes), arrays.reshape(*grid, *shape), notes)

    for each in (quantity for metric in wanted for quantity in metric.quantities):
        answers, axes = [point[each.name] for point in found], each.axes(problem)
        shape = each.shape(problem, epochs.shape)
        add(each.name, axes, shape, [answer.value for answer in answers], each.label, each.unit)
        if each.error:
            axes = tuple(name for name in axes if name != "parameter")
            shape = each.shape(problem, epochs.shape, of_error=True)
            errors = [answer.error for answer in answers]
            add(f"{each.name}_error", axes, shape, errors, f"error of the {each.label}", each.unit)
    words = {
        "reason": "why there is no answer, or a warning about its accuracy",
        "error_kind": "meaning of errors",
    }
    for name, text in words.items():
        entries = [[getattr(point[metric.quantities[0].name], name) for metric in wanted] for point in found]
        add(name, ["question"], (len(wanted),), entries, text, "")
    labels = {name: words for name, (_, *words) in _DIMENSIONS.items()} | {"epochs": ("epochs", "epochs")}
    along: dict[str, Any] = {
        name: [label(value) for value in each] if name in ("scheme", "average") else each
        for name, each in values.items()
    }
    along |= {"question": [metric.name for metric in wanted], "epochs": epochs.tolist()}
    along |= {"parameter": range(problem.p), "output": range(problem.outputs or 0)}
    used = {name for axes, *_ in data.values() for name in axes}
    coordinates = {}
    for name in filter(used.__contains__, along):
        long_name, units = labels.get(name, (name, ""))
        coordinates[name] = (name, np.asarray(along[name]), {"long_name": long_name, "units": units})
    made: Dataset = workers.required("xarray", "sweep").Dataset(data, coordinates, attributes)
    return made
