"""The checks that every question shares: is this a problem, is that a scheme for it, is this a start."""

from typing import Any

import numpy as np

from reshuffle._core import checks
from reshuffle._core.arrays import FloatArray
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.schemes import FullBatch, SampleWithReplacement, Scheme

_EXAMPLES: dict[type, str] = {FullBatch: "", SampleWithReplacement: "batch_size=32"}
"""What brackets hold for schemes that are not told a number of batches."""


def problem(value: Any) -> LeastSquares:
    """Return `value` if it is a least-squares problem."""
    if not isinstance(value, LeastSquares):
        raise TypeError(
            f"problem must be a LeastSquares, but it is a {type(value).__name__}; try rs.LeastSquares(X, y)."
        )
    return value


def scheme(value: Any, for_problem: LeastSquares) -> Scheme:
    """Return `value` if it is a scheme whose batches fit the rows of the problem."""
    if isinstance(value, type) and issubclass(value, Scheme):
        made = f"{value.__name__}({_EXAMPLES.get(value, 'batches=4')})"
        raise TypeError(f"scheme must be made before it is used: {made} in place of {value.__name__}.")
    if not isinstance(value, Scheme):
        raise TypeError(f"scheme must be a scheme such as RandomReshuffling(batches=4), but it is {value!r}.")
    value.partition(for_problem.n)
    return value


def start(value: Any, for_problem: LeastSquares) -> FloatArray:
    """Return beta_0 (p,), zero by default."""
    if value is None:
        return np.zeros(for_problem.p)
    return checks.vector("start", value, for_problem.p, "one entry a parameter")
