"""What is learned: the data, the truth where it is known, and the row space in which everything happens."""

from reshuffle.problem.least_squares import LeastSquares, gaussian

__all__ = ["LeastSquares", "gaussian"]
