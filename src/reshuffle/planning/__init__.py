"""Choices before training: a plan, steps for other batch sizes, comparisons of schemes; explanations of fits."""

from reshuffle.planning.compare import SchemeComparison, SchemeRow, compare_schemes
from reshuffle.planning.explanation import Explanation, explain
from reshuffle.planning.matching import Match, ScalingRule, match
from reshuffle.planning.search import PlannedRecipe
from reshuffle.planning.training_plan import HoldoutCheck, Plan, SimpleFit, plan

__all__ = [
    "Explanation",
    "HoldoutCheck",
    "Match",
    "Plan",
    "PlannedRecipe",
    "ScalingRule",
    "SchemeComparison",
    "SchemeRow",
    "SimpleFit",
    "compare_schemes",
    "explain",
    "match",
    "plan",
]
