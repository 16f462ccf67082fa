"""MiniBatchKernelRegressor: kernel regression trained in mini-batches, as an estimator of scikit-learn."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils.validation import check_is_fitted

from reshuffle._arrays import FloatArray
from reshuffle.problem.kernel import KernelFeatures
from reshuffle.sklearn import regressor


@regressor.positions_warn("kernel", "batch_size", "learning_rate", "epochs", allowed=1)
@dataclass(eq=False, repr=False, kw_only=True)
class MiniBatchKernelRegressor(MultiOutputMixin, RegressorMixin, regressor.TrainingParameters):
    """The function that mini-batch SGD on the squared loss gives in the space of a kernel, without training.

    A visit to a batch of m rows is f -> f - learning_rate (sum of k(x, .) (f(x) - y) / m + weight_decay f), from
    f = 0 on, and the estimator is the mean over all shuffles. With weight_decay and infinitely many epochs of one
    batch it is scikit-learn's KernelRidge(alpha=n * weight_decay); stopped early, it needs no ridge.

    Parameters
    ----------
    kernel : str or callable
        As in scikit-learn's KernelRidge: the name of a kernel, a function of two rows, or "precomputed" where X is
        the kernel itself, (n, n) in `fit` and (m, n) in `predict`.
    gamma, degree, coef0 : optional
        Parameters of the kernel, where it has them.
    kernel_params : dict, optional
        Those of a function.
    batch_size, learning_rate, epochs, momentum, nesterov, weight_decay, shuffle, drop_last, single_run, rtol, \
budget, random_state
        As in `MiniBatchRegressor`. There is no intercept.

    Attributes
    ----------
    dual_coef_ : (n,), or (n, t) for y of shape (n, t)
        Weights of the rows of `fit`: the function is sum_i dual_coef_[i] k(x_i, .).
    X_fit_ : (n, p)
        The rows, or the kernel if it was precomputed.
    n_iter_ : int or math.inf
        The epochs.
    run_ : reshuffle.Run
        For every other question: leave-one-out, thresholds, the error of the mean.

    >>> import numpy as np
    >>> from reshuffle.sklearn import MiniBatchKernelRegressor
    >>> x = np.linspace(0, 6, 60)[:, np.newaxis]
    >>> model = MiniBatchKernelRegressor(gamma=0.5, batch_size=20, learning_rate=0.5, epochs=100)
    >>> model.fit(x, np.sin(x[:, 0])).predict([[1.0], [4.0]]).round(1)
    array([ 0.8, -0.8])
    """

    kernel: str | Callable[..., Any] = field(default="rbf", kw_only=False)
    gamma: float | None = None
    degree: float = 3
    coef0: float = 1
    kernel_params: dict[str, Any] | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> "MiniBatchKernelRegressor":
        """Compute the function that training gives; return the estimator.

        X is (n, p), dense or sparse, or (n, n) for a kernel that is precomputed; y is (n,) or (n, t), and
        `sample_weight` (n,) as in MiniBatchRegressor.
        """
        data = regressor.TrainingData.checked(self, X, y, sample_weight, 1)
        features = KernelFeatures(self._kernel(data.X, data.X))
        model = regressor.regressor_like(self, fit_intercept=False)
        model.fit(features.rows, data.y, sample_weight)
        self.X_fit_, self._fit, self.n_iter_ = data.X, model._fit, model.n_iter_
        self.dual_coef_ = features.weights(model.coef_.T)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Predictions for rows X (m, p), or for their kernel (m, n) with those of `fit`: (m,) or (m, t)."""
        check_is_fitted(self)
        return np.asarray(self._kernel(regressor.checked_rows(self, X), self.X_fit_) @ self.dual_coef_)

    def _kernel(self, rows: FloatArray, others: FloatArray) -> FloatArray:
        if self.kernel == "precomputed":
            return rows
        given = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        options = (self.kernel_params or {}) if callable(self.kernel) else {"filter_params": True, **given}
        return np.asarray(pairwise_kernels(rows, others, metric=self.kernel, **options))
