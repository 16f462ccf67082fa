"""Mini-batch gradient descent on least-squares problems: its answers, exactly and without training.

problem -> scheme and recipe -> epoch -> run -> risk, limit, stability, stopping
"""

import sys
import warnings
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reshuffle import asymptotics as asymptotics
    from reshuffle import free as free
    from reshuffle import plotting as plotting
    from reshuffle import sklearn as sklearn
    from reshuffle import torch as torch
    from reshuffle.errors import AccuracyWarning as AccuracyWarning
    from reshuffle.errors import ArgumentError as ArgumentError
    from reshuffle.errors import BudgetError as BudgetError
    from reshuffle.errors import MissingTruthError as MissingTruthError
    from reshuffle.errors import RangeError as RangeError
    from reshuffle.errors import UnsupportedError as UnsupportedError
    from reshuffle.free.checks import ConvergenceError as ConvergenceError
    from reshuffle.grid.sweep import sweep as sweep
    from reshuffle.planning import Explanation as Explanation
    from reshuffle.planning import Match as Match
    from reshuffle.planning import Plan as Plan
    from reshuffle.planning import SchemeComparison as SchemeComparison
    from reshuffle.planning import compare_schemes as compare_schemes
    from reshuffle.planning import explain as explain
    from reshuffle.planning import match as match
    from reshuffle.planning import plan as plan
    from reshuffle.problem import Accumulator as Accumulator
    from reshuffle.problem import LeastSquares as LeastSquares
    from reshuffle.problem import gaussian as gaussian
    from reshuffle.problem import random_features as random_features
    from reshuffle.recipe import EMA as EMA
    from reshuffle.recipe import PerVisit as PerVisit
    from reshuffle.recipe import TailAverage as TailAverage
    from reshuffle.recipe import schedules as schedules
    from reshuffle.run import *  # noqa: F403
    from reshuffle.run.modes import Epoch as Epoch
    from reshuffle.schemes import *  # noqa: F403
    from reshuffle.simulation import Estimate as Estimate
    from reshuffle.simulation import Simulation as Simulation
    from reshuffle.simulation import simulate as simulate
    from reshuffle.validation import *  # noqa: F403

__version__ = "1.0.0.dev0"

# A name is imported when it is first used, so that `reshuffle --help` does not wait for numpy and scipy.
# The lines above say the same to type checkers and editors; a test compares the two. Schemes are not listed here:
# the package offers all that `reshuffle.schemes` registers.
_NAMES = {
    "run.modes": "Epoch",
    "errors": "AccuracyWarning ArgumentError BudgetError MissingTruthError RangeError UnsupportedError",
    "free.checks": "ConvergenceError",
    "grid.sweep": "sweep",
    "planning": "Explanation Match Plan SchemeComparison compare_schemes explain match plan",
    "problem": "Accumulator LeastSquares gaussian random_features",
    "recipe": "EMA PerVisit TailAverage schedules",
    "run": "BestEpoch ExpectedRisk GradientFlow Limit LimitComparison MeanSquareStability "
    "ParameterCovariance Risk RiskInterval Run Stability critical_step descend gradient_flow",
    "simulation": "Estimate Simulation simulate",
    "validation": "Classification CrossValidation Influence LeaveOneOut PredictionInterval RidgeEquivalent",
}
_HOMES = {name: f"reshuffle.{home}" for home, names in _NAMES.items() for name in names.split()}
_RENAMED = {"OutputCovariances": "ParameterCovariance"}
_PACKAGES = ("asymptotics", "free", "plotting", "sklearn", "torch")
_SCHEMES = "reshuffle.schemes"

if not TYPE_CHECKING:
    # Type checkers must not see this, or they would believe in every name.

    def __getattr__(name: str) -> object:
        if name in _PACKAGES:
            return import_module(f"{__name__}.{name}")
        if name in _RENAMED:
            warnings.warn(f"{name} is now {_RENAMED[name]}.", DeprecationWarning, stacklevel=2)
            return __getattr__(_RENAMED[name])
        if name == "__all__":
            return [*_HOMES, *import_module(_SCHEMES).__all__, *_PACKAGES]
        home = _HOMES.get(name)
        # Only a class can be a scheme: packages such as `cli` come here, too, and must not wait for numpy.
        if home is None and name[:1].isupper() and name in import_module(_SCHEMES).__all__:
            home = _SCHEMES
        if home is None:
            # Packages such as `cli` come here as well, and must not wait for the schemes.
            known = [*_HOMES, *_PACKAGES, *getattr(sys.modules.get(_SCHEMES), "__all__", ())]
            near = get_close_matches(name, known, 1)
            words = f"; did you mean {near[0]!r}?" if near else ""
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{words}")
        value = getattr(import_module(home), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})
