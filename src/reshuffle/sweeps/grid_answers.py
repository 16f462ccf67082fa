"""What each point of a grid answers, or the reason why it does not; and all answers as one labelled dataset."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle.epoch.step_interpolation import StepWindow
from reshuffle.planning.answers import heard
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.run.run import Run
from reshuffle.sweeps.asked import QUESTIONS, Question
from reshuffle.sweeps.executors import required
from reshuffle.sweeps.grid import Grid, Point

if TYPE_CHECKING:
    from xarray import Dataset

_AXES = {
    "batches": ("number of batches", "1"),
    "batch_size": ("rows of a batch", "rows"),
    "step": ("step of a visit", "(unit of X)^-2"),
    "alpha": ("full-batch step", "(unit of X)^-2"),
    "momentum": ("momentum", "1"),
    "nesterov": ("whether the momentum is Nesterov's", "1"),
    "penalty": ("weight decay", "1"),
    "scheme": ("how rows are visited", ""),
    "average": ("which average of the iterates is looked at", ""),
    "seed": ("seed of the problem", ""),
    "epochs": ("epochs", "epochs"),
    "output": ("output", ""),
    "parameter": ("parameter", ""),
    "question": ("question", ""),
}
"""What dimensions are called in words, and their units."""


@dataclass(frozen=True, eq=False)
class PointAnswer:
    """The answer to one question.

    Attributes
    ----------
    values : dict
        An array per variable: nan where there is no answer, inf where it grows without bound.
    error_kind : str
        In which sense errors are meant.
    reason : str
        Why there is no answer, or what was said about its accuracy; empty if there is nothing to say.
    """

    values: dict[str, FloatArray]
    error_kind: str = "exact"
    reason: str = ""


def no_answer(question: Question, problem: LeastSquares, epochs: int, reason: str) -> PointAnswer:
    """Nothing but the reason why."""
    missing = {each.name: np.full(each.shape(problem, epochs), np.nan) for each in question.variables}
    return PointAnswer(missing, reason=reason)


def answer_point(
    problem: LeastSquares,
    point: Point,
    names: Sequence[str],
    epochs: FloatArray,
    window: StepWindow | None = None,
) -> list[PointAnswer]:
    """Answer the questions of these names at one point, with mean maps from a window if there is one."""
    run = point.run(problem)
    if window is not None:
        run = run.from_window(run.recipe.at(0).step, window)
    return [_answer(QUESTIONS[name], run, epochs) for name in names]


def _answer(question: Question, run: Run, epochs: FloatArray) -> PointAnswer:
    if not question.is_curve:
        return _asked(question, run, epochs)
    # Finite epochs and the limit are asked for apart: the one may be known without the other.
    finite = np.isfinite(epochs)
    parts = [(chosen, _asked(question, run, epochs[chosen])) for chosen in (finite, ~finite) if chosen.any()]
    if len(parts) == 1:
        return parts[0][1]
    whole = no_answer(question, run.problem, len(epochs), "")
    for chosen, part in parts:
        for name, values in part.values.items():
            whole.values[name][chosen] = values
    kinds = [part.error_kind for _, part in parts if part.error_kind != "exact"]
    reasons = dict.fromkeys(part.reason for _, part in parts if part.reason)
    return PointAnswer(whole.values, kinds[0] if kinds else "exact", "; ".join(reasons))


def _asked(question: Question, run: Run, epochs: FloatArray) -> PointAnswer:
    answered, words = heard(lambda: question.answer(run, epochs))
    if answered is None:
        return no_answer(question, run.problem, len(epochs), words)
    kind, values = answered
    found = {}
    for variable, value in zip(question.variables, values, strict=True):
        shape = variable.shape(run.problem, len(epochs))
        found[variable.name] = np.array(np.broadcast_to(np.asarray(value, dtype=np.float64), shape))
    return PointAnswer(found, kind, words)


def dataset(
    grid: Grid,
    problem: LeastSquares,
    questions: Sequence[Question],
    epochs: FloatArray,
    answers: Iterable[tuple[tuple[int, ...], str, PointAnswer]],
    attributes: Mapping[str, Any],
) -> "Dataset":
    """Put the answer to each question at each place of the grid into arrays with names.

    Parameters
    ----------
    problem : LeastSquares
        Any of the problems: they have as many columns and outputs.
    answers : iterable
        Place, name of the question, answer.
    attributes : dict
        Of the whole dataset.
    """
    variables = {each.name: each for question in questions for each in question.variables}
    arrays = {
        name: np.full((*grid.shape, *each.shape(problem, len(epochs))), np.nan)
        for name, each in variables.items()
    }
    number = {question.name: place for place, question in enumerate(questions)}
    words = {
        name: np.full((*grid.shape, len(questions)), "", dtype=object) for name in ("reason", "error_kind")
    }
    for place, name, answer in answers:
        for variable, value in answer.values.items():
            arrays[variable][place] = value
        words["reason"][(*place, number[name])] = answer.reason
        words["error_kind"][(*place, number[name])] = answer.error_kind
    dims = tuple(grid.values)
    data = {
        name: (
            (*dims, *each.all_dims(problem)),
            arrays[name],
            {"long_name": each.long_name, "units": each.units},
        )
        for name, each in variables.items()
    }
    told = {
        "reason": "why there is no answer, or what was said about its accuracy",
        "error_kind": "in which sense errors are meant",
    }
    for name, text in words.items():
        data[name] = ((*dims, "question"), text.astype(str), {"long_name": told[name], "units": ""})
    coordinates: dict[str, Sequence[Any]] = {**grid.labels, "question": list(number)}
    used = {name for axes, *_ in data.values() for name in axes}
    lengths = {
        "epochs": epochs.tolist(),
        "parameter": range(problem.p),
        "output": range(problem.outputs or 0),
    }
    coordinates |= {name: list(values) for name, values in lengths.items() if name in used}
    return _labelled(data, coordinates, attributes)


def _labelled(
    data: Any, coordinates: Mapping[str, Sequence[Any]], attributes: Mapping[str, Any]
) -> "Dataset":
    xarray = required("xarray", "sweep")
    labelled = {}
    for name, values in coordinates.items():
        long_name, units = _AXES[name]
        labelled[name] = (name, np.asarray(values), {"long_name": long_name, "units": units})
    made: Dataset = xarray.Dataset(data, coords=labelled, attrs=dict(attributes))
    return made
