"""What mini-batch gradient descent does to a least-squares problem, exactly and without training.

problem -> scheme -> epoch -> descent -> risk, limit, stability, stopping
"""

from reshuffle.bounds import RiskInterval
from reshuffle.descent import Descent, descend
from reshuffle.epoch.epoch import Epoch
from reshuffle.flow import GradientFlow, gradient_flow
from reshuffle.limits import Limit, LimitComparison
from reshuffle.problem import LeastSquares, gaussian
from reshuffle.risk import Risk
from reshuffle.schemes import FullBatch, RandomReshuffling, SampleReshuffling, Scheme, WithReplacement
from reshuffle.simulation import Estimate, Simulation, simulate
from reshuffle.stability import Stability, critical_step
from reshuffle.stopping import BestEpoch
from reshuffle.validate import MissingTruthError

__version__ = "0.1.0"

__all__ = [
    "BestEpoch",
    "Descent",
    "Epoch",
    "Estimate",
    "FullBatch",
    "GradientFlow",
    "LeastSquares",
    "Limit",
    "LimitComparison",
    "MissingTruthError",
    "RandomReshuffling",
    "Risk",
    "RiskInterval",
    "SampleReshuffling",
    "Scheme",
    "Simulation",
    "Stability",
    "WithReplacement",
    "critical_step",
    "descend",
    "gaussian",
    "gradient_flow",
    "simulate",
]
