"""Estimators of scikit-learn whose coefficients are those of mini-batch training, computed without training."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reshuffle.sklearn.classifier import MiniBatchClassifier as MiniBatchClassifier
    from reshuffle.sklearn.classifier import MiniBatchClassifierCV as MiniBatchClassifierCV
    from reshuffle.sklearn.kernel_regressor import MiniBatchKernelRegressor as MiniBatchKernelRegressor
    from reshuffle.sklearn.regressor import MiniBatchRegressor as MiniBatchRegressor
    from reshuffle.sklearn.regressor_cv import MiniBatchRegressorCV as MiniBatchRegressorCV

_HOMES = {
    "MiniBatchClassifier": "reshuffle.sklearn.classifier",
    "MiniBatchClassifierCV": "reshuffle.sklearn.classifier",
    "MiniBatchKernelRegressor": "reshuffle.sklearn.kernel_regressor",
    "MiniBatchRegressor": "reshuffle.sklearn.regressor",
    "MiniBatchRegressorCV": "reshuffle.sklearn.regressor_cv",
}

__all__ = [*_HOMES]

if not TYPE_CHECKING:
    # scikit-learn is optional, and slow to import: it is imported with the first estimator.

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if find_spec("sklearn") is None:
            raise ModuleNotFoundError(
                f"{__name__}.{name} needs scikit-learn, which is not installed: "
                "install reshuffle[sklearn], or scikit-learn 1.6 or later."
            )
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
