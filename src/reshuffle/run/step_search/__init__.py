"""The search for the largest step that converges: with proof where Z(step) is a polynomial, else by trying."""

from reshuffle.run.step_search.certified_search import BUDGET, certified_step, is_certified
from reshuffle.run.step_search.first_failures import GROWTH, first_failure
from reshuffle.run.step_search.steps_from_norms import contracting_step

__all__ = ["BUDGET", "GROWTH", "certified_step", "contracting_step", "first_failure", "is_certified"]
