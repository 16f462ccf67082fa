"""MiniBatchRegressor: the linear model that mini-batch training gives, as an estimator of scikit-learn."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._uncertainty import significant
from reshuffle.problem.sources import Stream, as_numbers, opened, opened_rows
from reshuffle.recipe import Average
from reshuffle.run import Run
from reshuffle.sklearn.fit import Data, Training, checked_epochs, checked_rows

Model = TypeVar("Model", bound=type[Any])


def positions_warn(*names: str, allowed: int = 0) -> Callable[[Model], Model]:
    """Accept these parameters as positional arguments too, with a warning after the first `allowed`."""

    def decorated(cls: Model) -> Model:
        keywords_only = cls.__init__

        @wraps(keywords_only)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            given: dict[str, Any] = {}
            if allowed < len(args) <= len(names):
                given = dict(zip(names[allowed:], args[allowed:], strict=False))
                args = args[:allowed]
                warnings.warn(
                    f"{', '.join(given)} of {cls.__name__} will be keywords alone in the next release; "
                    f"write {', '.join(f'{name}={value!r}' for name, value in given.items())}.",
                    DeprecationWarning,
                    stacklevel=2,
                )
            keywords_only(self, *args, **given, **kwargs)

        cls.__init__ = __init__
        return cls

    return decorated


class Path(NamedTuple):
    """Coefficients along the epochs.

    Attributes
    ----------
    coef : epochs.shape + (p,), or + (t, p) for t outputs
    intercept : epochs.shape, or + (t,)
    """

    coef: FloatArray
    intercept: FloatArray


@positions_warn("batch_size", "learning_rate", "epochs")
@dataclass(eq=False, repr=False, kw_only=True)
class MiniBatchRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
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
        Of the order of a single run; for the mean, of the orders that are sampled where nothing better is known
        (None: always the same).

    Attributes
    ----------
    coef_ : (p,), or (t, p) for y of shape (n, t)
    intercept_ : float, or (t,)
    n_iter_ : int or math.inf
        The epochs.
    learning_rate_ : float, list, callable or schedule
        The step that was taken.
    run_ : reshuffle.Run
        The run on the centred, scaled and weighted rows, for every other question: how the mean is taken
        (`run_.method`) and how far it may be off (`run_.iterate_error(epochs)`) among them.
    n_features_in_, feature_names_in_
        Of X, as in all estimators.

    Notes
    -----
    Weights of rows are taken relative to their mean, rows of weight zero are left out, and a batch of m rows with
    weights w has the gradient sum of w x (x'b - y) / m: torch's `(w * loss).mean()`. A row of weight three is
    visited once, with three times the gradient; three copies of it are visited three times. The two are the same
    where one batch holds all rows.

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

    batch_size: int | None = 64
    learning_rate: Any = "auto"
    epochs: float = 100
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    shuffle: bool | str = True
    drop_last: bool = False
    average: Average | None = None
    fit_intercept: bool = True
    standardize: bool = False
    single_run: bool = False
    rtol: float = 5e-3
    budget: float = 1e12
    random_state: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> "MiniBatchRegressor":
        """Compute the coefficients that training on X and y gives; return the estimator.

        Parameters
        ----------
        X : (n, p)
            Dense or sparse, or a source of rows as in LeastSquares: a memmap, a folder of files, a dataset, a Dask
            array or dataframe. Those that do not fit into memory are read in chunks, first for their means.
        y : (n,) or (n, t)
            Or a source beside that of X, or the name of a column.
        sample_weight : (n,), optional
            None below zero; see the notes of the class.
        """
        epochs = checked_epochs(self.epochs)
        training = Training.of(self)
        found = opened(X, y, sample_weight)
        self._names = None if found is None else found.names
        if isinstance(found, Stream):
            self.n_features_in_ = found.p
            self._fit = training.on_stream(found)
        else:
            X, y = (X, y) if found is None else (found.X, found.y)
            self._fit = training.on(Data.checked(self, X, y, sample_weight, training.least_rows))
        self.n_iter_ = epochs
        self.learning_rate_ = self._fit.run.step
        coef, intercept = self.path(epochs)
        is_finite = np.isfinite(coef).all() and np.isfinite(intercept).all()
        if not is_finite or self._fit.diverges:
            advice = (
                f'try learning_rate="auto", {significant(self._fit.safe_step, 3)} here; '
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
            raise ValueError(
                f"X must have {self.n_features_in_} columns, as in fit, but it has {source.columns}."
            )
        found, start = [], 0
        for chunk in source.chunks():
            found.append(self._predicted(as_numbers("X", chunk, start), with_std))
            start += len(chunk)
        if not with_std:
            return np.concatenate(found)
        means, deviations = zip(*found, strict=True)
        return np.concatenate(means), np.concatenate(deviations)

    def _predicted(self, rows: FloatArray, with_std: bool) -> FloatArray | tuple[FloatArray, FloatArray]:
        predicted = np.asarray(rows @ self.coef_.T + self.intercept_)
        return (predicted, self._fit.deviation(rows, self.n_iter_)) if with_std else predicted

    def path(self, epochs: ArrayLike) -> Path:
        """Coefficients and intercepts after each of the given epochs, at the cost of one fit for all of them.

        Parameters
        ----------
        epochs : number or array of any shape
            Whole numbers >= 0, math.inf included unless a single run is trained.

        >>> import numpy as np
        >>> from reshuffle.sklearn import MiniBatchRegressor
        >>> model = MiniBatchRegressor(learning_rate=0.5).fit([[0.0], [2.0]], [0.0, 2.0])
        >>> model.path([0, 1, 2, np.inf]).coef.ravel()
        array([0.  , 0.5 , 0.75, 1.  ])
        """
        check_is_fitted(self, "_fit")
        return Path(*self._fit.path(epochs))

    @property
    def run_(self) -> Run:
        """The run of all outputs on the standardized rows."""
        check_is_fitted(self)
        return self._fit.run
