"""How far the cavity equation may be off: what it neglects, estimated.

What is neglected are samples that meet crosswise, i, j, i, j. To leading order their share in the pull of sample i is
sum_j g_ij^3 o_j, with g_ij = o_i'diag(f) o_j and f what an epoch does to a mode in total; a sample that has a
direction to itself is put off by about its square over n. Signs and factors of order one are unknown. So answers are
asked of several maps that are put off by that much: in all modes alike, in every mode by chance, in every sample by
chance. The factor is calibrated on problems whose means are known exactly (benchmarks/cavity_coverage.py).
"""

import numpy as np

from reshuffle._core import FloatArray
from reshuffle.epoch.low_degrees import Whitened

_FACTOR = 2.5
"""Calibrated: answers are within the error in more than 99 of 100 cases."""
_WITHOUT_PAIRS = 1.0
"""The same where pairs of samples are too many to be looked at, and g_ii^2 stands for all of them."""
_MOST_OPERATIONS = 2e10
_CHUNK = 1 << 22
"""Entries of the Gram matrix of the samples that are held at a time."""
_BY_CHANCE = 2


def neglected(whitened: Whitened, strength: FloatArray) -> FloatArray:
    """The pull (n, k) that the cavity equation may have missed, where an epoch acts on the modes with strength f (k,)."""
    rows = whitened.orthonormal
    n, k = rows.shape
    own = np.square(rows) @ strength
    if 4.0 * n * n * k > _MOST_OPERATIONS:
        return _WITHOUT_PAIRS * np.minimum(own**2, 0.1 * whitened.row_norms**2)[:, np.newaxis] * rows
    crosswise = (own**2 / n)[:, np.newaxis] * rows
    height = max(1, _CHUNK // n)
    for start in range(0, n, height):
        part = slice(start, start + height)
        met = (rows[part] * strength) @ rows.T
        met[np.arange(len(met)), np.arange(start, start + len(met))] = 0.0
        crosswise[part] += met**3 @ rows
    return _FACTOR * crosswise


def put_off(pull: FloatArray, off: FloatArray) -> list[FloatArray]:
    """Pulls (n, k) that differ from the given one by as much as it may be off, with different signs."""
    rng = np.random.default_rng(0)
    n, k = pull.shape
    by_mode = rng.choice([-1.0, 1.0], size=(_BY_CHANCE, 1, k))
    by_sample = rng.choice([-1.0, 1.0], size=(_BY_CHANCE, n, 1))
    return [pull + off, *(pull + off * signs for signs in [*by_mode, *by_sample])]
