"""The mean of A M A' over the orders of up to some twenty batches as one matrix, for states of a few entries.

On symmetric matrices of d(d + 1) / 2 entries every visit is a small matrix T_b, and the mean of their products
over all orders is found on the lattice of subsets, a whole layer at a time: T_S is the mean of T_b T_(S without b)
over which b came last. Half of the layers are enough, since an order is one half after the other:
the mean over all orders is that of T_(not S) T_S over the subsets S of half the batches.
"""

from itertools import combinations
from math import comb

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._progress import track
from reshuffle.epoch.accuracy import CALL
from reshuffle.epoch.visits import Visits

_MOST_BYTES = 2e9


def flops(batches: int, dimension: int) -> float:
    """Operations, calls included; infinite if its memory is out of reach."""
    size, half = dimension * (dimension + 1) // 2, (batches + 1) // 2
    if 16.0 * comb(batches, half) * size**2 > _MOST_BYTES:
        return np.inf
    products = sum(k * comb(batches, k) for k in range(2, half + 1)) + comb(batches, half)
    return float(2.0 * products * size**3 + CALL * (batches * half + comb(batches, half)))


def mean_change(visits: Visits) -> FloatArray:
    """E[A M A'] - M as a matrix on the entries `upper_entries` of M, for steps that are the same in all slots."""
    batches, d = visits.count, visits.dimension
    each = [_square(visits.move(batch, np.eye(d), 0)) for batch in range(batches)]
    size, half = d * (d + 1) // 2, (batches + 1) // 2
    places: dict[int, dict[int, int]] = {}
    layers: dict[int, FloatArray] = {}
    for count in track(range(half + 1), half + 1, "averaging orders"):
        subsets = [sum(1 << b for b in members) for members in combinations(range(batches), count)]
        places[count] = {subset: number for number, subset in enumerate(subsets)}
        layers[count] = _layer(each, subsets, layers.get(count - 1), places.get(count - 1, {}), size)
        if count >= 2:
            layers.pop(count - 2)
    rest, every = batches - half, (1 << batches) - 1
    total = np.zeros((size, size))
    for subset, number in places[half].items():
        total += layers[rest][:, places[rest][every ^ subset]] @ layers[half][:, number]
    return np.asarray(total / len(places[half]) - np.eye(size))


def _layer(
    each: list[FloatArray], subsets: list[int], before: FloatArray | None, places: dict[int, int], size: int
) -> FloatArray:
    """The means over the orders of subsets of one more batch (size, subsets, size), side by side."""
    if before is None:
        return np.eye(size)[:, np.newaxis]
    made = np.zeros((size, len(subsets), size))
    for batch, visit in enumerate(each):
        inside = [number for number, subset in enumerate(subsets) if subset >> batch & 1]
        others = before[:, [places[subsets[number] ^ (1 << batch)] for number in inside]]
        made[:, inside] += (visit @ others.reshape(size, -1)).reshape(others.shape)
    return made / subsets[0].bit_count()


def upper_entries(dimension: int) -> tuple[IntArray, ...]:
    """The places of the entries of a symmetric matrix that tell all of it."""
    return np.triu_indices(dimension)


def symmetric(entries: FloatArray, dimension: int) -> FloatArray:
    """The symmetric matrix (d, d) of these entries.

    >>> symmetric(np.array([1.0, 2.0, 3.0]), 2)
    array([[1., 2.],
           [2., 3.]])
    """
    matrix = np.zeros((dimension, dimension))
    matrix[upper_entries(dimension)] = entries
    return matrix + np.triu(matrix, 1).T


def _square(visit: FloatArray) -> FloatArray:
    """M -> G M G' as a matrix."""
    d = len(visit)
    upper = upper_entries(d)
    units = np.eye(len(upper[0]))
    return np.array([(visit @ symmetric(unit, d) @ visit.T)[upper] for unit in units]).T
