"""Rows that were centred by their mean: who leaves one out leaves it out of the mean too.

Centred rows add up to zero, so that all others know the one that is left out; with as many columns as rows they
predict it perfectly. Centred by the mean of the others row i is a_i x_i, where a_i = W / (W - w_i) for weights w of
sum W, and X'X and X'y of the others are those of all rows less a_i x_i x_i' and a_i x_i y_i.
"""

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.validation.leave_one_out import weights_of

_ROUNDING = 1e-9
"""The mean of a column, relative to its entries, that is no more than rounding."""


def factors(problem: LeastSquares) -> FloatArray:
    """a_i (n,)."""
    weights = weights_of(problem)
    return np.asarray(weights.sum() / (weights.sum() - weights))


def require_centred(problem: LeastSquares) -> None:
    """Refuse rows whose mean is not zero."""
    if not is_centred(problem):
        raise ValueError(
            "centred must be False, since the columns of X and y have means other than zero; subtract these "
            "(weighted, if there are weights), or leave it out."
        )


def is_centred(problem: LeastSquares) -> bool:
    """Whether all columns of X and y have a mean of zero, by the weights of the rows."""
    roots = np.sqrt(weights_of(problem))
    for columns in (problem.X, problem.y):
        sizes = np.abs(roots @ np.abs(columns))
        if (np.abs(roots @ columns) > _ROUNDING * sizes).any():
            return False
    return True


def by_the_others(problem: LeastSquares, rows: IntArray) -> LeastSquares:
    """The problem of centred rows, centred by the mean of all but some rows instead."""
    roots = np.sqrt(weights_of(problem))
    others = np.setdiff1d(np.arange(problem.n), rows)
    total = np.square(roots[others]).sum()
    X, y = (
        columns - np.multiply.outer(roots, roots[others] @ columns[others] / total)
        for columns in (problem.X, problem.y)
    )
    moved = LeastSquares(X, y)
    moved.sample_weight = problem.sample_weight
    return moved
