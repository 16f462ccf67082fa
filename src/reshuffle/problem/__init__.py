"""The least-squares problem: the data, the truth where it is known, and the row space of X."""

from reshuffle.problem.accumulator import Accumulator
from reshuffle.problem.least_squares import LeastSquares, checked_problem, checked_start
from reshuffle.problem.synthetic import gaussian, random_features

__all__ = ["Accumulator", "LeastSquares", "checked_problem", "checked_start", "gaussian", "random_features"]
