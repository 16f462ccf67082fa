"""What to choose before training: a plan, other batch sizes, schemes beside each other; and why a fit is so."""

from reshuffle.planning.compare import SchemeComparison, SchemeRow, compare_schemes
from reshuffle.planning.explained_fit import Explanation
from reshuffle.planning.matched_step import Match, ScalingRule
from reshuffle.planning.missed_optimum import explain
from reshuffle.planning.nearest_step import match
from reshuffle.planning.recommended import plan
from reshuffle.planning.training_plan import Plan, PlannedRecipe

__all__ = [
    "Explanation",
    "Match",
    "Plan",
    "PlannedRecipe",
    "ScalingRule",
    "SchemeComparison",
    "SchemeRow",
    "compare_schemes",
    "explain",
    "match",
    "plan",
]
