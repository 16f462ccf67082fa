"""Mini-batch regression in scikit-learn's clothes: estimators that know what training gives, without it."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reshuffle.sklearn.mini_batch_kernel_regressor import (
        MiniBatchKernelRegressor as MiniBatchKernelRegressor,
    )
    from reshuffle.sklearn.mini_batch_regressor import MiniBatchRegressor as MiniBatchRegressor
    from reshuffle.sklearn.mini_batch_regressor_cv import MiniBatchRegressorCV as MiniBatchRegressorCV

_HOMES = {
    "MiniBatchKernelRegressor": "reshuffle.sklearn.mini_batch_kernel_regressor",
    "MiniBatchRegressor": "reshuffle.sklearn.mini_batch_regressor",
    "MiniBatchRegressorCV": "reshuffle.sklearn.mini_batch_regressor_cv",
}

__all__ = [*_HOMES]

if not TYPE_CHECKING:
    # scikit-learn is optional, and slow to import: it is looked for when an estimator is first asked for.

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
