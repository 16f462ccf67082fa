"""Estimators of scikit-learn whose coefficients are those of mini-batch training, computed without training."""

from importlib.util import find_spec

if find_spec("sklearn") is None:
    raise ModuleNotFoundError(
        "reshuffle.sklearn needs scikit-learn, which is not installed: install reshuffle[sklearn], or scikit-learn "
        "1.6 or later."
    )

from reshuffle.sklearn.classifier import MiniBatchClassifier, MiniBatchClassifierCV
from reshuffle.sklearn.kernel_regressor import MiniBatchKernelRegressor
from reshuffle.sklearn.regressor import MiniBatchRegressor
from reshuffle.sklearn.regressor_cv import MiniBatchRegressorCV

__all__ = [
    "MiniBatchClassifier",
    "MiniBatchClassifierCV",
    "MiniBatchKernelRegressor",
    "MiniBatchRegressor",
    "MiniBatchRegressorCV",
]
