"""What can be asked of every point of a grid: one entry per question."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.run.critical_steps import critical_step
from reshuffle.run.run import Run

_SQUARE, _STEP = "(unit of y)^2", "(unit of X)^-2"
Values: TypeAlias = tuple[str, Sequence[Any]]
"""The kind of the errors, and an array per variable."""


@dataclass(frozen=True)
class Variable:
    """One array among the answers to a question.

    Attributes
    ----------
    name, long_name, units : str
    dims : tuple of str
        Beside those of the grid: "epochs", "parameter".
    per_output : bool
        Whether there is one per output where y has several.
    """

    name: str
    long_name: str
    units: str = _SQUARE
    dims: tuple[str, ...] = ("epochs",)
    per_output: bool = True

    def shape(self, problem: LeastSquares, epochs: int) -> tuple[int, ...]:
        """Of this variable at one point of the grid."""
        lengths = {"epochs": epochs, "parameter": problem.p}
        outputs = () if problem.outputs is None or not self.per_output else (problem.outputs,)
        return (*(lengths[name] for name in self.dims), *outputs)

    def all_dims(self, problem: LeastSquares) -> tuple[str, ...]:
        """The names of the axes of `shape`."""
        return (*self.dims, *(("output",) if problem.outputs is not None and self.per_output else ()))


@dataclass(frozen=True)
class Question:
    """What is asked of a run.

    Attributes
    ----------
    name : str
    variables : tuple of Variable
    answer : callable
        run, epochs -> the kind of the errors and an array per variable.
    needs_truth : bool
    knows_mean : bool
        Whether it is answered from the mean map of an epoch, which steps share.
    knows_step : bool
        Whether the answer depends on the step.
    """

    name: str
    variables: tuple[Variable, ...]
    answer: Callable[[Run, FloatArray], Values]
    needs_truth: bool = False
    knows_mean: bool = True
    knows_step: bool = True

    @property
    def is_curve(self) -> bool:
        """Whether it is asked at epochs."""
        return "epochs" in self.variables[0].dims


def _risk(run: Run, epochs: FloatArray) -> Values:
    found = run.risk(epochs)
    return found.error_kind, (found.total, found.frozen, found.bias, found.cross, found.variance, found.error)


def _expected_risk(run: Run, epochs: FloatArray) -> Values:
    found = run.expected_risk(epochs)
    return found.error_kind, (found.total, found.mean, found.spread, found.error)


def _leave_one_out(run: Run, epochs: FloatArray) -> Values:
    found = run.leave_one_out(epochs)
    return found.error_kind, (found.mean_square, found.standard_error, found.error)


def _training_loss(run: Run, epochs: FloatArray) -> Values:
    return run.error_kind, (run.training_loss(epochs), run.training_loss_error(epochs))


def _iterate(run: Run, epochs: FloatArray) -> Values:
    return run.error_kind, (run.iterate(epochs), run.iterate_error(epochs))


def _limit(run: Run, epochs: FloatArray) -> Values:
    found = run.limit()
    risk = (np.nan, 0.0) if found.risk is None else (found.risk.total, found.risk.error)
    shape = np.shape(found.training_loss)
    both = (found.training_loss, found.training_loss_error, *risk)
    return found.error_kind, [np.broadcast_to(np.asarray(part, dtype=np.float64), shape) for part in both]


def _best_epoch(run: Run, epochs: FloatArray) -> Values:
    found = run.best_epoch()
    parts = found.epoch, found.risk, found.risk_error, found.standard_error
    shape = np.shape(found.epoch)
    return str(np.ravel(found.error_kind)[0]), [
        np.broadcast_to(np.asarray(part, dtype=np.float64), shape) for part in parts
    ]


def _stability(run: Run, epochs: FloatArray) -> Values:
    found = run.stability()
    return found.error_kind, (found.rate, float(found.converges), found.error)


def _critical_step(run: Run, epochs: FloatArray) -> Values:
    recipe = run.recipe
    found = critical_step(
        run.problem,
        run.scheme,
        penalty=recipe.penalty,
        momentum=recipe.momentum,
        nesterov=recipe.nesterov,
        unpenalized=recipe.unpenalized,
    )
    return found.error_kind, (float(found), found.error)


def _error(name: str, of: str, units: str = _SQUARE, dims: tuple[str, ...] = ("epochs",)) -> Variable:
    return Variable(f"{name}_error", f"how far {of} may be off", units, dims)


def _of_point(name: str, long_name: str, units: str = _SQUARE, per_output: bool = True) -> Variable:
    return Variable(name, long_name, units, (), per_output)


QUESTIONS = {
    question.name: question
    for question in (
        Question(
            "risk",
            (
                Variable("risk", "risk of the mean iterate"),
                Variable("risk_frozen", "risk of what is never learned"),
                Variable("risk_bias", "risk of what is not learned yet"),
                Variable("risk_cross", "cross term of what is frozen and what is learned"),
                Variable("risk_variance", "risk from the noise in the responses"),
                _error("risk", "the risk"),
            ),
            _risk,
            needs_truth=True,
        ),
        Question(
            "expected_risk",
            (
                Variable("expected_risk", "expected risk of a single run"),
                Variable("expected_risk_mean", "risk of the mean iterate"),
                Variable("expected_risk_spread", "what shuffling adds to the risk"),
                _error("expected_risk", "the expected risk"),
            ),
            _expected_risk,
            needs_truth=True,
        ),
        Question(
            "leave_one_out",
            (
                Variable("leave_one_out", "test error by leave-one-out, noise included"),
                Variable("leave_one_out_standard_error", "standard error of leave-one-out, as rows are a sample"),
                _error("leave_one_out", "leave-one-out"),
            ),
            _leave_one_out,
            knows_mean=False,
        ),
        Question(
            "training_loss",
            (
                Variable("training_loss", "training loss of the mean iterate"),
                _error("training_loss", "the training loss"),
            ),
            _training_loss,
        ),
        Question(
            "excess_training_loss",
            (Variable("excess_training_loss", "training loss above that of least squares"),),
            lambda run, epochs: (run.error_kind, (run.excess_training_loss(epochs),)),
        ),
        Question(
            "degrees_of_freedom",
            (Variable("degrees_of_freedom", "degrees of freedom of the fit", "1", per_output=False),),
            lambda run, epochs: (run.error_kind, (run.degrees_of_freedom(epochs),)),
        ),
        Question(
            "iterate",
            (
                Variable("iterate", "mean iterate", "unit of y per unit of the column", ("epochs", "parameter")),
                _error("iterate", "the mean iterate in Euclidean norm", "unit of y per unit of the columns"),
            ),
            _iterate,
        ),
        Question(
            "limit",
            (
                _of_point("limit_training_loss", "training loss in the limit of many epochs"),
                _error("limit_training_loss", "the training loss in the limit", dims=()),
                _of_point("limit_risk", "risk in the limit of many epochs"),
                _error("limit_risk", "the risk in the limit", dims=()),
            ),
            _limit,
        ),
        Question(
            "best_epoch",
            (
                _of_point("best_epoch", "the epoch to stop at", "epochs"),
                _of_point("best_epoch_risk", "risk there, or leave-one-out if the truth is unknown"),
                _error("best_epoch_risk", "the risk there", dims=()),
                _of_point("best_epoch_standard_error", "standard error of leave-one-out there"),
            ),
            _best_epoch,
        ),
        Question(
            "stability",
            (
                _of_point("rate", "what the slowest mode is multiplied by per epoch", "1", False),
                _of_point("converges", "whether the mean iterate converges: 1 if so, else 0", "1", False),
                _of_point("rate_error", "how far the rate may be off", "1", False),
            ),
            _stability,
        ),
        Question(
            "critical_step",
            (
                _of_point("critical_step", "step up to which the mean iterate converges", _STEP, False),
                _of_point("critical_step_error", "how far the critical step may be off", _STEP, False),
            ),
            _critical_step,
            knows_mean=False,
            knows_step=False,
        ),
    )
}  # fmt: skip
"""By name. A new question is one more entry."""


def checked(ask: Any, problems: Sequence[LeastSquares]) -> list[Question]:
    """Return the questions of these names, if the problems can answer them; by default that of the test error."""
    if ask is None:
        knows = all(problem.beta_star is not None and problem.noise is not None for problem in problems)
        ask = "risk" if knows else "leave_one_out"
    names = [ask] if isinstance(ask, str) else list(ask)
    if not names:
        raise ValueError(f"ask must name at least one question of {', '.join(QUESTIONS)}, but it is empty.")
    for name in names:
        if name not in QUESTIONS:
            raise ValueError(f"ask must be among {', '.join(QUESTIONS)}, but one is {name!r}.")
        if names.count(name) > 1:
            raise ValueError(
                f"ask must name a question once, but {name!r} is there {names.count(name)} times."
            )
        if QUESTIONS[name].needs_truth:
            for problem in problems:
                problem.require_truth(f"ask={name!r}")
    return [QUESTIONS[name] for name in names]
