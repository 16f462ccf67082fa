"""The test error without the truth: rows that are left out, and predicted by what was learned without them."""

from reshuffle.validation.classification import Classification
from reshuffle.validation.criteria import RidgeEquivalent
from reshuffle.validation.cross_validation import CrossValidation
from reshuffle.validation.influence import Influence, PredictionInterval
from reshuffle.validation.leave_one_out import LeaveOneOut

__all__ = [
    "Classification", "CrossValidation", "Influence", "LeaveOneOut", "PredictionInterval", "RidgeEquivalent",
]  # fmt: skip
