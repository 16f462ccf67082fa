"""Coordinates in which features of any condition number keep their digits.

With X V / scale = U diag(s) Q' every batch is C_b Q = U_b diag(s): small directions are small columns, not
differences of large ones. Whatever an epoch does then carries the factors s beside a kernel of ordinary size.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from reshuffle._core.arrays import FloatArray
from reshuffle._core.orthogonal import graded_svd
from reshuffle._core.threads import few_threads
from reshuffle.problem.blocks import Blocks
from reshuffle.problem.row_space import RowSpace


@dataclass(frozen=True, eq=False)
class GradedBlocks(Blocks):
    """Blocks whose rows are `unit` * `singular`.

    Attributes
    ----------
    unit : (rows, r)
        U, with orthonormal columns.
    singular : (r,)
        s, descending.
    """

    unit: FloatArray
    singular: FloatArray


def graded(space: RowSpace, blocks: Blocks) -> tuple[RowSpace, GradedBlocks]:
    """Turn the row space and the blocks in it to the singular vectors of the rows."""
    with few_threads(math.sqrt(blocks.rows.size)):
        unit, singular, turn = graded_svd(blocks.rows)
    turned = replace(space, turn=turn if space.turn is None else space.turn @ turn)
    rows = np.ascontiguousarray(unit * singular)
    return turned, GradedBlocks(rows, blocks.response, blocks.offsets, blocks.divisors, unit, singular)
