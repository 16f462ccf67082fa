"""Metrics: one table of the questions that a run answers, and their evaluation over several runs.

A metric has a name, its quantities (arrays with a label and a unit), and a function that asks a run. `evaluate`
takes metrics over runs; where a run refuses an answer it has the reason. A run that surely diverges is found by a
few drawn orders and answered with infinity: nobody waits for the digits of such a mean.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._budget import A_SECOND, duration, warnings_of
from reshuffle._linalg import norm
from reshuffle._progress import track
from reshuffle._uncertainty import ErrorKind, plus_minus, significant, weakest
from reshuffle.errors import AccuracyWarning, BudgetError
from reshuffle.grid import mean_step, single_runs
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.run import Run, critical_step, descend
from reshuffle.run.critical_steps import Rate
from reshuffle.schemes import FullBatch
from reshuffle.schemes.base import Shuffle
from reshuffle.simulation import simulate, single_run

REFUSALS = (ValueError, TypeError, ArithmeticError, BudgetError, MemoryError)
"""Exceptions that refuse an answer; all others are bugs and are not caught."""
_WATCHED, _BEYOND = 5, 1e4
"""Epochs of a single run, and the size of its predictions over its first residuals that means divergence."""
_QUICKLY_DRAWN = 1e8
"""Rows times the square of the rank, up to which drawn orders tell whether a run diverges."""
_SHOWN = 1e-6
"""Relative error of an answer that is written down with it."""
_ROUNDING = 1e-12
"""Relative distance of two solutions that are the same but for rounding."""
_AT_ONCE = 64
"""Epochs whose iterates are in memory at the same time."""
_SQUARE, _STEP, _EPOCHS = "(unit of y)^2", "(unit of X)^-2", ("epochs",)


@dataclass(frozen=True, eq=False)
class Answer:
    """A number or an array, its error, and the reason where it is not known.

    Attributes
    ----------
    value : array
        nan where there is no answer, inf where it grows without bound.
    error : array
        Of the same shape, in the sense of `error_kind`.
    error_kind : str
    reason : str
        Why there is no answer, or a warning about its accuracy; empty if there is nothing to say.
    refusal : Exception, optional
        The exception that refused an answer.
    warnings : tuple of AccuracyWarning
        What was said about the accuracy.
    """

    value: FloatArray
    error: FloatArray = field(default_factory=lambda: np.zeros(()))
    error_kind: ErrorKind = "exact"
    reason: str = ""
    refusal: Exception | None = None
    warnings: tuple[AccuracyWarning, ...] = ()

    @property
    def is_known(self) -> bool:
        """True if no entry is missing."""
        return not bool(np.isnan(self.value).any())

    def text(self, place: int = 0, infinite: str = "diverges") -> str:
        """One of the entries as text: four digits, or as many as a visible error leaves; a word or `?`.

        >>> [Answer(np.asarray(value)).text() for value in (0.123456, math.inf, math.nan)]
        ['0.1235', 'diverges', '?']
        >>> Answer(np.asarray(0.123456), np.asarray(0.00234)).text()
        '0.1235 ± 0.0023'
        """
        value = float(np.ravel(self.value)[place])
        error = float(np.broadcast_to(self.error, self.value.shape).ravel()[place])
        if math.isnan(value):
            return "?"
        if math.isinf(value):
            return infinite
        return plus_minus(value, error) if error > _SHOWN * abs(value) else significant(value, 4)


def ask(question: Callable[[], tuple[ArrayLike, ArrayLike, ErrorKind]]) -> Answer:
    """Answer a question for a value, its error and its kind; keep the reason where it is refused.

    >>> ask(lambda: (3.0, 0.0, "exact")).text()
    '3'
    """
    try:
        (value, error, kind), words = warnings_of(question)
    except REFUSALS as refusal:
        return Answer(np.asarray(math.nan), reason=str(refusal), refusal=refusal)
    return Answer(np.asarray(value), np.asarray(error), kind, "; ".join(dict.fromkeys(map(str, words))))


@dataclass(frozen=True)
class Quantity:
    """One array among the answers to a metric.

    Attributes
    ----------
    name, label, unit : str
    dims : tuple of str
        Its axes: "epochs", "parameter".
    per_output : bool
        True if it has one more axis where y has several outputs.
    has_error : bool
        True if it comes with an error, which has no axis "parameter".
    """

    name: str
    label: str
    unit: str = _SQUARE
    dims: tuple[str, ...] = _EPOCHS
    per_output: bool = True
    has_error: bool = False

    def axes(self, problem: LeastSquares) -> tuple[str, ...]:
        """The names of its axes."""
        return (*self.dims, *(("output",) if self.per_output and problem.outputs is not None else ()))

    def shape(
        self, problem: LeastSquares, epochs: Sequence[int], *, of_error: bool = False
    ) -> tuple[int, ...]:
        """Its shape, or that of its error, for epochs of a given shape."""
        lengths = {"epochs": tuple(epochs), "output": (problem.outputs or 0,)}
        lengths["parameter"] = () if of_error else (problem.p,)
        return tuple(length for name in self.axes(problem) for length in lengths[name])


Found: TypeAlias = tuple[ErrorKind, Mapping[str, Any]]
"""The kind of the errors, and by the name of each quantity its value, or a pair of its value and its error."""


@dataclass(frozen=True)
class Metric:
    """A question to a run.

    Attributes
    ----------
    name : str
    quantities : tuple of Quantity
        The first is the one that is ranked and drawn.
    ask : callable
        run, epochs (k,) -> `Found`.
    needs_truth : bool
        True if it needs beta_star and the noise level.
    uses_mean_map : bool
        True if it follows from the mean map of an epoch, which runs with other steps may share.
    depends_on_step : bool
    diverged : callable, optional
        rate per epoch, its error -> `Found`, without epochs, of a run that diverges.
    operations : callable, optional
        run, epochs -> the price, where it is known beforehand.
    """

    name: str
    quantities: tuple[Quantity, ...]
    ask: Callable[[Run, FloatArray], Found]
    needs_truth: bool = False
    uses_mean_map: bool = True
    depends_on_step: bool = True
    diverged: Callable[[float, float], Mapping[str, Any]] | None = None
    operations: Callable[[Run, FloatArray], float] | None = None

    @property
    def label(self) -> str:
        """The label of its first quantity."""
        return self.quantities[0].label

    @property
    def unit(self) -> str:
        """The unit of its first quantity."""
        return self.quantities[0].unit

    @property
    def needs_epochs(self) -> bool:
        """True if it depends on epochs."""
        return "epochs" in self.quantities[0].dims


def evaluate(
    runs: Sequence[Run],
    metrics: Iterable[str | Metric],
    epochs: ArrayLike = (),
    *,
    operations: float = math.inf,
) -> list[dict[str, Answer]]:
    """Answers of every run to every metric, by the names of quantities; with the reason where one is refused.

    Finite epochs and the limit are computed apart: one may be known without the other. The mean iterate of a run
    that surely diverges is infinite from the epoch on at which it has grown tenfold; before that, it is computed to
    a twentieth of the digits.

    Parameters
    ----------
    runs : sequence of Run
    metrics : iterable of str or Metric
        Names in `METRICS`, or metrics of your own such as `held_out_loss(problem)`.
    epochs : array of any shape
        For the metrics that depend on epochs.
    operations : float
        A metric whose price is known to be higher is refused.

    >>> import reshuffle as rs
    >>> run = rs.descend(rs.gaussian(100, 20, noise=0.5, seed=1), rs.RandomReshuffling(batches=4), alpha=1.0)
    >>> (found,) = evaluate([run], ["risk", "stability"], [1, 10])
    >>> found["risk"].value.round(4), found["rate"].text(), found["converges"].text()
    (array([0.1035, 0.0636]), '0.7401', '1')
    """
    chosen = list(metrics)
    when = _arrays.epochs(epochs) if np.size(epochs) else np.zeros(0)
    return [answers_of(run, chosen, when, operations) for run in track(runs, len(runs), "recipes")]


def answers_of(
    run: Run, metrics: Iterable[str | Metric], epochs: FloatArray, operations: float = math.inf
) -> dict[str, Answer]:
    """Answers of one run, as in `evaluate`, at epochs that were checked."""
    answers: dict[str, Answer] = {}
    for metric in metrics:
        asked = METRICS[metric] if isinstance(metric, str) else metric
        answers |= _answers(asked, run, epochs, operations)
    return answers


def _answers(metric: Metric, run: Run, epochs: FloatArray, operations: float) -> dict[str, Answer]:
    growth = _growth(run) if metric.depends_on_step else None
    if not metric.needs_epochs:
        if growth is None:
            return _asked(metric, run, epochs, operations)
        if metric.diverged is not None:
            found = metric.diverged(growth.value, growth.most - growth.value)
            return _filled(metric, run, epochs.shape, growth.error_kind, found, _diverges(growth.value))
        # The best epoch of such a run is an early one.
        reached = bool(run.has_diverged(np.ones(())))
        return _asked(metric, _at_start(run) if reached else run.relaxed, epochs, operations)
    hopeless = run.has_diverged(epochs) & (growth is not None)
    is_zero, finite = (epochs == 0) & (growth is not None), np.isfinite(epochs)
    parts: list[tuple[Any, dict[str, Answer]]] = []
    for chosen, asked in (
        (is_zero, _at_start),
        (finite & ~hopeless & ~is_zero, lambda run: run if growth is None else run.relaxed),
        (~finite & ~hopeless, lambda run: run),
    ):
        if chosen.any():
            parts.append((chosen, _asked(metric, asked(run), epochs[chosen], operations)))
    if growth is not None and hopeless.any():
        infinite = {
            each.name: (math.inf, math.inf) if each.has_error else math.inf for each in metric.quantities
        }
        words = _diverges(growth.value)
        parts.append((hopeless, _filled(metric, run, (int(hopeless.sum()),), "estimate", infinite, words)))
    if not parts:
        return _refused(metric, run, epochs.shape, ValueError(f"epochs must be given for {metric.name}."))
    return {
        each.name: _joined(each, run.problem, epochs, [(chosen, found[each.name]) for chosen, found in parts])
        for each in metric.quantities
    }


def _growth(run: Run) -> Rate | None:
    """Growth per epoch of a run that diverges: by a few drawn orders, or by a single run where these take long."""
    problem, scheme, recipe = run.problem, run.scheme, run.recipe
    is_drawn = recipe.is_constant and scheme.shuffle is Shuffle.EVERY_EPOCH and not problem.stream
    if not is_drawn or problem.n * problem.rank**2 <= _QUICKLY_DRAWN:
        return run.divergence
    run.divergence = None
    alone, when = run if problem.outputs is None else run.output(0), np.array([1.0, 1.0 + _WATCHED])
    trained = single_run(
        alone.problem, scheme, replace(recipe, average=None), alone.start, when, run.accuracy.seed
    )
    with np.errstate(invalid="ignore", over="ignore"):
        first, last = (norm(problem.X @ (parameters - alone.start)) for parameters in trained)
    if not last <= _BEYOND * norm(alone.problem.y - problem.X @ alone.start):
        rate = (last / first) ** (1 / _WATCHED) if np.isfinite(last) else math.inf
        run.divergence = Rate(rate, 1.0, math.inf, "estimate")
    return run.divergence


def _diverges(rate: float) -> str:
    return f"diverges: the mean iterate grows about {significant(rate, 2)}-fold per epoch; try a smaller step"


def _at_start(run: Run) -> Run:
    """A run from the same start of which every answer after 0 epochs is the same, at no cost."""
    return descend(
        run.problem,
        FullBatch(),
        critical_step(run.problem, FullBatch()) / 2,
        start=run.start,
    )


def _asked(metric: Metric, run: Run, epochs: FloatArray, operations: float) -> dict[str, Answer]:
    def question() -> Found:
        if metric.operations is not None and math.isfinite(operations):
            price = metric.operations(run, epochs)
            if price > max(operations, A_SECOND):
                raise BudgetError(f"the {metric.label} takes {duration(price)}.", hint=("fewer batches",))
        return metric.ask(run, epochs)

    try:
        (kind, found), words = warnings_of(question)
    except REFUSALS as refusal:
        return _refused(metric, run, epochs.shape, refusal)
    answers = _filled(metric, run, epochs.shape, kind, found, "; ".join(dict.fromkeys(map(str, words))))
    return {name: replace(answer, warnings=tuple(words)) for name, answer in answers.items()}


def _refused(metric: Metric, run: Run, epochs: Sequence[int], refusal: Exception) -> dict[str, Answer]:
    missing = {each.name: math.nan for each in metric.quantities}
    answers = _filled(metric, run, epochs, "exact", missing, str(refusal))
    return {name: replace(answer, refusal=refusal) for name, answer in answers.items()}


def _filled(
    metric: Metric, run: Run, epochs: Sequence[int], kind: ErrorKind, found: Mapping[str, Any], words: str
) -> dict[str, Answer]:
    """Answers with arrays of the shapes that the quantities have."""
    answers = {}
    for each in metric.quantities:
        pair = found[each.name] if isinstance(found[each.name], tuple) else (found[each.name], 0.0)
        shapes = (each.shape(run.problem, epochs, of_error=of_error) for of_error in (False, True))
        value, error = (
            np.array(np.broadcast_to(np.asarray(part, dtype=np.float64), shape))
            for part, shape in zip(pair, shapes, strict=True)
        )
        answers[each.name] = Answer(value, error, kind, words)
    return answers


def _joined(
    quantity: Quantity, problem: LeastSquares, epochs: FloatArray, parts: list[tuple[Any, Answer]]
) -> Answer:
    """One answer from those at some of the epochs each."""
    value = np.full(quantity.shape(problem, epochs.shape), np.nan)
    error = np.zeros(quantity.shape(problem, epochs.shape, of_error=True))
    for chosen, part in parts:
        value[chosen], error[chosen] = part.value, part.error
    kinds = [part.error_kind for _, part in parts if part.error_kind != "exact"]
    reasons = dict.fromkeys(part.reason for _, part in parts if part.reason)
    refusals = [part.refusal for _, part in parts if part.refusal is not None]
    kind: ErrorKind = kinds[0] if kinds else "exact"
    warnings = tuple(warning for _, part in parts for warning in part.warnings)
    return Answer(value, error, kind, "; ".join(reasons), refusals[0] if refusals else None, warnings)


# ---------------------------------------------------------------------------------------------------- the table


def _risk(run: Run, epochs: FloatArray) -> Found:
    found = run.risk(epochs)
    parts = {f"risk_{name}": getattr(found, name) for name in ("frozen", "bias", "cross", "variance")}
    return found.error_kind, {"risk": (found.total, found.error), **parts}


def _expected_risk(run: Run, epochs: FloatArray) -> Found:
    found = run.expected_risk(epochs)
    return found.error_kind, {
        "expected_risk": (found.total, found.error),
        "expected_risk_mean": found.mean,
        "expected_risk_spread": (found.spread, found.error),
    }


def _mean_leave_one_out(run: Run, epochs: FloatArray) -> Found:
    by_mean_step = mean_step.left_out(run, epochs)
    found = run.leave_one_out(epochs) if by_mean_step is None else by_mean_step[0]
    error, kind = (found.error, found.error_kind) if by_mean_step is None else (by_mean_step[1], "estimate")
    return kind, {
        "mean_leave_one_out": (found.mean_square, error),
        "mean_leave_one_out_standard_error": found.standard_error,
    }


def _leave_one_out(run: Run, epochs: FloatArray) -> Found:
    """Leave-one-out of the mean iterate, plus what random orders add in a single run."""
    kind, of_mean = _mean_leave_one_out(run, epochs)
    (mean, error), (spread, off, of_spread) = of_mean["mean_leave_one_out"], single_runs.spread(run, epochs)
    return weakest(kind, of_spread), {
        "leave_one_out": (mean + spread, error + off),
        "leave_one_out_spread": (spread, off),
        "leave_one_out_standard_error": of_mean["mean_leave_one_out_standard_error"],
    }


def _expected_training_loss(run: Run, epochs: FloatArray) -> Found:
    """The loss of the mean iterate plus tr(X Cov X') / (2n)."""
    variance, off, kind = single_runs.fitted_variance(run, epochs)
    spread, error = variance / (2 * run.problem.n), off / (2 * run.problem.n)
    total = run.training_loss(epochs) + spread, run.training_loss_error(epochs) + error
    kind = kind if error.any() else run.error_kind
    return kind, {"expected_training_loss": total, "expected_training_loss_spread": (spread, error)}


def _limit(run: Run, epochs: FloatArray) -> Found:
    found = run.limit()
    return found.error_kind, {
        "limit_training_loss": (found.training_loss, found.training_loss_error),
        "limit_risk": (np.nan, 0.0) if found.risk is None else (found.risk.total, found.risk.error),
    }


def _limit_distance(run: Run, epochs: FloatArray) -> Found:
    found = run.compare_limit()
    agree = found.distance <= _ROUNDING * norm(found.minimum_norm)
    return found.error_kind, {"limit_distance": (0.0 if agree else found.distance, found.error)}


def _best_epoch(run: Run, epochs: FloatArray) -> Found:
    found = run.best_epoch()
    return str(np.ravel(found.error_kind)[0]), {  # type: ignore[return-value]
        "best_epoch": found.epoch,
        "best_epoch_risk": (found.risk, found.risk_error),
        "best_epoch_standard_error": found.standard_error,
        "best_epoch_gap": found.error,
    }


def _stability(run: Run, epochs: FloatArray) -> Found:
    found = run.stability()
    return found.error_kind, {"rate": (found.rate, found.error), "converges": float(found.converges)}


def _mean_square_stability(run: Run, epochs: FloatArray) -> Found:
    found = run.mean_square_stability()
    rate, converges = (found.rate, found.error), float(found.converges)
    return found.error_kind, {"mean_square_rate": rate, "mean_square_converges": converges}


def _threshold(name: str, mean_square: bool, label: str) -> Metric:
    def asked(run: Run, epochs: FloatArray) -> Found:
        recipe = run.recipe
        found = critical_step(
            run.problem, run.scheme, mean_square=mean_square, penalty=recipe.penalty, momentum=recipe.momentum,
            nesterov=recipe.nesterov, unpenalized=recipe.unpenalized,
        )  # fmt: skip
        return found.error_kind, {name: (float(found), found.error)}

    quantity = Quantity(name, label, _STEP, (), per_output=False, has_error=True)
    return Metric(name, (quantity,), asked, uses_mean_map=False, depends_on_step=False)


def _method(name: str, label: str, has_error: bool = False, **others: Any) -> Metric:
    """A metric with one quantity: the method of a run that has its name, and the one of its error."""

    def asked(run: Run, epochs: FloatArray) -> Found:
        error = getattr(run, f"{name}_error")(epochs) if has_error else 0.0
        return run.error_kind, {name: (getattr(run, name)(epochs), error)}

    return Metric(name, (Quantity(name, label, has_error=has_error, **others),), asked)


def _quantities(labels: Mapping[str, str], errors: Iterable[str] = (), **common: Any) -> tuple[Quantity, ...]:
    """Quantities with these labels, by name; those in `errors` have one."""
    known = set(errors)
    return tuple(Quantity(name, label, has_error=name in known, **common) for name, label in labels.items())


_AT_END: dict[str, Any] = {"dims": (), "unit": "1", "per_output": False}
_RISK = {
    "risk": "risk of the mean iterate",
    "risk_frozen": "risk of what is never learned",
    "risk_bias": "risk of what is not learned yet",
    "risk_cross": "cross term of what is frozen and what is learned",
    "risk_variance": "risk from the noise in the responses",
}
_EXPECTED_RISK = {
    "expected_risk": "expected risk of a single run",
    "expected_risk_mean": "risk of the mean iterate",
    "expected_risk_spread": "risk that shuffling adds",
}
_LEAVE_ONE_OUT = {
    "leave_one_out": "test error of a single run by leave-one-out, noise included",
    "leave_one_out_spread": "test error that shuffling adds",
    "leave_one_out_standard_error": "standard error of leave-one-out, as rows are a sample",
}
_MEAN_LEAVE_ONE_OUT = {
    "mean_leave_one_out": "test error of the mean iterate by leave-one-out, noise included",
    "mean_leave_one_out_standard_error": "standard error of leave-one-out, as rows are a sample",
}
_EXPECTED_LOSS = {
    "expected_training_loss": "expected training loss of a single run",
    "expected_training_loss_spread": "training loss that shuffling adds",
}
_LIMIT = {
    "limit_training_loss": "training loss in the limit of many epochs",
    "limit_risk": "risk in the limit of many epochs",
}
_DISTANCE = {"limit_distance": "distance of the limit from least squares"}
_WHEN = Quantity("best_epoch", "epoch to stop at", "epochs", ())
_BEST = {
    "best_epoch_risk": "risk there, or leave-one-out if the truth is unknown",
    "best_epoch_standard_error": "standard error of leave-one-out there",
    "best_epoch_gap": "amount by which the risk may be smaller at another epoch",
}
_RATE = {
    "rate": "factor of the slowest mode per epoch",
    "converges": "1 if the mean iterate converges, else 0",
}
_SQUARE_RATE = {
    "mean_square_rate": "factor of the mean square of a run per epoch",
    "mean_square_converges": "1 if single runs converge in mean square, else 0",
}
_TABLE = (
    Metric("risk", _quantities(_RISK, ["risk"]), _risk, needs_truth=True),
    Metric(
        "expected_risk", _quantities(_EXPECTED_RISK, ["expected_risk", "expected_risk_spread"]), _expected_risk,
        needs_truth=True, operations=lambda run, epochs: run.second_moment_choice(epochs).method.operations,
    ),
    Metric(
        "leave_one_out", _quantities(_LEAVE_ONE_OUT, ["leave_one_out", "leave_one_out_spread"]), _leave_one_out,
        uses_mean_map=False,
    ),
    Metric(
        "mean_leave_one_out", _quantities(_MEAN_LEAVE_ONE_OUT, ["mean_leave_one_out"]), _mean_leave_one_out,
        uses_mean_map=False,
    ),
    _method("training_loss", "training loss of the mean iterate", has_error=True),
    Metric("expected_training_loss", _quantities(_EXPECTED_LOSS, _EXPECTED_LOSS), _expected_training_loss),
    _method("excess_training_loss", "training loss above that of least squares"),
    _method("degrees_of_freedom", "degrees of freedom of the fit", unit="1", per_output=False),
    _method(
        "iterate", "mean iterate", has_error=True, unit="unit of y per unit of the column",
        dims=("epochs", "parameter"),
    ),
    Metric(
        "limit", _quantities(_LIMIT, _LIMIT, dims=()), _limit,
        diverged=lambda rate, error: dict.fromkeys(_LIMIT, math.inf),
    ),
    Metric(
        "limit_distance", _quantities(_DISTANCE, _DISTANCE, **{**_AT_END, "unit": "unit of y per unit of X"}),
        _limit_distance,
        diverged=lambda rate, error: {"limit_distance": math.inf},
    ),
    Metric(
        "best_epoch", (_WHEN, *_quantities(_BEST, ["best_epoch_risk"], dims=())), _best_epoch,
        operations=lambda run, epochs: run.best_epoch_operations,
    ),
    Metric(
        "stability", _quantities(_RATE, ["rate"], **_AT_END), _stability,
        diverged=lambda rate, error: {"rate": (rate, error), "converges": 0.0},
    ),
    Metric(
        "mean_square_stability", _quantities(_SQUARE_RATE, ["mean_square_rate"], **_AT_END), _mean_square_stability,
        diverged=lambda rate, error: {"mean_square_rate": (math.inf, math.inf), "mean_square_converges": 0.0},
    ),
    _threshold("critical_step", False, "step up to which the mean iterate converges"),
    _threshold("mean_square_critical_step", True, "step up to which single runs converge in mean square"),
)  # fmt: skip
METRICS = {metric.name: metric for metric in _TABLE}
"""The metrics by name. A new question is one more entry of the table."""


def held_out_loss(problem: LeastSquares) -> Metric:
    """The loss |y - X b|^2 / (2m) of the mean iterate b on m other rows."""
    largest = float(np.linalg.norm(problem.X, 2)) if problem.X.size else 0.0

    def asked(run: Run, epochs: FloatArray) -> Found:
        losses = []
        for start in range(0, len(epochs), _AT_ONCE):
            iterates = run.iterate(epochs[start : start + _AT_ONCE])
            with np.errstate(over="ignore", invalid="ignore"):
                losses.append(np.square(iterates @ problem.X.T - problem.y).mean(axis=-1) / 2)
        loss = np.concatenate(losses)
        loss = np.where(np.isfinite(loss), loss, np.inf)
        error = error_of_loss(problem.n, loss, largest * run.iterate_error(epochs))
        return run.error_kind, {"held_out_loss": (loss, error)}

    quantity = Quantity("held_out_loss", "held-out loss of the mean iterate", has_error=True)
    return Metric("held_out_loss", (quantity,), asked)


def error_of_loss(n: int, loss: ArrayLike, shift: ArrayLike) -> FloatArray:
    """Error of a loss |r|^2 / (2n) if the residuals r are off by `shift`: ((|r| + shift)^2 - |r|^2) / (2n)."""
    with np.errstate(over="ignore", invalid="ignore"):
        error = np.sqrt(2 * np.asarray(loss) / n) * shift + np.square(shift) / (2 * n)
    return np.where(np.asarray(shift) == 0, 0.0, np.where(np.isnan(error), np.inf, error))


def simulated(runs: int, seed: int = 0, *, knows_truth: bool) -> Metric:
    """Averages over simulated runs, with two standard errors: risks if the truth is known, else the training loss.

    The error of the training loss is a bound, whatever the correlations of the parameters.
    """
    risks = ("simulated_risk", "simulated_expected_risk") if knows_truth else ()

    def asked(run: Run, epochs: FloatArray) -> Found:
        recipe, problem = run.recipe, run.problem
        found = simulate(
            problem, run.scheme, run.step, epochs=epochs, runs=runs, seed=seed, start=run.start,
            fresh_noise=knows_truth, penalty=recipe.penalty, momentum=recipe.momentum, nesterov=recipe.nesterov,
            unpenalized=recipe.unpenalized, average=recipe.average,
        )  # fmt: skip
        if found.risk is not None and found.expected_risk is not None and knows_truth:
            estimates = zip(risks, (found.risk, found.expected_risk), strict=True)
            return "estimate", {name: (one.mean, 2 * one.standard_error) for name, one in estimates}
        with np.errstate(over="ignore", invalid="ignore"):
            loss = np.square(found.iterate.mean @ problem.X.T - problem.y).mean(axis=-1) / 2
            shift = 2 * found.iterate.standard_error @ np.linalg.norm(problem.X, axis=0)
        loss = np.where(np.isfinite(loss), loss, np.inf)
        return "estimate", {"simulated_training_loss": (loss, error_of_loss(problem.n, loss, shift))}

    labels = {
        "simulated_risk": "simulated risk of the mean iterate",
        "simulated_expected_risk": "simulated risk of a single run",
        "simulated_training_loss": "simulated training loss of the mean iterate",
    }
    chosen = {name: labels[name] for name in risks or ("simulated_training_loss",)}
    return Metric("simulated", _quantities(chosen, chosen), asked, uses_mean_map=False)


def checked(metrics: Any, problems: Sequence[LeastSquares]) -> list[Metric]:
    """Return the metrics of these names, if the problems can answer them; by default that of the test error."""
    if metrics is None:
        knows = all(problem.beta_star is not None and problem.noise is not None for problem in problems)
        metrics = "risk" if knows else "leave_one_out"
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    if not names:
        raise ValueError(f"metrics must name at least one of {', '.join(METRICS)}, but it is empty.")
    for name in names:
        if name not in METRICS:
            raise ValueError(f"metrics must be among {', '.join(METRICS)}, but one is {name!r}.")
        if names.count(name) > 1:
            raise ValueError(
                f"metrics must name a metric once, but {name!r} is there {names.count(name)} times."
            )
        if METRICS[name].needs_truth:
            for problem in problems:
                problem.require_truth(f"metrics={name!r}")
    return [METRICS[name] for name in names]
