"""A whole grid of recipes at once: what they share is done once, and what is done is kept."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._progress import track
from reshuffle.problem import checked_problem
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.recipe import Average, StepLike
from reshuffle.schemes import RandomReshuffling
from reshuffle.schemes.base import Scheme
from reshuffle.sweeps import asked
from reshuffle.sweeps import grid as grids
from reshuffle.sweeps.asked import Question
from reshuffle.sweeps.executors import Executor, executor, required
from reshuffle.sweeps.fingerprint import AnswerNames
from reshuffle.sweeps.grid import Point
from reshuffle.sweeps.grid_answers import PointAnswer, dataset, no_answer
from reshuffle.sweeps.kept_answers import KeptAnswers
from reshuffle.sweeps.shared_work import Job, Work

if TYPE_CHECKING:
    from distributed import Client
    from xarray import Dataset

_EPOCHS = (1, 3, 10, 30, 100, 300, 1000)
_ATTEMPTS = 5
"""How often work is begun anew after data were lost with those who held them."""


def sweep(
    problem: LeastSquares | Callable[[int], LeastSquares] | ArrayLike,
    y: ArrayLike | None = None,
    *,
    over: Mapping[str, Sequence[Any]],
    ask: str | Sequence[str] | None = None,
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
    rtol: float = 5e-3,
    budget: float = 1e12,
    n_jobs: int = 1,
    client: "Client | None" = None,
    cache: str | PathLike[str] | None = None,
) -> "Dataset":
    """Ask the same questions of every recipe of a grid; nothing is trained.

    The answer at every point is that of `descend(problem, scheme, ...)`. What recipes share is done once: the mean
    map of an epoch of B shuffled batches is a polynomial of degree B - 1 in the step, so that a hundred steps cost
    B + 1 mean maps. A point without an answer is nan, with the `reason` beside it, and what diverges is inf.

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
    ask : str or list of str, optional
        What is asked: "risk", "expected_risk", "leave_one_out", "training_loss", "excess_training_loss",
        "degrees_of_freedom", "iterate", "limit", "best_epoch", "stability", "critical_step". By default the risk
        if the truth is known, and otherwise leave-one-out.
    epochs : (k,)
        At which epochs, math.inf included, for the questions that are about epochs.
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
        A folder in which every answer is kept as soon as it is there, by a hash of data, recipe, question and
        version: a sweep that was interrupted goes on where it was, and nothing that is not whole is believed.

    Returns
    -------
    xarray.Dataset
        With a dimension per name in `over`, one for the epochs, and "output" if y has several columns. Each
        question has a variable of its name and others for its parts (`risk_bias`), their errors (`risk_error`)
        and the like, with units; `reason` and `error_kind` have a dimension "question".

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
    required("xarray", "sweep")
    fixed = {
        "scheme": scheme, "batches": batches, "batch_size": batch_size,
        "drop_last": _arrays.flag("drop_last", drop_last), "step": step, "alpha": alpha, "momentum": momentum,
        "nesterov": nesterov, "penalty": penalty, "unpenalized": unpenalized, "average": average, "start": start,
        "method": method, "rtol": rtol, "budget": budget,
    }  # fmt: skip
    asked_for = {**fixed, "scheme": None if isinstance(over, Mapping) and "scheme" in over else scheme}
    grid = grids.grid(over, asked_for)
    problems = _problems(problem, y, grid.values.get("seed"))
    when = _epochs(epochs)
    questions = asked.checked(ask, problems)
    workers = executor(n_jobs, client)
    points = grids.points(grid, fixed, problems)
    refused = grids.refusals(points, problems)
    kept = None if cache is None else KeptAnswers(cache)
    names = AnswerNames(problems, when, exact=kept is not None)
    keys = {
        (number, question.name): names.of(number, point, question)
        for number, point in enumerate(points)
        for question in questions
        if number not in refused
    }
    known = _known(kept, keys, problems[0], when, questions)
    for key, answer in _new(keys, known, points, problems, when, workers):
        known[key] = answer
        if kept is not None:
            kept.put(key, answer)
    answers = (
        (
            point.place,
            question.name,
            no_answer(question, problems[0], len(when), refused[number])
            if number in refused
            else known[keys[number, question.name]],
        )
        for number, point in enumerate(points)
        for question in questions
    )
    attributes = _attributes(fixed, names, kept)
    return dataset(grid, problems[0], questions, when, answers, attributes)


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
    if y is not None:
        return [LeastSquares(problem, y)]
    if callable(problem):
        raise TypeError(
            'problem must be a LeastSquares, or over must have the "seed" that this function takes.'
        )
    return [checked_problem(problem)]


def _epochs(epochs: Any) -> FloatArray:
    when = np.atleast_1d(_arrays.epochs(epochs))
    if when.ndim != 1 or not when.size or len(np.unique(when)) < len(when):
        raise ValueError(f"epochs must be a list of different epochs, at least one, but it is {epochs!r}.")
    return when


def _known(
    kept: KeptAnswers | None,
    keys: Mapping[tuple[int, str], str],
    problem: LeastSquares,
    when: FloatArray,
    questions: Sequence[Question],
) -> dict[str, PointAnswer]:
    """The answers that are there already."""
    found: dict[str, PointAnswer] = {}
    if kept is None:
        return found
    shapes = {
        question.name: {each.name: each.shape(problem, len(when)) for each in question.variables}
        for question in questions
    }
    for key, name in {key: name for (_, name), key in keys.items()}.items():
        answer = kept.get(key, shapes[name])
        if answer is not None:
            found[key] = answer
    return found


def _new(
    keys: Mapping[tuple[int, str], str],
    known: Mapping[str, PointAnswer],
    points: Sequence[Point],
    problems: Sequence[LeastSquares],
    when: FloatArray,
    workers: Executor,
) -> Iterator[tuple[str, PointAnswer]]:
    """Those that are not, as they are ready; each is asked for once, wherever it stands in the grid."""
    wanted = {key: place for place, key in reversed(list(keys.items())) if key not in known}
    remaining: dict[int, dict[str, str]] = {}
    for key, (number, name) in sorted(wanted.items(), key=lambda pair: pair[1][0]):
        remaining.setdefault(number, {})[name] = key
    for attempt in range(_ATTEMPTS):
        numbers = list(remaining)
        jobs = [Job(points[number], tuple(remaining[number])) for number in numbers]
        done = Work(problems, jobs, when).done_by(workers)
        try:
            for place, answers in track(done, len(jobs), f"sweeping, {len(known)} answers were there"):
                named = remaining.pop(numbers[place])
                yield from zip(named.values(), answers, strict=True)
            return
        except workers.losses:
            # Data that every worker had are gone if all of them were lost at once: they are handed out again.
            if attempt == _ATTEMPTS - 1:
                raise


def _attributes(fixed: Mapping[str, Any], names: AnswerNames, kept: KeptAnswers | None) -> dict[str, Any]:
    from reshuffle import __version__

    plain: dict[str, Any] = {
        "unpenalized": (),
        "drop_last": False,
        "method": "auto",
        "rtol": 5e-3,
        "budget": 1e12,
    }
    words = [
        f"{name}={grids.label(value)}"
        for name, value in fixed.items()
        if value is not None and not (name in plain and np.array_equal(value, plain[name]))
    ]
    return {
        "recipe": ", ".join(words),
        "version": __version__,
        "data_sha256": ", ".join(names.data) or "unknown",
        "from_cache": 0 if kept is None else kept.found,
        "distrusted": 0 if kept is None else kept.distrusted,
    }
