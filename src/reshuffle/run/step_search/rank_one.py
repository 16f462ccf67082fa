"""The critical step of features of rank one, with proof: the mean of an epoch is a number with real zeros.

Where all rows are multiples of one direction, with squared lengths a_j, a visit multiplies by 1 - step times the
mean of a in its batch, and these numbers commute. A fresh order of n samples, cut into B batches, has the mean

    f(step) = e_B(1 - step a_1, ..., 1 - step a_n) / binom(n, B) = sum_i (-step)^i binom(B, i) e_i(a) / binom(n, i),

that over one sample of each batch (e_i are the elementary symmetric functions). As a polynomial of the step it is a
product of factors 1 - step t_k with t_k >= 0, because e_B is hyperbolic (`real_zeros`, `symmetric_mean`).
"""

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle.problem.batches import Blocks
from reshuffle.run.step_search.real_zeros import first_crossing
from reshuffle.run.step_search.symmetric_mean import SymmetricMean
from reshuffle.schemes.base import Scheme, Shuffle

MOST_ROWS = 20_000
"""Up to here the search takes seconds: 6.5 s for 20,000 Gaussian rows in batches of 4."""
_NEVER = 1e-15
"""A chance that is none, beside the largest."""


def serves(scheme: Scheme, blocks: Blocks) -> bool:
    """Whether features have rank one, and every epoch draws a fresh order of batches, samples or groups."""
    return blocks.rows.shape[1] == 1 and scheme.shuffle is Shuffle.EVERY_EPOCH and blocks.batches <= MOST_ROWS


def rank_one_step(scheme: Scheme, n: int, blocks: Blocks) -> float:
    """The first step at which |f| reaches one, in the scale of the blocks.

    >>> import reshuffle as rs
    >>> problem = rs.LeastSquares([[1.0], [2.0], [2.0]], [0.0, 0.0, 0.0])
    >>> step = rs.critical_step(problem, rs.SampleReshuffling(batch_size=1))
    >>> round(float(step), 9)  # (1 - step) (1 - 4 step)^2 touches one
    0.75
    """
    weight, visits, chances = visits_taken(scheme, n, blocks)
    squares = np.add.reduceat(np.square(blocks.rows[:, 0]), blocks.offsets[:-1])
    squares *= weight / blocks.divisors
    # Up to here every visit shrinks what it sees.
    return first_crossing(SymmetricMean(squares, visits, chances).at, 2 / float(squares.max()))


def visits_taken(scheme: Scheme, n: int, blocks: Blocks) -> tuple[float, IntArray, FloatArray]:
    """The largest weight of a visit, and how many visits of that weight an epoch has, with the chance of each.

    A visit to a batch is one to any of its samples, as far as the mean goes; with a smaller weight, by a factor r,
    it is one of the largest weight that takes place with the chance r.

    >>> import reshuffle as rs
    >>> scheme = rs.SampleReshuffling(batch_size=2, normalize="equal")
    >>> blocks = rs.gaussian(5, 1).blocks(scheme.partition(5), scheme.divisors(5))
    >>> visits_taken(scheme, 5, blocks)
    (1.2, array([2, 3]), array([0.5, 0.5]))
    """
    if not scheme.unit.is_cut:
        return 1.0, np.array([blocks.batches]), np.ones(1)
    weights = scheme.sizes(n) / scheme.rows_per_unit / scheme.step_divisors(n)
    top = float(weights.max())
    chances = np.ones(1)
    for weight in weights[weights < top] / top:
        chances = np.convolve(chances, [1 - weight, weight])
    visits = int((weights == top).sum()) + np.arange(len(chances))
    counts = chances > _NEVER * chances.max()
    return top, visits[counts], chances[counts]
