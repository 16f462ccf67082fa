"""What mini-batch gradient descent does to a least-squares problem, exactly and without training.

problem -> scheme -> epoch -> descent -> risk, limit, stability, stopping
"""

from reshuffle.affine_descent import AffineDescent
from reshuffle.bounds import RiskInterval
from reshuffle.critical import critical_step
from reshuffle.descent import Descent, descend
from reshuffle.epoch.epoch import Epoch
from reshuffle.expected_risk import ExpectedRisk
from reshuffle.flow import GradientFlow, gradient_flow
from reshuffle.limits import Limit, LimitComparison
from reshuffle.mean_square import MeanSquareStability
from reshuffle.problem import LeastSquares, gaussian
from reshuffle.risk import Risk
from reshuffle.schemes import (
    Cyclic,
    FullBatch,
    RandomReshuffling,
    SampleReshuffling,
    SampleWithReplacement,
    Scheme,
    ShuffleOnce,
    WithReplacement,
)
from reshuffle.simulation import Estimate, Simulation, simulate
from reshuffle.stability import Stability
from reshuffle.stopping import BestEpoch
from reshuffle.validate import MissingTruthError

__version__ = "0.1.0"

__all__ = [
    "AffineDescent",
    "BestEpoch",
    "Cyclic",
    "Descent",
    "Epoch",
    "Estimate",
    "ExpectedRisk",
    "FullBatch",
    "GradientFlow",
    "LeastSquares",
    "Limit",
    "LimitComparison",
    "MeanSquareStability",
    "MissingTruthError",
    "RandomReshuffling",
    "Risk",
    "RiskInterval",
    "SampleReshuffling",
    "SampleWithReplacement",
    "Scheme",
    "ShuffleOnce",
    "Simulation",
    "Stability",
    "WithReplacement",
    "critical_step",
    "descend",
    "gaussian",
    "gradient_flow",
    "simulate",
]
