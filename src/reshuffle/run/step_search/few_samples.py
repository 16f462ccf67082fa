"""The mean over all orders of few shuffled samples, exactly at any step: over the subsets that an epoch may take.

One sample of each batch stands for it, so that the mean over orders of the samples, cut into batches, is

    Abar = mean over sets S of B samples of F(S),   F(S) = mean over i in S of (I - step x_i x_i') F(S - i),

for batches that are divided by their own length: no word is summed with alternating signs.
"""

import math

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._linalg import thin_qr
from reshuffle.problem.batches import Blocks
from reshuffle.run.step_search.rank_one import visits_taken
from reshuffle.schemes.base import Scheme, Shuffle

_MOST_SAMPLES = 20
_MOST_ENTRIES = 1e7
"""Of all matrices of a layer of subsets."""
_MOST_FLOPS = 3e9
"""Of the kernels at B steps: 14 samples in as many dimensions, one per batch, are below it. A search, which
interpolates several times, takes 5 s for them."""
_OF_A_CALL = 160.0
"""What a subset costs beside its products, of matrices that are multiplied many at a time."""


def flops(scheme: Scheme, n: int, blocks: Blocks) -> float:
    """Operations of the kernel at one step; infinite for subsets beyond count."""
    samples, steps = blocks.batches, scheme.steps(n)
    rows, rank = map(float, blocks.rows.shape)
    if samples > _MOST_SAMPLES:
        return math.inf
    visits = sum(size * math.comb(samples, size) for size in range(1, steps + 1))
    return float(visits) * (_OF_A_CALL + 8.0 * rows / samples * rank**2)


def serves(scheme: Scheme, n: int, blocks: Blocks) -> bool:
    """Whether shuffled samples, or groups of rows, are so few that all subsets are followed."""
    samples, rank = blocks.batches, float(blocks.rows.shape[1])
    shuffles = scheme.shuffle is Shuffle.EVERY_EPOCH and scheme.unit.is_cut
    if not shuffles or scheme.steps(n) * flops(scheme, n, blocks) > _MOST_FLOPS:
        return False
    return float(math.comb(samples, samples // 2)) * rank**2 <= _MOST_ENTRIES


class FewSamples:
    """(I - Abar) / step = R'K R with a triangle R (r, r) and a kernel K (r, r) that is a polynomial of the step."""

    def __init__(self, scheme: Scheme, n: int, blocks: Blocks):
        self._weight, self._visits, self._chances = visits_taken(scheme, n, blocks)
        self.degree = int(self._visits[-1]) - 1
        orthonormal, self.triangle = thin_qr(blocks.rows)
        self._samples = [orthonormal[blocks.of(sample)] for sample in range(blocks.batches)]
        self._between = self.triangle @ self.triangle.T

    def kernel(self, step: float) -> FloatArray:
        """K at a step: K(S) = mean over i of U_i'U_i (I - step R R'K(S - i)) + K(S - i), for x_i = R'U_i'."""
        samples, rank = len(self._samples), len(self.triangle)
        members = np.arange(1 << samples)
        sizes = np.array([subset.bit_count() for subset in members.tolist()])
        places = np.empty(len(members), dtype=np.int64)
        layer, total = np.zeros((1, rank, rank)), np.zeros((rank, rank))
        chances = dict(zip(self._visits.tolist(), self._chances.tolist(), strict=True))
        for size in range(1, int(self._visits[-1]) + 1):
            places[members[sizes == size - 1]] = np.arange(len(layer))
            layer = self._next_layer(members[sizes == size], places, layer, step) / size
            total += chances.get(size, 0.0) * layer.mean(axis=0)
        return np.asarray((total + total.T) / 2)

    def _next_layer(self, subsets: IntArray, places: IntArray, layer: FloatArray, step: float) -> FloatArray:
        found = np.zeros((len(subsets), *layer.shape[1:]))
        for sample, rows in enumerate(self._samples):
            chosen = np.flatnonzero(subsets >> sample & 1)
            before = layer[places[subsets[chosen] ^ (1 << sample)]]
            seen = rows - step * (rows @ self._between) @ before
            found[chosen] += before + self._weight * rows.T @ seen
        return found
