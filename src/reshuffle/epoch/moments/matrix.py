"""An epoch as a matrix on the entries of second moments, for small states.

T(M) = E[A M A'] is found from what an epoch does to a stack of unit matrices. Its powers are far epochs, its
spectral radius is the rate of the mean square. On the lattice of subsets half of the layers are enough: an order of
all batches is an order of half of them, followed by one of the rest, so that T is the mean of T(not S) T(S) over
the subsets S of half the batches.
"""

from collections.abc import Callable
from functools import lru_cache
from math import comb

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._budget import CALL
from reshuffle._linalg import few_threads
from reshuffle.epoch.averaging.lattice import climbs, subsets_by_size
from reshuffle.epoch.epoch_map import EpochMap
from reshuffle.epoch.moments.lattice import EpochMoments, epoch_moments, flops
from reshuffle.epoch.moments.stationary import Packing
from reshuffle.epoch.timeline import Timeline
from reshuffle.epoch.visits import Inputs

MOST_ENTRIES = 400  # entries of second moments up to which their epoch is written out as a matrix
MOST_WRITTEN_OUT = 120  # entries of a second moment up to which all eigenvalues of its epoch are computed
FEWEST_ROUNDS = 20  # applications of an epoch without which there is no use to begin
_STACKED_BYTES = 2e8
_MOST_BYTES = 2e9


def epoch_flops(timeline: Timeline) -> float:
    """Operations of one application of `congruence_change`; where the map is written out, of writing it out."""
    return _matrix_flops(timeline) if is_written_out(timeline) else _once_flops(timeline)


def _once_flops(timeline: Timeline, count: int = 1) -> float:
    visits, rows = timeline.visits(0), len(timeline.blocks.rows) / timeline.blocks.batches
    return flops(timeline.walk, visits.dimension, visits.rank, rows, count)


def _matrix_flops(timeline: Timeline) -> float:
    d, walk = timeline.visits(0).dimension, timeline.walk
    size, half = d * (d + 1) // 2, (walk.steps + 1) // 2
    if not climbs(walk.scheme):
        return _once_flops(timeline, size)
    nodes = comb(walk.steps, half)
    if 16.0 * nodes * size**2 > _MOST_BYTES:
        return np.inf
    return _once_flops(timeline, size) / 2 + 2.0 * nodes * size**3 + nodes * CALL / 20


def is_written_out(timeline: Timeline) -> bool:
    """True if the map of second moments is written out as a matrix: sooner done than a few applications of it."""
    d = timeline.visits(0).dimension
    if not (0 < d * (d + 1) // 2 <= MOST_ENTRIES and timeline.visits(0).step):
        return False
    return _matrix_flops(timeline) <= 2 * FEWEST_ROUNDS * _once_flops(timeline)


def congruence_change(timeline: Timeline) -> Callable[[FloatArray], FloatArray]:
    """M -> E[A M A'] - M over the orders of the first epoch, for symmetric M (d, d)."""
    visits = timeline.visits(0)
    if not is_written_out(timeline):
        return epoch_moments(timeline, Inputs(np.zeros(visits.rank))).congruence_change
    change, packing = _written_out_first(timeline), Packing(np.outer(visits.right, visits.right))

    def applied(matrix: FloatArray) -> FloatArray:
        return packing.unpacked(change @ packing.packed(matrix))

    return applied


@lru_cache(maxsize=1)
def _written_out_first(timeline: Timeline) -> FloatArray:
    """T - I of the first epoch: the rate and the gain need it, one after the other."""
    return written_out(epoch_moments(timeline, Inputs(np.zeros(timeline.visits(0).rank))))


def written_out(moments: EpochMoments) -> FloatArray:
    """T - I (s, s) on the entries of R M R, s = d (d + 1) / 2."""
    d, steps = moments.dimension, moments.walk.steps
    upper = np.triu_indices(d)
    size, places = len(upper[0]), np.arange(len(upper[0]))
    stack = np.zeros((d, size, d))
    stack[upper[0], places, upper[1]] = stack[upper[1], places, upper[0]] = 1.0
    halves = climbs(moments.walk.scheme) and steps >= 4
    half = (steps + 1) // 2 if halves else len(moments.layers)
    most = max(layer.nodes for layer in moments.layers[:half])
    height = max(1, int(_STACKED_BYTES / (8.0 * most * d * d)))
    found: dict[int, list[FloatArray]] = {steps - half: [], half: []} if halves else {half: []}
    with few_threads(d):
        for first in range(0, size, height):
            for number, change in zip(
                range(1, half + 1), moments.changes(stack[:, first : first + height]), strict=False
            ):
                if number in found:
                    # (nodes, entries, some of the unit matrices).
                    found[number].append(change[:, upper[0], :, upper[1]].transpose(1, 0, 2))
        of = {number: np.concatenate(parts, axis=2) for number, parts in found.items()}
        if not halves:
            return np.asarray(of[half].mean(axis=0))
        before, subsets = of[half], subsets_by_size(steps)
        after = of[steps - half][np.searchsorted(subsets[steps - half], 2**steps - 1 - subsets[half])]
        total = before.mean(axis=0) + after.mean(axis=0)
        for first in range(0, len(before), 64):
            total += (after[first : first + 64] @ before[first : first + 64]).sum(axis=0) / len(before)
        return np.asarray(total)


class FarMoments:
    """[M, C] after any number of epochs from [M, C] = `start`, which has no noise in it, as powers of one matrix.

    C has fewer parameters than entries: with the mean map A and what enters in an epoch [c, N] = L R E, C_k is
    [A^k m_0 + G_k c, G_k N] for the sum G_k of the powers of A. M, G and A^k m_0 are followed together, one after
    the other in a vector; without noise, M and the mean.
    """

    def __init__(self, moments: EpochMoments, once: EpochMap, start: FloatArray):
        inputs, self._d = moments.inputs, moments.dimension
        self._moments, self._start, self._packing = (
            moments,
            start,
            Packing(np.outer(moments.units, moments.units)),
        )
        self._is_noisy = inputs.noise > 0
        if inputs.given is not None:
            once = once.with_inputs(np.concatenate([[inputs.constant], inputs.given])[:, np.newaxis])
        self._entries = once.entries.copy()
        self._entries[:, 1:] *= inputs.noise
        self._map = self._joint_map(once.kernel)

    def after(self, epochs: float) -> FloatArray:
        """[M, C] after so many epochs; inf where they have left the range of numbers."""
        d, size, begin = self._d, self._packing.size, np.zeros((len(self._map.left), 1))
        begin[:size, 0] = self._packing.packed(self._start[:, :d])
        begin[-d:, 0] = self._moments.units * self._start[:, d]
        made = self._map.after(epochs, begin)[:, 0]
        found = np.zeros_like(self._start)
        cross = self._cross(made[size:])
        found[:, :d] = self._packing.unpacked(made[:size])
        found[:, d : d + cross.shape[1]] = cross
        return np.where(np.isfinite(found), found, np.inf)

    def _cross(self, path: FloatArray) -> FloatArray:
        """C (d, inputs) from L R G, if there is noise, and the mean, both as one vector."""
        d, units = self._d, self._moments.units[:, np.newaxis]
        if not self._is_noisy:
            return np.asarray(path[:, np.newaxis] / units)
        cross = path[: d * d].reshape(d, d) @ self._entries
        cross[:, 0] += path[d * d :]
        return np.asarray(cross / units)

    def _joint_map(self, kernel: FloatArray) -> EpochMap:
        """The epoch of M, G and the mean, as one affine map; the inputs of M are linear in them."""
        d, grades, size, identity = self._d, self._moments.grades, self._packing.size, np.eye(self._d)
        beside = d * d * self._is_noisy + d
        sizes = np.add.outer(grades, grades)[self._packing.upper]
        full, entries = np.zeros((size + beside, size + beside)), np.zeros((size + beside, 1))

        def added(path: FloatArray) -> FloatArray:
            moments = np.hstack([np.zeros((d, d)), self._cross(path)])
            return np.asarray(self._packing.packed(self._moments.change(moments)[:, :d]) / sizes)

        entries[:size, 0] = added(np.zeros(beside))
        # Probes of the mean are as large as what enters, lest one be lost in the rounding of the other.
        probes = np.ones(beside)
        probes[-d:] = float(np.sqrt(np.abs(sizes * entries[:size, 0]).max(initial=0.0))) or 1.0
        full[:size, :size] = -written_out(self._moments) / sizes[:, np.newaxis]
        for place, probe in enumerate(np.diag(probes)):
            full[:size, size + place] = (entries[:size, 0] - added(probe)) / probes[place]
        if self._is_noisy:
            full[size:-d, size:-d] = np.kron(kernel, identity)
            entries[size:-d, 0] = identity.ravel()
        else:
            entries[-d:, 0] = self._entries[:, 0]
        full[-d:, -d:] = kernel
        left = np.concatenate([sizes, np.repeat(grades, d * self._is_noisy), grades])
        return EpochMap(left, np.ones(size + beside), full, entries, 1.0, np.ones(1))
