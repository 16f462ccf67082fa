"""What one point of a grid answers: numbers, or the reason why there are none."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reshuffle._core import FloatArray
from reshuffle.epoch.shared_steps import StepWindow
from reshuffle.planning.answers import heard
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.run.run import Run
from reshuffle.sweeps.asked import QUESTIONS, Question
from reshuffle.sweeps.grid import Cell


@dataclass(frozen=True, eq=False)
class CellAnswer:
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


def no_answer(question: Question, problem: LeastSquares, epochs: int, reason: str) -> CellAnswer:
    """Nothing but the reason why."""
    missing = {each.name: np.full(each.shape(problem, epochs), np.nan) for each in question.variables}
    return CellAnswer(missing, reason=reason)


def answer_cell(
    problem: LeastSquares,
    cell: Cell,
    names: Sequence[str],
    epochs: FloatArray,
    window: StepWindow | None = None,
) -> list[CellAnswer]:
    """Answer the questions of these names at one point, with mean maps from a window if there is one."""
    run = cell.run(problem)
    if window is not None:
        run = run.from_window(run.recipe.at(0).step, window)
    return [_answer(QUESTIONS[name], run, epochs) for name in names]


def _answer(question: Question, run: Run, epochs: FloatArray) -> CellAnswer:
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
    return CellAnswer(whole.values, kinds[0] if kinds else "exact", "; ".join(reasons))


def _asked(question: Question, run: Run, epochs: FloatArray) -> CellAnswer:
    answered, words = heard(lambda: question.answer(run, epochs))
    if answered is None:
        return no_answer(question, run.problem, len(epochs), words)
    kind, values = answered
    found = {}
    for variable, value in zip(question.variables, values, strict=True):
        shape = variable.shape(run.problem, len(epochs))
        found[variable.name] = np.array(np.broadcast_to(np.asarray(value, dtype=np.float64), shape))
    return CellAnswer(found, kind, words)
