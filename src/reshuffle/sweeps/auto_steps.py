"""Steps worth a look, from the data alone."""

from collections.abc import Sequence

import numpy as np

from reshuffle._core import FloatArray
from reshuffle.planning.mean_steps_left_out import Spectrum
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.schemes.base import Scheme

LOWEST, HIGHEST = 0.01, 2.0
"""In safe steps: the smallest step of the grid, of the smallest safe step, and the largest, of the largest."""
COUNT = 16


def auto_steps(problem: LeastSquares, schemes: Sequence[Scheme], count: int = COUNT) -> FloatArray:
    """Steps (count,) in even steps of their logarithm, from a hundredth of a safe step up to two of them.

    The safe step of a scheme is one below which single runs converge in the mean square; it is smaller for smaller
    batches, so that the grid begins with the smallest and ends with the largest of all schemes.

    >>> from reshuffle import FullBatch
    >>> auto_steps(LeastSquares([[1.0], [3.0]], [0.0, 0.0]), [FullBatch()], 3).round(4)
    array([0.004 , 0.0566, 0.8   ])
    """
    if not problem.rank:
        raise ValueError("X must not be zero in all its entries, but it is; give steps yourself.")
    spectrum = Spectrum.of(problem)
    safe = [spectrum.safe_step(scheme) for scheme in schemes]
    return np.geomspace(LOWEST * min(safe), HIGHEST * max(safe), count)
