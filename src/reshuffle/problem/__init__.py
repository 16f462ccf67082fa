"""What is learned: the data, the truth where it is known, and the row space in which everything happens."""

from reshuffle.problem.accumulator import Accumulator
from reshuffle.problem.drawn_problems import gaussian, random_features
from reshuffle.problem.least_squares import LeastSquares, checked_problem, checked_start

__all__ = ["Accumulator", "LeastSquares", "checked_problem", "checked_start", "gaussian", "random_features"]
