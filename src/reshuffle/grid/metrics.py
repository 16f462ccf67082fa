"""Metrics: one table of the questions that a run answers, and their evaluation over several runs.

A metric has a name, its quantities (arrays with a label and a unit), and a function that asks a run. `evaluate`
takes metrics over runs; where a run refuses an answer it has the reason. A run that surely diverges is found by a
few drawn orders and answered with infinity: nobody waits for the digits of such a mean.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._budget import A_SECOND, duration, warnings_of
from reshuffle._linalg import few_threads, norm, spectral_norm
from reshuffle._progress import track
from reshuffle._uncertainty import ErrorKind, plus_minus, significant, weakest
from reshuffle.epoch.select import LEFT_OUT
from reshuffle.errors import AccuracyWarning, ArgumentError, BudgetError
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.run import Run, critical_step, descend
from reshuffle.run.critical_steps import Rate
from reshuffle.schemes import FullBatch
from reshuffle.schemes.base import Shuffle
from reshuffle.simulation import simulate, single_run
from reshuffle.validation import single_runs
from reshuffle.validation.leave_one_out import LeaveOneOut, by_mean_step

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
    """A number or an array, its error, and the reason where it is not known."""

    value: FloatArray  # nan where there is no answer, inf where it grows without bound
    error: FloatArray = field(default_factory=lambda: np.zeros(()))  # of the same shape
    error_kind: ErrorKind = "exact"
    reason: str = ""  # why there is no answer, or a warning about its accuracy
    refusal: Exception | None = None  # the exception that refused an answer
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
    """One array among the answers to a metric."""

    name: str
    label: str
    value: str = "value"  # the attribute of an answer that holds it
    error: str = ""  # that of its error, which has no axis "parameter"; empty if there is none
    unit: str = _SQUARE
    dims: tuple[str, ...] = _EPOCHS  # its axes: "epochs", "parameter"
    per_output: bool = True  # True if it has one more axis where y has several outputs

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


@dataclass(frozen=True)
class Metric:
    """A question to a run.

    `ask` takes a run and epochs (k,) to an answer with the attributes of the quantities and `error_kind`; by
    default it is the run's method with the name of the metric. `diverged` takes the rate per epoch of a run that
    diverges, and its error, to the value of each quantity by its name, or a pair of its value and its error.
    """

    name: str
    quantities: tuple[Quantity, ...]  # the first is the one that is ranked and drawn
    ask: Callable[[Run, FloatArray], Any] | None = None
    needs_truth: bool = False  # True if it needs beta_star and the noise level
    uses_mean_map: bool = True  # True if it follows from the mean map, which runs with other steps may share
    depends_on_step: bool = True
    diverged: Callable[[float, float], Mapping[str, Any]] | None = None
    operations: Callable[[Run, FloatArray], float] | None = None  # the price, where it is known beforehand

    @property
    def label(self) -> str:
        """The label of its first quantity."""
        return self.quantities[0].label

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

    Metrics are names in `METRICS`, or others such as `held_out_loss(problem)`. One whose price is known to be more
    than so many `operations` is refused.

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
    with few_threads(min(run.problem.n, run.problem.p)):
        for metric in metrics:
            asked = METRICS[metric] if isinstance(metric, str) else metric
            answers |= _answers(asked, run, epochs, operations)
    return answers


def _answers(metric: Metric, run: Run, epochs: FloatArray, operations: float) -> dict[str, Answer]:
    growth, words = _growth(run) if metric.depends_on_step else None, ""
    if growth is not None:
        fold = f"{significant(growth.value, 2)}-fold"
        words = f"diverges: the mean iterate grows about {fold} per epoch; try a smaller step"
    if not metric.needs_epochs:
        if growth is None:
            return _asked(metric, run, epochs, operations)
        if metric.diverged is not None:
            found = metric.diverged(growth.value, growth.most - growth.value)
            return _filled(metric, run, epochs.shape, growth.error_kind, found, words)
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
    if hopeless.any():
        infinite = {each.name: (math.inf, math.inf) if each.error else math.inf for each in metric.quantities}
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


def _at_start(run: Run) -> Run:
    """A run from the same start of which every answer after 0 epochs is the same, at no cost."""
    step = critical_step(run.problem, FullBatch()) / 2
    return descend(run.problem, FullBatch(), step, start=run.start)


def _asked(metric: Metric, run: Run, epochs: FloatArray, operations: float) -> dict[str, Answer]:
    def question() -> Any:
        if metric.operations is not None and math.isfinite(operations):
            price = metric.operations(run, epochs)
            if price > max(operations, A_SECOND):
                raise BudgetError(f"the {metric.label} takes {duration(price)}.", hint=("fewer batches",))
        if metric.ask is not None:
            return metric.ask(run, epochs)
        return getattr(run, metric.name)(*[epochs] * metric.needs_epochs)

    try:
        answer, words = warnings_of(question)
    except REFUSALS as refusal:
        return _refused(metric, run, epochs.shape, refusal)
    found = {
        each.name: (getattr(answer, each.value), getattr(answer, each.error) if each.error else 0.0)
        for each in metric.quantities
    }
    said, kind = "; ".join(dict.fromkeys(map(str, words))), np.ravel(answer.error_kind)[0]
    return _filled(metric, run, epochs.shape, kind, found, said, warnings=tuple(words))


def _refused(metric: Metric, run: Run, epochs: Sequence[int], refusal: Exception) -> dict[str, Answer]:
    missing = {each.name: math.nan for each in metric.quantities}
    return _filled(metric, run, epochs, "exact", missing, str(refusal), refusal=refusal)


def _filled(
    metric: Metric, run: Run, epochs: Sequence[int], kind: ErrorKind, found: Mapping[str, Any], words: str,
    **others: Any,
) -> dict[str, Answer]:  # fmt: skip
    """Answers with arrays of the shapes that the quantities have."""
    answers = {}
    for each in metric.quantities:
        value, error = found[each.name] if isinstance(found[each.name], tuple) else (found[each.name], 0.0)
        full = np.full(each.shape(run.problem, epochs), value, dtype=np.float64)
        off = np.full(each.shape(run.problem, epochs, of_error=True), error, dtype=np.float64)
        answers[each.name] = Answer(full, off, kind, words, **others)
    return answers


def _joined(
    quantity: Quantity, problem: LeastSquares, epochs: FloatArray, parts: list[tuple[Any, Answer]]
) -> Answer:
    """One answer from those at some of the epochs each."""
    value = np.full(quantity.shape(problem, epochs.shape), np.nan)
    error = np.zeros(quantity.shape(problem, epochs.shape, of_error=True))
    for chosen, part in parts:
        value[chosen], error[chosen] = part.value, part.error
    kind: ErrorKind = next((part.error_kind for _, part in parts if part.error_kind != "exact"), "exact")
    reasons = dict.fromkeys(part.reason for _, part in parts if part.reason)
    refusal = next((part.refusal for _, part in parts if part.refusal is not None), None)
    warnings = tuple(warning for _, part in parts for warning in part.warnings)
    return Answer(value, error, kind, "; ".join(reasons), refusal, warnings)


# ---------------------------------------------------------------------------------------------------- the table


def _mean_leave_one_out(run: Run, epochs: FloatArray) -> LeaveOneOut:
    # The other formulas may take seconds of every recipe, or minutes of many fixed batches.
    return by_mean_step(run, epochs, hurried=True) or run.leave_one_out(epochs)


def _leave_one_out(run: Run, epochs: FloatArray) -> Any:
    """Leave-one-out of the mean iterate, plus what random orders add in a single run."""
    found = _mean_leave_one_out(run, epochs)
    allowed = run.accuracy.of(LEFT_OUT) * found.standard_error
    spread, off, kind = single_runs.spread(run, epochs, allowed=allowed)
    return SimpleNamespace(
        mean_square=found.mean_square + spread, error=found.error + off, spread=spread, spread_error=off,
        standard_error=found.standard_error, error_kind=weakest(found.error_kind, kind),
    )  # fmt: skip


def _expected_training_loss(run: Run, epochs: FloatArray) -> Any:
    """The loss of the mean iterate plus tr(X Cov X') / (2n)."""
    variance, off, kind = single_runs.fitted_variance(run, epochs)
    spread, spread_error = variance / (2 * run.problem.n), off / (2 * run.problem.n)
    error = run.training_loss_error(epochs) + spread_error
    return SimpleNamespace(
        total=run.training_loss(epochs) + spread, error=error, spread=spread, spread_error=spread_error,
        error_kind=kind if error.any() else run.error_kind,
    )  # fmt: skip


def _limit(run: Run, epochs: FloatArray) -> Any:
    found = run.limit()
    risk, error = (math.nan, 0.0) if found.risk is None else (found.risk.total, found.risk.error)
    return SimpleNamespace(**vars(found) | {"risk": risk, "risk_error": error})


def _limit_distance(run: Run, epochs: FloatArray) -> Any:
    found = run.compare_limit()
    agree = found.distance <= _ROUNDING * norm(found.minimum_norm)
    return replace(found, distance=0.0) if agree else found


def _metric(
    name: str, *parts: Sequence[Any], ask: Callable[[Run, FloatArray], Any] | None = None,
    dims: tuple[str, ...] = _EPOCHS, per_output: bool = True, **others: Any,
) -> Metric:  # fmt: skip
    """A metric whose parts are name, label, value, error and unit of its quantities, as in `Quantity`."""
    along: Any = {"dims": dims, "per_output": per_output}
    return Metric(name, tuple(Quantity(*part, **along) for part in parts), ask, **others)


def _threshold(name: str, mean_square: bool, label: str) -> Metric:
    def asked(run: Run, epochs: FloatArray) -> Any:
        recipe = run.recipe
        found = critical_step(
            run.problem, run.scheme, mean_square=mean_square, penalty=recipe.penalty, momentum=recipe.momentum,
            nesterov=recipe.nesterov, unpenalized=recipe.unpenalized,
        )  # fmt: skip
        return SimpleNamespace(value=float(found), error=found.error, error_kind=found.error_kind)

    others: Any = {"dims": (), "per_output": False, "uses_mean_map": False, "depends_on_step": False}
    return _metric(name, (name, label, "value", "error", _STEP), ask=asked, **others)


def _method(name: str, label: str, error: str = "", unit: str = _SQUARE, **others: Any) -> Metric:
    """A metric with one quantity: the array of the method of a run that has its name, and that of its error."""

    def asked(run: Run, epochs: FloatArray) -> Any:
        off = getattr(run, f"{name}_error")(epochs) if error else 0.0
        return SimpleNamespace(value=getattr(run, name)(epochs), error=off, error_kind=run.error_kind)

    return _metric(name, (name, label, "value", error, unit), ask=asked, **others)


_OVER_ROWS = "standard error of leave-one-out, as rows are a sample"
_TABLE = (
    _metric(
        "risk",
        ("risk", "risk of the mean iterate", "total", "error"),
        ("risk_frozen", "risk of what is never learned", "frozen"),
        ("risk_bias", "risk of what is not learned yet", "bias"),
        ("risk_cross", "cross term of what is frozen and what is learned", "cross"),
        ("risk_variance", "risk from the noise in the responses", "variance"),
        needs_truth=True,
    ),
    _metric(
        "expected_risk",
        ("expected_risk", "expected risk of a single run", "total", "error"),
        ("expected_risk_mean", "risk of the mean iterate", "mean"),
        ("expected_risk_spread", "risk that shuffling adds", "spread", "error"),
        needs_truth=True, operations=lambda run, epochs: run.second_moment_choice(epochs).method.operations,
    ),
    _metric(
        "leave_one_out",
        ("leave_one_out", "test error of a single run by leave-one-out, noise included", "mean_square", "error"),
        ("leave_one_out_spread", "test error that shuffling adds", "spread", "spread_error"),
        ("leave_one_out_standard_error", _OVER_ROWS, "standard_error"),
        ask=_leave_one_out, uses_mean_map=False,
    ),
    _metric(
        "mean_leave_one_out",
        (
            "mean_leave_one_out", "test error of the mean iterate by leave-one-out, noise included",
            "mean_square", "error",
        ),
        ("mean_leave_one_out_standard_error", _OVER_ROWS, "standard_error"),
        ask=_mean_leave_one_out, uses_mean_map=False,
    ),
    _method("training_loss", "training loss of the mean iterate", "error"),
    _metric(
        "expected_training_loss",
        ("expected_training_loss", "expected training loss of a single run", "total", "error"),
        ("expected_training_loss_spread", "training loss that shuffling adds", "spread", "spread_error"),
        ask=_expected_training_loss,
    ),
    _method("excess_training_loss", "training loss above that of least squares"),
    _method("degrees_of_freedom", "degrees of freedom of the fit", unit="1", per_output=False),
    _method("iterate", "mean iterate", "error", "unit of y per unit of the column", dims=("epochs", "parameter")),
    _metric(
        "limit",
        (
            "limit_training_loss", "training loss in the limit of many epochs",
            "training_loss", "training_loss_error",
        ),
        ("limit_risk", "risk in the limit of many epochs", "risk", "risk_error"),
        ask=_limit, dims=(),
        diverged=lambda rate, error: {"limit_training_loss": math.inf, "limit_risk": math.inf},
    ),
    _metric(
        "limit_distance",
        (
            "limit_distance", "distance of the limit from least squares",
            "distance", "error", "unit of y per unit of X",
        ),
        ask=_limit_distance, dims=(), per_output=False,
        diverged=lambda rate, error: {"limit_distance": math.inf},
    ),
    _metric(
        "best_epoch",
        ("best_epoch", "epoch to stop at", "epoch", "", "epochs"),
        ("best_epoch_risk", "risk there, or leave-one-out if the truth is unknown", "risk", "risk_error"),
        ("best_epoch_standard_error", "standard error of leave-one-out there", "standard_error"),
        ("best_epoch_gap", "amount by which the risk may be smaller at another epoch", "error"),
        dims=(), operations=lambda run, epochs: run.best_epoch_operations,
    ),
    _metric(
        "stability",
        ("rate", "factor of the slowest mode per epoch", "rate", "error", "1"),
        ("converges", "1 if the mean iterate converges, else 0", "converges", "", "1"),
        dims=(), per_output=False, diverged=lambda rate, error: {"rate": (rate, error), "converges": 0.0},
    ),
    _metric(
        "mean_square_stability",
        ("mean_square_rate", "factor of the mean square of a run per epoch", "rate", "error", "1"),
        ("mean_square_converges", "1 if single runs converge in mean square, else 0", "converges", "", "1"),
        dims=(), per_output=False,
        diverged=lambda rate, error: {"mean_square_rate": (math.inf, math.inf), "mean_square_converges": 0.0},
    ),
    _threshold("critical_step", False, "step up to which the mean iterate converges"),
    _threshold("mean_square_critical_step", True, "step up to which single runs converge in mean square"),
)  # fmt: skip
METRICS = {metric.name: metric for metric in _TABLE}
"""The metrics by name. A new question is one more entry of the table."""


def held_out_loss(problem: LeastSquares) -> Metric:
    """The loss |y - X b|^2 / (2m) of the mean iterate b on m other rows."""
    largest = spectral_norm(problem.X)

    def asked(run: Run, epochs: FloatArray) -> Any:
        parts = np.split(epochs, range(_AT_ONCE, len(epochs), _AT_ONCE))
        loss = np.concatenate([_loss(problem, run.iterate(part)) for part in parts])
        error = error_of_loss(problem.n, loss, largest * run.iterate_error(epochs))
        return SimpleNamespace(value=loss, error=error, error_kind=run.error_kind)

    part = ("held_out_loss", "held-out loss of the mean iterate", "value", "error")
    return _metric("held_out_loss", part, ask=asked)


def _loss(problem: LeastSquares, iterates: FloatArray) -> FloatArray:
    """The loss |y - X b|^2 / (2n) of each b (..., p); inf where it leaves the range of numbers."""
    with np.errstate(over="ignore", invalid="ignore"):
        loss = np.square(iterates @ problem.X.T - problem.y).mean(axis=-1) / 2
    return np.where(np.isfinite(loss), loss, np.inf)


def error_of_loss(n: int, loss: ArrayLike, shift: ArrayLike) -> FloatArray:
    """Error of a loss |r|^2 / (2n) if the residuals r are off by `shift`: ((|r| + shift)^2 - |r|^2) / (2n)."""
    with np.errstate(over="ignore", invalid="ignore"):
        error = np.sqrt(2 * np.asarray(loss) / n) * shift + np.square(shift) / (2 * n)
    return np.where(np.asarray(shift) == 0, 0.0, np.where(np.isnan(error), np.inf, error))


def simulated(runs: int, seed: int = 0, *, knows_truth: bool) -> Metric:
    """Averages over simulated runs, with two standard errors: risks if the truth is known, else the training loss.

    The error of the training loss is a bound, whatever the correlations of the parameters.
    """

    def asked(run: Run, epochs: FloatArray) -> Any:
        recipe, problem = run.recipe, run.problem
        found = simulate(
            problem, run.scheme, run.step, epochs=epochs, runs=runs, seed=seed, start=run.start,
            fresh_noise=knows_truth, penalty=recipe.penalty, momentum=recipe.momentum, nesterov=recipe.nesterov,
            unpenalized=recipe.unpenalized, average=recipe.average,
        )  # fmt: skip
        if found.risk is not None and found.expected_risk is not None and knows_truth:
            one, other = found.risk, found.expected_risk
            return SimpleNamespace(
                risk=one.mean, risk_error=2 * one.standard_error, expected=other.mean,
                expected_error=2 * other.standard_error, error_kind="estimate",
            )  # fmt: skip
        with np.errstate(over="ignore", invalid="ignore"):
            shift = 2 * found.iterate.standard_error @ np.linalg.norm(problem.X, axis=0)
        loss = _loss(problem, found.iterate.mean)
        return SimpleNamespace(value=loss, error=error_of_loss(problem.n, loss, shift), error_kind="estimate")

    parts = [
        ("simulated_risk", "simulated risk of the mean iterate", "risk", "risk_error"),
        ("simulated_expected_risk", "simulated risk of a single run", "expected", "expected_error"),
        ("simulated_training_loss", "simulated training loss of the mean iterate", "value", "error"),
    ]
    return _metric("simulated", *(parts[:2] if knows_truth else parts[2:]), ask=asked, uses_mean_map=False)


def checked(metrics: Any, problems: Sequence[LeastSquares]) -> list[Metric]:
    """Return the metrics of these names, if the problems can answer them; by default that of the test error."""
    if metrics is None:
        knows = all(problem.beta_star is not None and problem.noise is not None for problem in problems)
        metrics = "risk" if knows else "leave_one_out"
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    if not names:
        raise ArgumentError("metrics", f"name at least one of {', '.join(METRICS)}", "it is empty")
    for name in names:
        if name not in METRICS:
            raise ArgumentError("metrics", f"be among {', '.join(METRICS)}", f"one is {name!r}")
        if names.count(name) > 1:
            allowed = "name a metric once"
            raise ArgumentError("metrics", allowed, f"{name!r} is there {names.count(name)} times")
        for problem in problems if METRICS[name].needs_truth else ():
            problem.require_truth(f"metrics={name!r}")
    return [METRICS[name] for name in names]
