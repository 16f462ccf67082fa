"""What is learned: the data, the truth where it is known, and the row space in which everything happens."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reshuffle._core import FloatArray, checks
from reshuffle.problem.accumulator import Accumulator
from reshuffle.problem.hidden_layer import random_features
from reshuffle.problem.least_squares import LeastSquares, gaussian
from reshuffle.problem.outputs import checked_columns

__all__ = ["Accumulator", "LeastSquares", "checked_problem", "checked_start", "gaussian", "random_features"]


def checked_problem(value: Any) -> LeastSquares:
    """Return `value` if it is a least-squares problem."""
    if not isinstance(value, LeastSquares):
        raise TypeError(
            f"problem must be a LeastSquares, but it is a {type(value).__name__}; try rs.LeastSquares(X, y)."
        )
    return value


def checked_start(value: ArrayLike | None, problem: LeastSquares) -> FloatArray:
    """Return beta_0, zero by default: (p,), which serves all outputs, or (p, t)."""
    if value is None:
        return np.zeros(problem.p)
    outputs = None if np.ndim(checks.any_array("start", value)) == 1 else problem.outputs
    return checked_columns("start", value, problem.p, outputs, "one entry per parameter")
