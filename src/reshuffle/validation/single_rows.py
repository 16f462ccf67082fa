"""Leaving out rows that are visited one at a time in random order: the mean over the orders of the others, exactly.

A visit to a row whose gradient is left out does nothing, so that A_i = F(all but i) and g_i = N(all but i), where
F(S) is the mean over the orders of the rows in S, and N(S) what they learn. Both follow from smaller sets,

    [F(S), N(S)] = mean over j in S of [F(S - j), N(S - j)] + step x_j ([0, y_j] - x_j'[F(S - j), N(S - j)]).
"""

import numpy as np

from reshuffle.epoch.accuracy import A_SECOND, CALL
from reshuffle.epoch.averaging.lattice import MOST_BATCHES
from reshuffle.validation.descent import Descent
from reshuffle.validation.left_out_maps import LeftOutMaps

_PER_NUMBER = 500.0
"""Operations that fit in the time a number takes on its way up the lattice: 30 ns for 20 rows of one column."""


def are_few(descent: Descent) -> bool:
    """Whether batches are single rows whose visits do nothing without their gradients, and a second will do."""
    n = descent.problem.n
    plain = descent.blocks.batches == n and not descent.shrinkage and not descent.leaves_means
    return plain and n <= MOST_BATCHES and operations(descent) <= A_SECOND


def operations(descent: Descent) -> float:
    """About what the lattice costs."""
    rows, rank = descent.problem.n, descent.problem.rank
    numbers = rows * 2.0 ** (rows - 1) * rank * (rank + descent.outputs)
    return float(_PER_NUMBER * numbers + rows**2 * CALL)


def single_rows(descent: Descent) -> LeftOutMaps:
    """The maps without each of the rows."""
    n, members = descent.problem.n, np.arange(descent.problem.n)
    rows = descent.rows(members)
    target = np.hstack([rows, descent.responses(members, rows)])
    scaled = descent.step * rows / descent.divisors[:, np.newaxis]
    subsets = np.arange(1 << n)
    sizes = np.zeros(1 << n, dtype=np.int64)
    for row in members:
        sizes += subsets >> row & 1
    # What is lost, I - F(S), and N(S): small steps lose no digits.
    made = np.zeros((1 << n, rows.shape[1], target.shape[1]))
    for size in range(1, n):
        here = np.flatnonzero(sizes == size)
        for row in members:
            mine = here[(here >> row & 1).astype(bool)]
            before = made[mine ^ (1 << row)]
            seen = target[row] - np.einsum("r,mrk->mk", rows[row], before)
            made[mine] += before + scaled[row][:, np.newaxis] * seen[:, np.newaxis]
        made[here] /= size
    without = made[((1 << n) - 1) ^ (1 << members)]
    lost, gained = np.split(without, [rows.shape[1]], axis=2)
    return LeftOutMaps.of(descent, (lost + np.swapaxes(lost, 1, 2)) / 2, gained)
