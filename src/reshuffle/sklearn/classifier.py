"""Classes learned by squared loss in mini-batches, as estimators: MiniBatchClassifier and MiniBatchClassifierCV."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from reshuffle import _arrays
from reshuffle._arrays import AnyArray, FloatArray
from reshuffle.planning.correction import DRAWS, NORMAL, QUANTILES, bootstrapped
from reshuffle.problem.classes import Classes
from reshuffle.recipe import Average
from reshuffle.sklearn import regressor
from reshuffle.sklearn.regressor_cv import HeldOutSearch


class _Classifier(ClassifierMixin, regressor.LinearEstimator):
    """Decisions by the outputs of a `MiniBatchRegressor` that has learned targets of classes."""

    def _labelled(
        self, X: Any, y: Any, sample_weight: ArrayLike | None
    ) -> tuple[regressor.TrainingData, Classes]:
        """Rows, targets and weights, with at least two rows, and the classes."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        classes = Classes.of(column_or_1d(y, warn=True))
        weights = None if sample_weight is None else regressor.checked_weights(sample_weight, X.shape[0])
        if self.class_weight is not None:
            own = compute_sample_weight(self.class_weight, y)
            weights = own if weights is None else own * weights
        self.classes_ = classes.names
        return regressor.TrainingData(_arrays.real_array("X", X), classes.targets, weights), classes

    def _take(self, model: regressor.MiniBatchRegressor) -> None:
        """Make the outputs of a fitted model those of the classes."""
        self._fit = model._fit
        self.coef_, self.intercept_ = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
        self.n_iter_, self.learning_rate_ = model.n_iter_, model.learning_rate_

    def decision_function(self, X: Any) -> FloatArray:
        """Scores of rows X (m, p): (m,), positive for the second of two classes, or (m, K)."""
        check_is_fitted(self)
        scores = regressor.checked_rows(self, X) @ self.coef_.T + self.intercept_
        return np.asarray(scores[:, 0] if len(self.classes_) == 2 else scores)

    def predict(self, X: Any) -> AnyArray:
        """Labels of rows X (m, p): those with the largest score."""
        scores = self.decision_function(X)
        return Classes(self.classes_, np.zeros(0, dtype=int)).decide(scores)


@dataclass(eq=False, repr=False, kw_only=True)
class MiniBatchClassifier(_Classifier, regressor.TrainingParameters):
    """The linear classifier that mini-batch SGD on the squared loss gives, computed without training.

    Two classes are learned as -1 and 1, more as one output each, 1 for the row's own class and 0 for the others, as
    in scikit-learn's RidgeClassifier; the largest output decides.

    Parameters
    ----------
    batch_size, learning_rate, epochs, momentum, nesterov, weight_decay, shuffle, drop_last, average, \
fit_intercept, standardize, single_run, rtol, budget, random_state
        As in `MiniBatchRegressor`.
    class_weight : dict, "balanced" or None
        Weights of the rows of each class, by label; "balanced" makes all classes weigh the same.

    Attributes
    ----------
    classes_ : (K,)
        The labels.
    coef_ : (1, p) for two classes, (K, p) for more
    intercept_ : (1,) or (K,)
    n_iter_, learning_rate_, run_, n_features_in_, feature_names_in_
        As in `MiniBatchRegressor`. `run_.leave_one_out(epochs, centred=True).accuracy` is the accuracy to expect
        of a single run on new rows, and `accuracy_of_mean` that of this estimator.

    >>> from sklearn.datasets import load_wine
    >>> from reshuffle.sklearn import MiniBatchClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = MiniBatchClassifier(batch_size=16, epochs=30, standardize=True).fit(X, y)
    >>> model.predict(X[[0, 70, 170]]).tolist(), model.decision_function(X).shape
    ([0, 1, 2], (178, 3))
    """

    average: Average | None = None
    fit_intercept: bool = True
    standardize: bool = False
    class_weight: Any = None

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> "MiniBatchClassifier":
        """Compute the coefficients that training on X and labels y gives; return the estimator.

        X (n, p) is dense or sparse, y (n,) has two or more classes, and `sample_weight` (n,), as in
        `MiniBatchRegressor`, is taken times the weights of these.
        """
        data, _ = self._labelled(X, y, sample_weight)
        self._take(regressor.regressor_like(self).fit(data.X, data.y, data.weights))
        return self


@dataclass(eq=False, repr=False, kw_only=True)
class MiniBatchClassifierCV(_Classifier, HeldOutSearch):
    """MiniBatchClassifier with batch size, learning rate, momentum, weight decay and stopping epoch chosen.

    Every combination is tried at all epochs at once, and none is trained. The one with the highest accuracy on
    held-out rows is fitted to all rows; of several, the one with the least mean square.

    Parameters
    ----------
    batch_sizes, learning_rates, epochs, momenta, weight_decays, nesterov, shuffle, drop_last, average, \
fit_intercept, standardize, cv, rtol, budget, random_state
        As in `MiniBatchRegressorCV`; folds are stratified by the classes.
    class_weight : dict, "balanced" or None
        As in `MiniBatchClassifier`; held-out rows count by it too.

    Attributes
    ----------
    best_params_, best_epoch_, best_index_, cv_results_
        As in `MiniBatchRegressorCV`; scores are accuracies.
    best_score_ : float
        The accuracy on held-out rows of the estimator, which is the mean of all runs.
    accuracy_ : float
        The accuracy to expect on new rows: the best of many is too good to be true, so the choice is bootstrapped
        and judged on rows that were not drawn.
    interval_ : (float, float)
        Its 95% interval: quantiles of the bootstrapped accuracies, or Wilson's interval where that is wider.
    classes_, coef_, intercept_, n_iter_, learning_rate_, run_, n_features_in_, feature_names_in_
        As in `MiniBatchClassifier`.

    >>> from sklearn.datasets import load_wine
    >>> from reshuffle.sklearn import MiniBatchClassifierCV
    >>> X, y = load_wine(return_X_y=True)
    >>> model = MiniBatchClassifierCV(batch_sizes=[16, None], epochs=100, standardize=True).fit(X, y)
    >>> model.best_score_ > 0.97, model.score(X, y) > 0.98
    (True, True)
    """

    class_weight: Any = None

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> "MiniBatchClassifierCV":
        """Choose by the accuracy on held-out rows of X and labels y, and fit to all; return the estimator.

        The arguments are those of `MiniBatchClassifier`; held-out rows count by `sample_weight`, too.
        """
        data, classes = self._labelled(X, y, sample_weight)
        self._take(self._search(data, classes.numbers, 1.0))
        losses, weights = self._rows
        found = 1 - bootstrapped(losses, weights, np.zeros(len(losses)), DRAWS)
        self.accuracy_ = mean = float(found.mean())
        count = float(weights.sum() ** 2 / np.square(weights).sum())
        # Wilson's interval: where no row is missed all draws are alike.
        half = NORMAL * np.sqrt(mean * (1 - mean) / count + (NORMAL / count) ** 2 / 4)
        ends = (mean + NORMAL**2 / (2 * count) + half * np.array([-1, 1])) / (1 + NORMAL**2 / count)
        low, high = np.quantile(found, QUANTILES)
        self.interval_ = max(0.0, min(low, ends[0])), min(1.0, max(high, ends[1]))
        return self

    @staticmethod
    def _losses(predicted: FloatArray, y: FloatArray) -> FloatArray:
        """Misses, and squares between equal numbers of misses."""
        if y.shape[1] == 1:
            hits = (predicted > 0) == (y > 0)
            missed = ~hits[..., 0]
        else:
            missed = predicted.argmax(axis=-1) != y.argmax(axis=-1)
        squares = np.square(predicted - y).mean(axis=-1)
        return np.stack([missed | ~np.isfinite(squares), squares])
