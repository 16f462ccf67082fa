"""What mini-batch training of a linear model gives, as an estimator of scikit-learn."""

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._uncertainty import significant
from reshuffle.problem.sources import Stream, opened
from reshuffle.recipe import Average
from reshuffle.run import Run
from reshuffle.sklearn import torch_words
from reshuffle.sklearn.estimator_data import checked_data, checked_rows
from reshuffle.sklearn.streamed_data import chunks_of
from reshuffle.sklearn.training import untrained


class Path(NamedTuple):
    """Coefficients along the epochs.

    Attributes
    ----------
    coef : epochs.shape + (p,), or + (t, p) for t outputs
    intercept : epochs.shape, or + (t,)
    """

    coef: FloatArray
    intercept: FloatArray


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
        The run behind it on the centred, scaled and weighted rows, for every other question: how the mean is taken
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

    def __init__(
        self,
        batch_size: int | None = 64,
        learning_rate: Any = "auto",
        epochs: float = 100,
        *,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
        shuffle: bool | str = True,
        drop_last: bool = False,
        average: Average | None = None,
        fit_intercept: bool = True,
        standardize: bool = False,
        single_run: bool = False,
        rtol: float = 5e-3,
        budget: float = 1e12,
        random_state: Any = None,
    ):
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.momentum = momentum
        self.nesterov = nesterov
        self.weight_decay = weight_decay
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.average = average
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.single_run = single_run
        self.rtol = rtol
        self.budget = budget
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> "MiniBatchRegressor":
        """Compute what training on X (n, p), dense or sparse, and y (n,) or (n, t) gives; return the estimator.

        Parameters
        ----------
        X : (n, p)
            Dense or sparse, or a source of rows as in LeastSquares: a memmap, a folder of files, a dataset, a Dask
            array or dataframe. Those that do not fit into memory are read in chunks, first for their means.
        y : (n,) or (n, t)
            Or a source beside that of X, or the name of a column.
        sample_weight : (n,), optional
            None below zero. How they count is said above.
        """
        epochs = torch_words.epochs(self.epochs)
        training = untrained(self)
        found = opened(X, y, sample_weight)
        self._names = None if found is None else found.names
        if isinstance(found, Stream):
            self._is_vector, self.n_features_in_ = found.outputs is None, found.p
            self._trained = training.on_stream(found)
        else:
            X, y = (X, y) if found is None else (found.X, found.y)
            data = checked_data(self, X, y, sample_weight, training.least_rows)
            self._is_vector = data.is_vector
            self._trained = training.on(data)
        self.n_iter_ = epochs
        self.learning_rate_ = self._trained.step
        path = self.path(epochs)
        self._require_finite(path)
        self.coef_ = path.coef
        self.intercept_ = float(path.intercept) if self._is_vector else path.intercept
        return self

    def predict(self, X: Any, return_std: bool = False) -> FloatArray | tuple[FloatArray, FloatArray]:
        """What the model says of rows X (m, p): (m,) or (m, t).

        With `return_std`, beside it the standard deviation over shuffles of what single runs say, as large. X may
        be a source of rows that are read in chunks; of a table the columns are taken that the model was fitted to.
        """
        check_is_fitted(self)
        chunks = chunks_of(X, self.n_features_in_, self._names)
        if chunks is None:
            return self._said_of(checked_rows(self, X), return_std)
        said = [self._said_of(chunk, return_std) for chunk in chunks]
        if not return_std:
            return np.concatenate(said)
        means, deviations = zip(*said, strict=True)
        return np.concatenate(means), np.concatenate(deviations)

    def _said_of(self, rows: FloatArray, return_std: bool) -> FloatArray | tuple[FloatArray, FloatArray]:
        predicted = np.asarray(rows @ self.coef_.T + self.intercept_)
        if not _arrays.flag("return_std", return_std):
            return predicted
        deviation = self._trained.deviation(rows, self.n_iter_)
        return predicted, deviation[..., 0] if self._is_vector else deviation

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
        check_is_fitted(self, "_trained")
        coef, intercept = self._trained.path(epochs)
        return Path(coef[..., 0, :], intercept[..., 0]) if self._is_vector else Path(coef, intercept)

    @property
    def run_(self) -> Run:
        """The run behind the estimator, of all outputs."""
        check_is_fitted(self)
        return self._trained.run

    def _require_finite(self, path: Path) -> None:
        """Refuse coefficients beyond the range of numbers; warn of those on the way there."""
        if np.isfinite(path.coef).all() and np.isfinite(path.intercept).all():
            if self._trained.grows:
                warnings.warn(
                    f"learning_rate={self.learning_rate!r} is beyond the critical step, and coefficients grow from "
                    f"epoch to epoch; {self._advice}",
                    ConvergenceWarning,
                    stacklevel=3,
                )
            return
        raise ValueError(
            f"learning_rate={self.learning_rate!r} diverges: the coefficients after {self.n_iter_} epochs are "
            f"beyond the range of numbers; {self._advice}"
        )

    @property
    def _advice(self) -> str:
        return (
            f'try learning_rate="auto", {significant(self._trained.automatic_step, 3)} here; '
            "reshuffle.critical_step(problem, scheme) tells the largest that converges."
        )
