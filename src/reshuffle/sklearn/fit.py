"""The fit behind the estimators: checked data and parameters, standardized rows, and the run on them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from reshuffle import _arrays
from reshuffle._arrays import FloatArray, IntArray
from reshuffle.errors import UnsupportedError
from reshuffle.problem import LeastSquares
from reshuffle.problem.sources import Stream
from reshuffle.problem.standardizer import Standardizer
from reshuffle.recipe import StepLike, recipe
from reshuffle.recipe.schedules import checked_steps
from reshuffle.run import Run, descend
from reshuffle.schemes import (
    Cyclic,
    FullBatch,
    RandomReshuffling,
    SampleReshuffling,
    SampleWithReplacement,
    Scheme,
    ShuffleOnce,
    base,
)
from reshuffle.simulation import single_run

_HALVINGS = 60
"""Halvings of the automatic step with momentum, at most."""
_SHUFFLES: Mapping[bool | str, Any] = {
    True: SampleReshuffling,
    False: Cyclic,
    "batches": RandomReshuffling,
    "once": ShuffleOnce,
    "replacement": SampleWithReplacement,
}


@dataclass(frozen=True, eq=False)
class Data:
    """Rows (n, p), responses (n,) or (n, t), and weights (n,) or None."""

    X: FloatArray
    y: FloatArray
    weights: FloatArray | None

    @classmethod
    def checked(cls, estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None, least: int) -> "Data":
        """The checked arguments of `fit`, with at least `least` rows; sets `n_features_in_` on the estimator."""
        X, y = validate_data(
            estimator,
            X,
            y,
            accept_sparse="csr",
            dtype=np.float64,
            multi_output=True,
            y_numeric=True,
            ensure_min_samples=least,
        )
        weights = None if sample_weight is None else checked_weights(sample_weight, X.shape[0])
        return cls(_arrays.real_array("X", X), np.asarray(y, dtype=np.float64), weights)

    def part(self, rows: IntArray) -> "Data":
        """Some of the rows."""
        return Data(self.X[rows], self.y[rows], None if self.weights is None else self.weights[rows])


def checked_rows(estimator: Any, X: Any) -> FloatArray:
    """The checked argument of `predict`."""
    rows = validate_data(estimator, X, reset=False, accept_sparse="csr", dtype=np.float64)
    return _arrays.real_array("X", rows)


def checked_weights(sample_weight: Any, n: int) -> FloatArray:
    """Weights (n,), finite, none below zero and not all of them zero.

    >>> checked_weights([1, -1], 2)
    Traceback (most recent call last):
    ...
    ValueError: sample_weight must be >= 0, but sample_weight[1] is -1.0; drop such rows, or give them weight zero.
    """
    weights = _arrays.vector("sample_weight", sample_weight, n, "one weight per row of X")
    if (weights < 0).any():
        where = int(np.flatnonzero(weights < 0)[0])
        raise ValueError(
            f"sample_weight must be >= 0, but sample_weight[{where}] is {weights[where]}; "
            "drop such rows, or give them weight zero."
        )
    if not weights.any():
        raise ValueError("sample_weight must not be zero for all rows: then there is nothing to learn from.")
    return weights


def checked_epochs(value: Any) -> float:
    """A whole number of epochs of at least one, or math.inf.

    >>> checked_epochs(0)
    Traceback (most recent call last):
    ...
    ValueError: epochs must be a whole number of at least 1 or math.inf, but it is 0.
    """
    if isinstance(value, float) and value == math.inf:
        return math.inf
    try:
        return _arrays.whole_number("epochs", value, 1)
    except ValueError:
        message = f"epochs must be a whole number of at least 1 or math.inf, but it is {value!r}."
    raise ValueError(message)


def loader_scheme(batch_size: Any, shuffle: Any, drop_last: Any) -> Scheme:
    """The scheme of a DataLoader with these arguments.

    >>> loader_scheme(32, True, False), loader_scheme(32, "once", True), loader_scheme(None, True, False)
    (SampleReshuffling(batch_size=32), ShuffleOnce(batch_size=32, drop_last=True), FullBatch())
    >>> loader_scheme(32, "always", False)
    Traceback (most recent call last):
    ...
    ValueError: shuffle must be True, False, "batches", "once" or "replacement", but it is 'always'.
    """
    drop_last = _arrays.flag("drop_last", drop_last)
    is_flag = isinstance(shuffle, (bool, np.bool_))
    if not (is_flag or (isinstance(shuffle, str) and shuffle in _SHUFFLES)):
        raise ValueError(
            f'shuffle must be True, False, "batches", "once" or "replacement", but it is {shuffle!r}.'
        )
    if batch_size is None:
        return FullBatch()
    size = _arrays.whole_number("batch_size", batch_size, 1, hint="None takes all rows in one batch.")
    made: Scheme = _SHUFFLES[bool(shuffle) if is_flag else shuffle](batch_size=size, drop_last=drop_last)
    return made


def _learning_rate(value: Any) -> StepLike | None:
    """A step or a schedule of steps; None for "auto".

    >>> _learning_rate("constant")
    Traceback (most recent call last):
    ...
    ValueError: learning_rate must be "auto", a number >= 0, a list with one per epoch, a function of the epochs
    done before or a schedule of reshuffle.schedules, but it is 'constant'.
    """
    if isinstance(value, str) and value == "auto":
        return None
    if value is None or isinstance(value, str):
        raise ValueError(
            'learning_rate must be "auto", a number >= 0, a list with one per epoch, a function of the epochs done '
            f"before or a schedule of reshuffle.schedules, but it is {value!r}."
        )
    if callable(value) or _arrays.any_array("learning_rate", value).ndim:
        return checked_steps("learning_rate", value, "epoch")
    return _arrays.nonnegative("learning_rate", value)


def _seed(random_state: Any, single_run: bool) -> int:
    """Seed of the order of a single run, or of sampled orders, which are the same in every fit by default."""
    if random_state is None and not single_run:
        return 0
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    return int(check_random_state(random_state).randint(2**31 - 1))


@dataclass(frozen=True)
class Training:
    """The checked parameters of an estimator; `options` are arguments of `descend`."""

    scheme: Scheme
    learning_rate: StepLike | None
    options: Mapping[str, Any]
    centre: bool
    scale: bool
    single_run: bool

    @classmethod
    def of(cls, model: Any) -> "Training":
        """The parameters of a MiniBatchRegressor."""
        single_run = _arrays.flag("single_run", model.single_run)
        penalty = _arrays.nonnegative("weight_decay", model.weight_decay)
        made = recipe.checked(0.0, None, penalty, model.momentum, 1, model.nesterov, average=model.average)
        options = {
            "penalty": penalty,
            "momentum": made.momentum,
            "nesterov": made.nesterov,
            "average": made.average,
            "rtol": model.rtol,
            "budget": model.budget,
            "seed": _seed(model.random_state, single_run),
        }
        return cls(
            loader_scheme(model.batch_size, model.shuffle, model.drop_last),
            _learning_rate(model.learning_rate),
            options,
            _arrays.flag("fit_intercept", model.fit_intercept),
            _arrays.flag("standardize", model.standardize),
            single_run,
        )

    @property
    def least_rows(self) -> int:
        """Rows without which there is nothing to learn: a single one less its mean is zero."""
        return 2 if self.centre else 1

    def on(self, data: Data) -> "Fit":
        """The fit to rows in memory; those of weight zero are left out, the other weights divided by their mean."""
        weights = data.weights
        if weights is not None:
            counted = np.flatnonzero(weights)
            if len(counted) < self.least_rows:
                raise ValueError(
                    f"sample_weight must be above zero for at least {self.least_rows} rows, but it is for "
                    f"{len(counted)}: with fit_intercept=True one row alone is its own mean."
                )
            data = data.part(counted)
            weights = weights[counted] / weights[counted].mean()
        made = Standardizer.identity(data.X.shape[1], None if data.y.ndim == 1 else data.y.shape[1])
        if self.centre or self.scale:
            made = Standardizer.of(data.X, data.y, centre=self.centre, scale=self.scale, weights=weights)
        return Fit(self, made, Data(made.rows(data.X), made.responses(data.y), weights))

    def on_stream(self, stream: Stream) -> "Fit":
        """The fit to rows that are read in chunks."""
        if self.centre and stream.n < 2:
            raise ValueError("X must have at least 2 rows with fit_intercept=True, but it has 1.")
        made, weights = stream.standardizer(centre=self.centre, scale=self.scale), stream.weights
        relative = None if weights is None else weights / weights.mean()
        return Fit(self, made, stream.standardized(made, relative))


class Fit:
    """Mini-batch descent on standardized rows.

    Pickles hold the rows, if they are in memory, and none of what was computed: that may be many times their size,
    and is computed again.
    """

    def __init__(self, training: Training, standardizer: Standardizer, data: Data | Stream | None):
        self.training, self.standardizer, self.data = training, standardizer, data

    def __getstate__(self) -> dict[str, Any]:
        data = None if isinstance(self.data, Stream) else self.data
        return {"training": self.training, "standardizer": self.standardizer, "data": data}

    @cached_property
    def run(self) -> Run:
        """The run of all outputs."""
        training, data = self.training, self.data
        if data is None:
            raise UnsupportedError(
                "the model was pickled without the rows that it reads in chunks: it predicts, but knows no other "
                "epochs; fit it again for these."
            )
        problem = (
            LeastSquares(data, None)
            if isinstance(data, Stream)
            else LeastSquares(data.X, data.y, sample_weight=data.weights)
        )
        if training.learning_rate is not None:
            return descend(problem, training.scheme, training.learning_rate, **training.options)
        penalty, momentum = training.options["penalty"], training.options["momentum"]
        step = safe_step(problem, training.scheme, penalty, momentum)
        run = descend(problem, training.scheme, step, **training.options)
        # With momentum no bound on single visits proves convergence.
        for _ in range(_HALVINGS if momentum else 0):
            if run.converges:
                break
            step /= 2
            run = descend(problem, training.scheme, step, **training.options)
        return run

    @property
    def safe_step(self) -> float:
        """The step of learning_rate="auto"; with momentum a bound on it."""
        run = self.run
        return safe_step(run.problem, run.scheme, run.recipe.penalty, run.recipe.momentum)

    @property
    def diverges(self) -> bool:
        """True if the mean iterate has no limit at a constant step that was given."""
        run, training = self.run, self.training
        is_given = training.learning_rate is not None and not training.single_run
        return is_given and run.recipe.is_constant and not run.converges

    def path(self, epochs: ArrayLike) -> tuple[FloatArray, Any]:
        """Coefficients epochs.shape + (p,) or (t, p) and intercepts epochs.shape or + (t,)."""
        run = self.run
        if self.training.single_run:
            when = run.recipe.epochs(epochs)
            if not np.isfinite(when).all():
                raise ValueError(
                    "epochs must be finite where a single run is trained, but one is inf; "
                    "single_run=False has the mean of all runs after infinitely many."
                )
            parameters = single_run(run.problem, run.scheme, run.recipe, run.start, when, run.accuracy.seed)
        else:
            parameters = run.iterate(epochs)
        coefficients, intercepts = self.standardizer.coefficients(parameters)
        if run.problem.outputs is not None:
            coefficients = coefficients.swapaxes(-1, -2)
        return coefficients, intercepts

    def deviation(self, rows: FloatArray, epochs: float) -> FloatArray:
        """Standard deviation over orders of the predictions of single runs for rows (m, p): (m,) or (m, t)."""
        return self.run.covariance(epochs).deviation(self.standardizer.rows(rows))


def safe_step(problem: LeastSquares, scheme: Scheme, penalty: float, momentum: float) -> float:
    """(1 - momentum) / (L + penalty), with L a bound on the curvature |X_b'X_b| / m_b of every possible batch.

    Without momentum every visit of such a step is a contraction, whatever the order: mean and spread converge. For
    the full batch it is half of the critical step. Where there is nothing to learn from it is one.

    >>> from reshuffle import FullBatch
    >>> safe_step(LeastSquares([[1.0], [3.0]], [0.0, 0.0]), FullBatch(), 0.0, 0.0)
    0.2
    """
    problem, scheme = base.fitted(problem, scheme)
    space, curvature = problem.row_space, 0.0
    if space.dimension and scheme.visits_samples and problem.stream is not None:
        whole = problem.blocks([np.arange(len(problem.compressed.X))])
        longest = problem.stream.gathered(_longest, max) / space.scale / space.scale
        curvature = 2 / base.contracting_step(scheme, problem.n, whole, longest) * space.scale * space.scale
    elif space.dimension:
        blocks = problem.blocks(scheme.partition(problem.n), scheme.divisors(problem.n))
        curvature = 2 / base.contracting_step(scheme, problem.n, blocks) * space.scale * space.scale
    curvature += penalty
    return (1 - momentum) / curvature if curvature else 1.0


def _longest(X: FloatArray, y: FloatArray) -> float:
    """The largest |x|^2."""
    return float(np.square(X).sum(axis=1).max())
