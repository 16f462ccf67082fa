"""Mini-batch training with its settings and its stopping epoch chosen on rows that it has not seen."""

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle.recipe import Average
from reshuffle.run import Run
from reshuffle.sklearn.estimator_data import Data, checked_data, checked_rows
from reshuffle.sklearn.held_out import HeldOut, by_folds, cv_table, one_by_one
from reshuffle.sklearn.mini_batch_regressor import MiniBatchRegressor, Path
from reshuffle.sklearn.streamed_data import in_memory
from reshuffle.sklearn.training import untrained

_EVERY_EPOCH, _FURTHER_APART = 20, 80
"""Up to which epoch every one is tried, and how many are up to the last."""


class MiniBatchRegressorCV(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """MiniBatchRegressor with batch size, learning rate, momentum, weight decay and stopping epoch chosen.

    Every combination is tried, and each at all epochs at once: none is trained. The one with the least mean square
    on rows that were held out is fitted to all rows.

    Parameters
    ----------
    batch_sizes : list of int or None
    learning_rates : list of float or "auto"
        Those of MiniBatchRegressor; "auto" is what that stands for on all rows.
    epochs : int or list of int
        When training may stop: up to 100 numbers of epochs up to this one, ever further apart; or these, math.inf
        included.
    momenta, weight_decays : list of float
    nesterov : bool
        For every momentum above zero.
    cv : None, int, splitter or iterable of splits
        How rows are held out. None: each by itself, 4000 of them at most, all from one run. Otherwise by folds, as
        in scikit-learn; in every split the rows trained on have means and scales of their own.
    shuffle, drop_last, average, fit_intercept, standardize, rtol, budget, random_state
        As in MiniBatchRegressor.

    Attributes
    ----------
    best_params_ : dict
        What MiniBatchRegressor takes, the learning rate as a number.
    best_score_ : float
        Less the mean square on held-out rows; over outputs, their mean.
    best_epoch_ : int or math.inf
    best_index_ : int
        Its row in `cv_results_`.
    best_estimator_ : MiniBatchRegressor
        Fitted to all rows.
    cv_results_ : dict of arrays
        A row per combination and number of epochs, as in GridSearchCV: made for `pandas.DataFrame(cv_results_)`.
        What diverges has the score -inf. Where rows were left out one by one `std_test_score` is over rows, and
        over the root of their number the standard error of `mean_test_score`.
    coef_, intercept_, n_iter_, learning_rate_, run_, n_features_in_, feature_names_in_
        As in MiniBatchRegressor.

    >>> import numpy as np
    >>> from reshuffle.sklearn import MiniBatchRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 40))
    >>> y = X[:, :10].sum(axis=1) + rng.standard_normal(60)
    >>> model = MiniBatchRegressorCV(batch_sizes=[10, 30], epochs=200).fit(X, y)
    >>> model.best_epoch_, model.best_params_["batch_size"], round(model.best_score_, 3)
    (18, 10, -2.452)
    """

    def __init__(
        self,
        batch_sizes: Any = (64,),
        learning_rates: Any = ("auto",),
        epochs: Any = 1000,
        *,
        momenta: Any = (0.0,),
        weight_decays: Any = (0.0,),
        nesterov: bool = False,
        shuffle: bool | str = True,
        drop_last: bool = False,
        average: Average | None = None,
        fit_intercept: bool = True,
        standardize: bool = False,
        cv: Any = None,
        rtol: float = 5e-3,
        budget: float = 1e12,
        random_state: Any = None,
    ):
        self.batch_sizes = batch_sizes
        self.learning_rates = learning_rates
        self.epochs = epochs
        self.momenta = momenta
        self.weight_decays = weight_decays
        self.nesterov = nesterov
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.average = average
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.cv = cv
        self.rtol = rtol
        self.budget = budget
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> "MiniBatchRegressorCV":
        """Choose on rows held out of X (n, p) and y (n,) or (n, t), and fit to all; return the estimator.

        Parameters
        ----------
        X : (n, p)
            Dense or sparse, or a source of rows, as in MiniBatchRegressor, that fits into memory.
        y : (n,) or (n, t)
        sample_weight : (n,), optional
            As in MiniBatchRegressor; held-out rows count by them too.
        """
        epochs = _epochs(self.epochs)
        models = self._models()
        X, y = in_memory(X, y, sample_weight)
        data = checked_data(self, X, y, sample_weight, 2)
        tried, scores = [], []
        for model in models:
            model.learning_rate = untrained(model).on(data).step
            tried.append({name: getattr(model, name) for name in _CHOSEN})
            scores.append(self._held_out(model, data, epochs))
        self.cv_results_ = cv_table(tried, scores, epochs)
        self._choose()
        chosen = models[self.best_index_ // len(epochs)].set_params(epochs=self.best_epoch_)
        responses = data.responses[:, 0] if data.is_vector else data.responses
        self.best_estimator_ = chosen.fit(data.rows, responses, data.weights)
        for name in ("coef_", "intercept_", "n_iter_", "learning_rate_"):
            setattr(self, name, getattr(chosen, name))
        return self

    def predict(self, X: Any, return_std: bool = False) -> FloatArray | tuple[FloatArray, FloatArray]:
        """What the chosen model says of rows X (m, p), and with `return_std` how far single runs are from it."""
        return self._chosen.predict(checked_rows(self, X), return_std=return_std)

    def path(self, epochs: ArrayLike) -> Path:
        """Coefficients and intercepts of the chosen model after each of the given epochs."""
        return self._chosen.path(epochs)

    @property
    def run_(self) -> Run:
        """The run behind the chosen model."""
        return self._chosen.run_

    @property
    def _chosen(self) -> MiniBatchRegressor:
        check_is_fitted(self)
        chosen: MiniBatchRegressor = self.best_estimator_
        return chosen

    def _models(self) -> list[MiniBatchRegressor]:
        """One per combination."""
        names = ("batch_sizes", "learning_rates", "momenta", "weight_decays")
        shared = {name: getattr(self, name) for name in _SHARED}
        nesterov = _arrays.flag("nesterov", self.nesterov)
        return [
            MiniBatchRegressor(
                size,
                rate,
                momentum=momentum,
                weight_decay=decay,
                nesterov=nesterov and momentum != 0,
                **shared,
            )
            for size, rate, momentum, decay in product(
                *(_listed(name, getattr(self, name)) for name in names)
            )
        ]

    def _held_out(self, model: MiniBatchRegressor, data: Data, epochs: FloatArray) -> HeldOut:
        training = untrained(model)
        if self.cv is None:
            return one_by_one(training, data, epochs)
        return by_folds(training, data, list(check_cv(self.cv).split(data.rows, data.responses)), epochs)

    def _choose(self) -> None:
        table = self.cv_results_
        self.best_index_ = int(np.argmax(table["mean_test_score"]))
        self.best_score_ = float(table["mean_test_score"][self.best_index_])
        if not np.isfinite(self.best_score_):
            raise ValueError(
                "learning_rates must have one that converges, but all diverge on held-out rows; "
                'try "auto", or smaller ones.'
            )
        self.best_params_ = dict(table["params"][self.best_index_])
        self.best_epoch_ = self.best_params_["epochs"]


_CHOSEN = ("batch_size", "learning_rate", "momentum", "weight_decay")
_SHARED = (
    "shuffle",
    "drop_last",
    "average",
    "fit_intercept",
    "standardize",
    "rtol",
    "budget",
    "random_state",
)


def _listed(name: str, values: Any) -> list[Any]:
    """A list of candidates with at least one entry.

    >>> _listed("momenta", 0.9)
    Traceback (most recent call last):
    ...
    ValueError: momenta must be a list of what to try, with at least one entry, but it is 0.9.
    """
    if isinstance(values, np.ndarray) and values.ndim == 1:
        values = values.tolist()
    if not isinstance(values, list | tuple) or not values:
        raise ValueError(
            f"{name} must be a list of what to try, with at least one entry, but it is {values!r}."
        )
    return list(values)


def _epochs(value: Any) -> FloatArray:
    """Epochs, ascending: these, or at most a hundred up to this one.

    >>> _epochs(5), _epochs([10, 1])
    (array([1., 2., 3., 4., 5.]), array([ 1., 10.]))
    >>> len(_epochs(10**6))
    82
    """
    if np.ndim(value) == 0:
        last = _arrays.whole_number("epochs", value, 1, hint="Or give a list of those to try.")
        few = np.arange(1, min(last, _EVERY_EPOCH) + 1)
        return np.union1d(few, np.geomspace(1, last, _FURTHER_APART).round())
    when = np.unique(_arrays.epochs(value))
    if not len(when) or when[0] < 1:
        raise ValueError(f"epochs must be a list of numbers of at least 1, but it is {value!r}.")
    return when
