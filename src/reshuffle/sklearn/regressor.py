"""MiniBatchRegressor: the linear model that mini-batch training gives, as an estimator of scikit-learn.

`FitParameters` holds the checked parameters of an estimator, and `Fit` the run that they make on standardized rows.
"""

import hashlib
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any, Literal, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from reshuffle import _arrays
from reshuffle._arrays import FloatArray, IntArray
from reshuffle._uncertainty import significant
from reshuffle.epoch.select import Accuracy
from reshuffle.errors import ArgumentError, UnsupportedError
from reshuffle.problem import LeastSquares
from reshuffle.problem.sources import Stream, opened, opened_rows
from reshuffle.problem.standardizer import Standardizer
from reshuffle.recipe import Average, StepLike, recipe
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

Model = TypeVar("Model", bound=type[Any])
_SHARED_ENTRIES = 1 << 14
"""Entries of X up to which later fits share what a fit has computed; beyond, it takes too much memory."""
_SHARED_FITS = 64
"""Fits whose computations are remembered: more than the folds and learning rates of a usual grid search."""
_HALVINGS = 60
"""Halvings of the automatic step with momentum, at most."""
_SHUFFLES: Mapping[bool | str, Any] = {
    True: SampleReshuffling,
    False: Cyclic,
    "batches": RandomReshuffling,
    "once": ShuffleOnce,
    "replacement": SampleWithReplacement,
}


def positions_warn(*names: str, allowed: int = 0) -> Callable[[Model], Model]:
    """Accept these parameters as positional arguments too, with a warning after the first `allowed`."""

    def decorated(cls: Model) -> Model:
        keywords_only = cls.__init__

        @wraps(keywords_only)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            if allowed < len(args) <= len(names):
                given = dict(zip(names[allowed:], args[allowed:], strict=False))
                words = ", ".join(f"{name}={value!r}" for name, value in given.items())
                warnings.warn(
                    f"{', '.join(given)} of {cls.__name__} will be keywords alone in the next release; "
                    f"write {words}.",
                    DeprecationWarning,
                    stacklevel=2,
                )
                keywords_only(self, *args[:allowed], **given, **kwargs)
            else:
                keywords_only(self, *args, **kwargs)

        cls.__init__ = __init__
        return cls

    return decorated


class TrainingData(NamedTuple):
    """Rows (n, p), responses (n,) or (n, t), and weights (n,) or None."""

    X: FloatArray
    y: FloatArray
    weights: FloatArray | None

    @classmethod
    def checked(
        cls, estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None, least: int
    ) -> "TrainingData":
        """The checked arguments of `fit`, with at least `least` rows; sets `n_features_in_` on the estimator."""
        allowed = {"accept_sparse": "csr", "dtype": np.float64, "multi_output": True, "y_numeric": True}
        X, y = validate_data(estimator, X, y, **allowed, ensure_min_samples=least)
        weights = None if sample_weight is None else checked_weights(sample_weight, X.shape[0])
        return cls(_arrays.real_array("X", X), np.asarray(y, dtype=np.float64), weights)

    def part(self, rows: IntArray) -> "TrainingData":
        """Some of the rows."""
        return TrainingData(self.X[rows], self.y[rows], None if self.weights is None else self.weights[rows])


def checked_rows(estimator: Any, X: Any) -> FloatArray:
    """The checked argument of `predict`."""
    rows = validate_data(estimator, X, reset=False, accept_sparse="csr", dtype=np.float64)
    return _arrays.real_array("X", rows)


def checked_weights(sample_weight: Any, n: int) -> FloatArray:
    """Weights (n,), finite, none below zero and not all of them zero."""
    weights = _arrays.vector("sample_weight", sample_weight, n, "one weight per row of X")
    if (weights < 0).any():
        where = int(np.flatnonzero(weights < 0)[0])
        given = f"sample_weight[{where}] is {weights[where]}"
        raise ArgumentError("sample_weight", "be >= 0", given, "drop such rows, or give them weight zero")
    if not weights.any():
        raise ValueError("sample_weight must not be zero for all rows: then there is nothing to learn from.")
    return weights


def loader_scheme(batch_size: Any, shuffle: Any, drop_last: Any) -> Scheme:
    """The scheme of a DataLoader with these arguments.

    >>> loader_scheme(32, True, False), loader_scheme(32, "once", True), loader_scheme(None, True, False)
    (SampleReshuffling(batch_size=32), ShuffleOnce(batch_size=32, drop_last=True), FullBatch())
    """
    drop_last = _arrays.flag("drop_last", drop_last)
    is_flag = isinstance(shuffle, (bool, np.bool_))
    if not (is_flag or (isinstance(shuffle, str) and shuffle in _SHUFFLES)):
        allowed = 'be True, False, "batches", "once" or "replacement"'
        raise ArgumentError("shuffle", allowed, f"it is {shuffle!r}")
    if batch_size is None:
        return FullBatch()
    size = _arrays.whole_number("batch_size", batch_size, 1, hint="None takes all rows in one batch.")
    made: Scheme = _SHUFFLES[bool(shuffle) if is_flag else shuffle](batch_size=size, drop_last=drop_last)
    return made


@dataclass(frozen=True)
class FitParameters:
    """The checked parameters of an estimator; `options` are arguments of `descend`."""

    scheme: Scheme
    learning_rate: StepLike | None  # None for "auto"
    options: Mapping[str, Any]
    centre: bool
    scale: bool
    single_run: bool

    @classmethod
    def of(cls, model: Any) -> "FitParameters":
        """The parameters of a MiniBatchRegressor."""
        single_run, state = _arrays.flag("single_run", model.single_run), model.random_state
        penalty = _arrays.nonnegative("weight_decay", model.weight_decay)
        made = recipe.checked(0.0, None, penalty, model.momentum, 1, model.nesterov, average=model.average)
        step = model.learning_rate
        if step is None or (isinstance(step, str) and step != "auto"):
            raise ValueError(
                'learning_rate must be "auto", a number >= 0, a list with one per epoch, a function of the epochs '
                f"done before or a schedule of reshuffle.schedules, but it is {step!r}."
            )
        if isinstance(step, str):
            step = None
        elif callable(step) or _arrays.any_array("learning_rate", step).ndim:
            step = checked_steps("learning_rate", step, "epoch")
        else:
            step = _arrays.nonnegative("learning_rate", step)
        # Sampled orders are the same in every fit by default.
        seed = 0
        if isinstance(state, np.random.Generator):
            seed = int(state.integers(2**31 - 1))
        elif state is not None or single_run:
            seed = int(check_random_state(state).randint(2**31 - 1))
        options: dict[str, Any] = {"penalty": penalty, "momentum": made.momentum, "nesterov": made.nesterov}
        options |= {"average": made.average, "rtol": model.rtol, "budget": model.budget, "seed": seed}
        return cls(
            loader_scheme(model.batch_size, model.shuffle, model.drop_last),
            step,
            options,
            _arrays.flag("fit_intercept", model.fit_intercept),
            _arrays.flag("standardize", model.standardize),
            single_run,
        )

    @property
    def least_rows(self) -> int:
        """Rows without which there is nothing to learn: a single one less its mean is zero."""
        return 2 if self.centre else 1

    def on(self, data: TrainingData) -> "Fit":
        """The fit to rows in memory; a search over epochs shares one among all that are otherwise equal."""
        if data.X.size > _SHARED_ENTRIES or not isinstance(self.learning_rate, float | None):
            return self._made(data)
        digest = hashlib.blake2b(repr((self, data.X.shape, data.y.shape, data.weights is None)).encode())
        for part in data:
            digest.update(b"" if part is None else part.tobytes())
        key = digest.digest()
        if key not in _fits:
            _fits[key] = self._made(data)
            while len(_fits) > _SHARED_FITS:
                _fits.pop(next(iter(_fits)), None)
        return _fits[key]

    def _made(self, data: TrainingData) -> "Fit":
        """A new fit; rows of weight zero are left out, the other weights divided by their mean."""
        weights = data.weights
        if weights is not None:
            counted = np.flatnonzero(weights)
            if len(counted) < self.least_rows:
                allowed = f"be above zero for at least {self.least_rows} rows"
                given = f"it is for {len(counted)}: with fit_intercept=True one row alone is its own mean"
                raise ArgumentError("sample_weight", allowed, given)
            data = data.part(counted)
            weights = weights[counted] / weights[counted].mean()
        made = Standardizer.identity(data.X.shape[1], None if data.y.ndim == 1 else data.y.shape[1])
        if self.centre or self.scale:
            made = Standardizer.of(data.X, data.y, centre=self.centre, scale=self.scale, weights=weights)
        return Fit(self, made, TrainingData(made.rows(data.X), made.responses(data.y), weights))

    def on_stream(self, stream: Stream) -> "Fit":
        """The fit to rows that are read in chunks."""
        if stream.n < self.least_rows:
            raise ArgumentError("X", "have at least 2 rows with fit_intercept=True", "it has 1")
        made, weights = stream.standardizer(centre=self.centre, scale=self.scale), stream.weights
        relative = None if weights is None else weights / weights.mean()
        return Fit(self, made, stream.standardized(made, relative))


@dataclass(eq=False)
class Fit:
    """Mini-batch descent on standardized rows.

    Pickles hold the rows, if they are in memory, and none of what was computed: that may be many times their size,
    and is computed again.
    """

    training: FitParameters
    standardizer: Standardizer
    data: TrainingData | Stream | None

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
        # With momentum no bound on single visits proves convergence.
        for _ in range(_HALVINGS if momentum else 0):
            run = descend(problem, training.scheme, step, **training.options)
            if run.converges:
                return run
            step /= 2
        return descend(problem, training.scheme, step, **training.options)

    def path(self, epochs: ArrayLike) -> tuple[FloatArray, Any]:
        """Coefficients epochs.shape + (p,) or (t, p) and intercepts epochs.shape or + (t,)."""
        run = self.run
        if self.training.single_run:
            when = run.recipe.epochs(epochs)
            if not np.isfinite(when).all():
                hint = "single_run=False has the mean of all runs after infinitely many"
                raise ArgumentError("epochs", "be finite where a single run is trained", "one is inf", hint)
            parameters = single_run(run.problem, run.scheme, run.recipe, run.start, when, run.accuracy.seed)
        else:
            parameters = run.iterate(epochs)
        coefficients, intercepts = self.standardizer.coefficients(parameters)
        if run.problem.outputs is not None:
            coefficients = coefficients.swapaxes(-1, -2)
        return coefficients, intercepts


_fits: dict[bytes, Fit] = {}


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


class Path(NamedTuple):
    """Coefficients along the epochs.

    Attributes
    ----------
    coef : epochs.shape + (p,), or + (t, p) for t outputs
    intercept : epochs.shape, or + (t,)
    """

    coef: FloatArray
    intercept: FloatArray


class FittedEstimator(BaseEstimator):
    """An estimator that takes sparse rows, and knows the run that it has fitted."""

    _fit: Fit

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def run_(self) -> Run:
        """The run of all outputs on the rows as they are trained on: standardized, or in the space of a kernel."""
        check_is_fitted(self, "_fit")
        return self._fit.run


class LinearEstimator(FittedEstimator):
    """An estimator whose coefficients are known along the epochs."""

    def path(self, epochs: ArrayLike) -> Path:
        """Coefficients and intercepts after epochs of any shape, at the cost of one fit for all of them.

        They are whole numbers >= 0, math.inf included unless a single run is trained.

        >>> import numpy as np
        >>> from reshuffle.sklearn import MiniBatchRegressor
        >>> model = MiniBatchRegressor(learning_rate=0.5).fit([[0.0], [2.0]], [0.0, 2.0])
        >>> model.path([0, 1, 2, np.inf]).coef.ravel()
        array([0.  , 0.5 , 0.75, 1.  ])
        """
        check_is_fitted(self, "_fit")
        return Path(*self._fit.path(epochs))


class LinearRegressor(MultiOutputMixin, RegressorMixin, LinearEstimator):
    """Predictions of a linear model, and their deviation over shuffles."""

    _names: list[str] | None

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> FloatArray: ...
    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[FloatArray, FloatArray]: ...
    @overload
    def predict(self, X: Any, return_std: bool) -> FloatArray | tuple[FloatArray, FloatArray]: ...
    def predict(self, X: Any, return_std: bool = False) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Predictions for rows X (m, p): (m,) or (m, t).

        With `return_std` also the standard deviation over shuffles of the predictions of single runs, of the same
        shape. X may be a source of rows that are read in chunks; of a table the columns of `fit` are taken.
        """
        check_is_fitted(self)
        with_std = _arrays.flag("return_std", return_std)
        source = opened_rows(X, self._names)
        if source is None:
            return self._predicted(checked_rows(self, X), with_std)
        if source.columns != self.n_features_in_:
            allowed = f"have {self.n_features_in_} columns, as in fit"
            raise ArgumentError("X", allowed, f"it has {source.columns}")
        found, start = [], 0
        for chunk in source.chunks():
            found.append(self._predicted(_arrays.real_array("X", chunk, first_row=start), with_std))
            start += len(chunk)
        if not with_std:
            return np.concatenate(found)
        means, deviations = zip(*found, strict=True)
        return np.concatenate(means), np.concatenate(deviations)

    def _predicted(self, rows: FloatArray, with_std: bool) -> FloatArray | tuple[FloatArray, FloatArray]:
        predicted = np.asarray(rows @ self.coef_.T + self.intercept_)
        if not with_std:
            return predicted
        standardized = self._fit.standardizer.rows(rows)
        return predicted, self._fit.run.covariance(self.n_iter_).deviation(standardized)


@dataclass(eq=False, repr=False, kw_only=True)
class TrainingParameters(FittedEstimator):
    """Parameters that all estimators with one recipe share; `MiniBatchRegressor` explains them."""

    batch_size: int | None = 64
    learning_rate: Any = "auto"
    epochs: float = 100
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    shuffle: bool | str = True
    drop_last: bool = False
    single_run: bool = False
    rtol: float = Accuracy.rtol
    budget: float = Accuracy.budget
    random_state: Any = None


@positions_warn("batch_size", "learning_rate", "epochs")
@dataclass(eq=False, repr=False, kw_only=True)
class MiniBatchRegressor(LinearRegressor, TrainingParameters):
    """The linear model that mini-batch SGD on the squared loss gives, computed without training.

    `coef_` and `intercept_` are the mean over all shuffles of what training from zero has reached after `epochs`
    epochs. A visit to a batch of m rows is b -> b - learning_rate (sum of x (x'b - y) / m + weight_decay b).

    Parameters
    ----------
    batch_size : int or None
        Rows per batch; the last one is shorter if they do not divide the rows. None: all rows in one batch.
    learning_rate : float, list, callable, schedule or "auto"
        The step of a visit for the loss (y - x'b)^2 / 2 per row. torch's MSELoss has no factor 1/2: its `lr` is
        half of this one, and its `weight_decay` twice ours. A list, a function or one of `reshuffle.schedules`
        changes it along the epochs, as in `reshuffle.descend`. "auto" is (1 - momentum) / (L + weight_decay) with L
        a bound on the curvature of every batch there may be, so that no data diverge; for one batch without
        momentum, half the critical step.
    epochs : int or math.inf
        Passes through the rows.
    momentum, nesterov, weight_decay
        As in torch.optim.SGD. The intercept is not decayed.
    shuffle : bool, "batches", "once" or "replacement"
        True: the rows are shuffled in every epoch, as by torch's DataLoader(shuffle=True). False: never, batches in
        the order of the rows. "batches": fixed batches in an order that is drawn in every epoch. "once": fixed
        batches in an order that is drawn once. "replacement": rows are drawn anew for every step.
    drop_last : bool
        Leave out the last batch if it is shorter.
    average : reshuffle.EMA or reshuffle.TailAverage, optional
        An average of the iterates that takes the place of the last one.
    fit_intercept : bool
        Centre X and y at their (weighted) means, train without an intercept, and set intercept_ so that the mean is
        met, as scikit-learn's linear models do. For a bias that is trained as torch does, add a column of ones and
        take False.
    standardize : bool
        Divide the columns of X by their (weighted) standard deviations for training, constant ones excepted.
        `coef_` is for X as it was given; `learning_rate` and `weight_decay` are for the scaled columns.
    single_run : bool
        Train once, really, with an order drawn from `random_state`, in place of the mean over all of them.
    rtol, budget : float
        Accuracy of the mean where it is not exact, and operations that it may take, as in `reshuffle.descend`.
    random_state : int, RandomState, Generator or None
        Seed of the order of a single run; for the mean, of the orders that are sampled where nothing better is
        known (None: always the same).

    Attributes
    ----------
    coef_ : (p,), or (t, p) for y of shape (n, t)
    intercept_ : float, or (t,)
    n_iter_ : int or math.inf
        The epochs.
    learning_rate_ : float, list, callable or schedule
        The step that was taken.
    run_ : reshuffle.Run
        The run on the centred, scaled and weighted rows, for every other question: the method of the mean
        (`run_.method`) and its error (`run_.iterate_error(epochs)`) among them.
    n_features_in_, feature_names_in_
        Number and names of the columns of X, as in all estimators.

    >>> import numpy as np
    >>> from reshuffle.sklearn import MiniBatchRegressor
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([1.0, 3.0, 4.0, 8.0])
    >>> model = MiniBatchRegressor(batch_size=2, learning_rate=0.2, epochs=5).fit(X, y)
    >>> model.coef_.round(4), round(model.intercept_, 4)
    (array([2.0985]), 0.8522)
    >>> mean, deviation = model.predict([[10.0]], return_std=True)
    >>> mean.round(4), deviation.round(4)
    (array([21.8376]), array([0.222]))
    """

    average: Average | None = None
    fit_intercept: bool = True
    standardize: bool = False

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> "MiniBatchRegressor":
        """Compute the coefficients that training on X and y gives; return the estimator.

        Parameters
        ----------
        X : (n, p)
            Dense or sparse, or a source of rows as in LeastSquares: a memmap, a folder of files, a dataset, a Dask
            array or dataframe. Those that do not fit into memory are read in chunks, first for their means.
        y : (n,) or (n, t)
            Or a source like that of X, or the name of a column.
        sample_weight : (n,), optional
            None below zero, relative to their mean: a batch of m rows has the gradient sum of w x (x'b - y) / m. A
            row of weight three is visited once, with three times the gradient; rows of weight zero are left out.
        """
        try:
            epochs = math.inf if self.epochs == math.inf else _arrays.whole_number("epochs", self.epochs, 1)
        except ValueError:
            allowed = "be a whole number of at least 1 or math.inf"
            raise ArgumentError("epochs", allowed, f"it is {self.epochs!r}") from None
        training = FitParameters.of(self)
        found = None if type(X) is np.ndarray else opened(X, y, sample_weight)
        self._names = None if found is None else found.names
        if isinstance(found, Stream):
            self.n_features_in_ = found.p
            self._fit = training.on_stream(found)
        else:
            X, y = (X, y) if found is None else (found.X, found.y)
            self._fit = training.on(TrainingData.checked(self, X, y, sample_weight, training.least_rows))
        run, self.n_iter_ = self._fit.run, epochs
        self.learning_rate_ = run.step
        coef, intercept = self.path(epochs)
        is_finite = np.isfinite(coef).all() and np.isfinite(intercept).all()
        may_diverge = (
            training.learning_rate is not None and not training.single_run and run.recipe.is_constant
        )
        if not is_finite or (may_diverge and not run.converges):
            safe = safe_step(run.problem, run.scheme, run.recipe.penalty, run.recipe.momentum)
            advice = (
                f'try learning_rate="auto", {significant(safe, 3)} here; '
                "reshuffle.critical_step(problem, scheme) is the largest that converges."
            )
            if not is_finite:
                raise ValueError(
                    f"learning_rate={self.learning_rate!r} diverges: the coefficients after {epochs} epochs are "
                    f"beyond the range of numbers; {advice}"
                )
            warnings.warn(
                f"learning_rate={self.learning_rate!r} is beyond the critical step, and coefficients grow from "
                f"epoch to epoch; {advice}",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.coef_ = coef
        self.intercept_ = float(intercept) if coef.ndim == 1 else intercept
        return self


def regressor_like(estimator: BaseEstimator, **others: Any) -> MiniBatchRegressor:
    """A MiniBatchRegressor with the parameters that an estimator has in common with it, and others."""
    known, given = MiniBatchRegressor().get_params(deep=False), estimator.get_params(deep=False)
    return MiniBatchRegressor(**{name: given[name] for name in known if name in given} | others)
