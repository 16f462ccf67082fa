"""What mini-batch gradient descent does to a least-squares problem, exactly and without training.

problem -> scheme -> epoch -> descent -> risk, limit, stability, stopping
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reshuffle.epoch.epoch import Epoch as Epoch
    from reshuffle.errors import AccuracyWarning as AccuracyWarning
    from reshuffle.errors import BudgetError as BudgetError
    from reshuffle.errors import MissingTruthError as MissingTruthError
    from reshuffle.errors import UnsupportedError as UnsupportedError
    from reshuffle.problem.least_squares import LeastSquares as LeastSquares
    from reshuffle.problem.least_squares import gaussian as gaussian
    from reshuffle.run.critical_steps import critical_step as critical_step
    from reshuffle.run.expected_risk import ExpectedRisk as ExpectedRisk
    from reshuffle.run.flow import GradientFlow as GradientFlow
    from reshuffle.run.flow import gradient_flow as gradient_flow
    from reshuffle.run.limits import Limit as Limit
    from reshuffle.run.limits import LimitComparison as LimitComparison
    from reshuffle.run.mean_square import MeanSquareStability as MeanSquareStability
    from reshuffle.run.risk import Risk as Risk
    from reshuffle.run.risk_interval import RiskInterval as RiskInterval
    from reshuffle.run.run import Run as Run
    from reshuffle.run.run import descend as descend
    from reshuffle.run.stability import Stability as Stability
    from reshuffle.run.stopping import BestEpoch as BestEpoch
    from reshuffle.schemes import Cyclic as Cyclic
    from reshuffle.schemes import FullBatch as FullBatch
    from reshuffle.schemes import RandomReshuffling as RandomReshuffling
    from reshuffle.schemes import SampleReshuffling as SampleReshuffling
    from reshuffle.schemes import SampleWithReplacement as SampleWithReplacement
    from reshuffle.schemes import Scheme as Scheme
    from reshuffle.schemes import ShuffleOnce as ShuffleOnce
    from reshuffle.schemes import WithReplacement as WithReplacement
    from reshuffle.simulation import Estimate as Estimate
    from reshuffle.simulation import Simulation as Simulation
    from reshuffle.simulation import simulate as simulate

__version__ = "0.2.0.dev0"

# A name is imported when it is first asked for, so that `reshuffle --help` does not wait for numpy and scipy.
# The lines above say the same to type checkers and editors; a test compares the two.
_HOMES = {
    "AccuracyWarning": "reshuffle.errors",
    "BestEpoch": "reshuffle.run.stopping",
    "BudgetError": "reshuffle.errors",
    "Cyclic": "reshuffle.schemes",
    "Epoch": "reshuffle.epoch.epoch",
    "Estimate": "reshuffle.simulation",
    "ExpectedRisk": "reshuffle.run.expected_risk",
    "FullBatch": "reshuffle.schemes",
    "GradientFlow": "reshuffle.run.flow",
    "LeastSquares": "reshuffle.problem.least_squares",
    "Limit": "reshuffle.run.limits",
    "LimitComparison": "reshuffle.run.limits",
    "MeanSquareStability": "reshuffle.run.mean_square",
    "MissingTruthError": "reshuffle.errors",
    "RandomReshuffling": "reshuffle.schemes",
    "Risk": "reshuffle.run.risk",
    "RiskInterval": "reshuffle.run.risk_interval",
    "Run": "reshuffle.run.run",
    "SampleReshuffling": "reshuffle.schemes",
    "SampleWithReplacement": "reshuffle.schemes",
    "Scheme": "reshuffle.schemes",
    "ShuffleOnce": "reshuffle.schemes",
    "Simulation": "reshuffle.simulation",
    "Stability": "reshuffle.run.stability",
    "UnsupportedError": "reshuffle.errors",
    "WithReplacement": "reshuffle.schemes",
    "critical_step": "reshuffle.run.critical_steps",
    "descend": "reshuffle.run.run",
    "gaussian": "reshuffle.problem.least_squares",
    "gradient_flow": "reshuffle.run.flow",
    "simulate": "reshuffle.simulation",
}

__all__ = list(_HOMES)

if not TYPE_CHECKING:
    # Type checkers must not see this, or they would believe in every name.

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted([*globals(), *_HOMES])
