"""What to choose before training: ways of shuffling beside each other."""

from reshuffle.planning.compared_schemes import SchemeComparison, SchemeRow
from reshuffle.planning.price_of_shuffling import compare_schemes

__all__ = ["SchemeComparison", "SchemeRow", "compare_schemes"]
