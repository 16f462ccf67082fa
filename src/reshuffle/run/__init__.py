"""Runs, and what people ask of them."""

from reshuffle.run.covariance import ParameterCovariance
from reshuffle.run.critical_steps import critical_step
from reshuffle.run.expected_risk import ExpectedRisk
from reshuffle.run.limits import GradientFlow, Limit, LimitComparison, gradient_flow
from reshuffle.run.mean_square import MeanSquareStability
from reshuffle.run.modes import RiskInterval
from reshuffle.run.run import Run, descend
from reshuffle.run.stability import Stability
from reshuffle.run.stopping import BestEpoch
from reshuffle.run.trajectory import Risk

__all__ = [
    "BestEpoch",
    "ExpectedRisk",
    "GradientFlow",
    "Limit",
    "LimitComparison",
    "MeanSquareStability",
    "ParameterCovariance",
    "Risk",
    "RiskInterval",
    "Run",
    "Stability",
    "critical_step",
    "descend",
    "gradient_flow",
]
