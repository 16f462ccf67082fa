"""The second moment of random reshuffling, where most of the work is matrix products through the rows of a batch.

M(S) is the mean of E e e' over the orders of the batches in S. With D = E e eta_b' before the visit to b and
h = step / m_b,

    G M G' + G D H' + H D'G' + noise^2 H H' = M - C'L - L'C,
    L = h (T - D') - (h^2 / 2) ((T - 2 D') C' + noise^2) C,    T = C M,    C = X_b,

so that no product is larger than (m_b, r) by (r, r), and all last visits to a subset share one. What the noise of a
batch has to do with the error before the visit is what the mean over the orders of S makes of it,
D = F(S) E e_k eta_b', so only F(S) is needed and nothing of the noise travels through the lattice. The coordinates
are those in which the largest batch is diagonal: visits to it change entries one by one.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.linalg

from reshuffle.arrays import FloatArray
from reshuffle.blocks import Blocks
from reshuffle.epoch.subsets import elements, layer
from reshuffle.moments.affine_map import average


class ReshuffledMoment:
    """One epoch of E e e', for one set of batches and one step.

    Parameters
    ----------
    blocks : Blocks
    step : float
        For features divided by their scale.
    modes : (r, r)
        Q, the basis in which what the noise has done so far is given.
    noise : float
    """

    def __init__(self, blocks: Blocks, step: float, modes: FloatArray, noise: float):
        self.noise, self.batches = noise, blocks.batches
        self._aligned = int(np.argmax(blocks.sizes))
        left, self._singular, right = scipy.linalg.svd(
            blocks.rows[blocks.of(self._aligned)], check_finite=False
        )
        self._left = left
        self.basis = right.T
        self._rows = [
            np.ascontiguousarray(blocks.rows[blocks.of(b)] @ self.basis) for b in range(self.batches)
        ]
        self._places = [blocks.of(b) for b in range(self.batches)]
        self._shares = step / blocks.divisors
        self._prepare(self.basis.T @ modes)

    def _prepare(self, modes: FloatArray) -> None:
        rank, kept = len(self.basis), len(self._singular)
        own = self._shares[self._aligned]
        self._diagonal = np.ones(rank)
        self._diagonal[:kept] -= own * self._singular**2
        self._scales = np.outer(self._diagonal, self._diagonal)
        self._inlet = own * self._singular
        self._halves = [rows.T * (share / 2) for rows, share in zip(self._rows, self._shares, strict=True)]
        self._layers: list[list[_Arrival]] = []
        self._means = {0: np.ascontiguousarray(modes.T)}
        means = {0: modes}
        for size in range(1, self.batches + 1):
            following = {}
            for subset in layer(list(range(self.batches)), size):
                members = elements(subset)
                following[subset] = average([self._visited(b, means[subset ^ (1 << b)]) for b in members])
                self._means[subset] = np.ascontiguousarray(following[subset].T)
            self._layers.append([self._arrival(subset) for subset in following])
            means = following

    def _arrival(self, subset: int) -> "_Arrival":
        members = [b for b in elements(subset) if b != self._aligned]
        weighted = [self._rows[b] * self._shares[b] for b in members]
        columns = np.vstack([np.zeros((0, len(self.basis))), *weighted]).T
        stops = np.cumsum([0, *(len(rows) for rows in weighted)])
        slots = [slice(int(start), int(stop)) for start, stop in pairwise(stops)]
        return _Arrival(subset, members, columns, slots, bool(subset >> self._aligned & 1))

    def _visited(self, batch: int, columns: FloatArray) -> FloatArray:
        if batch == self._aligned:
            return np.asarray(self._diagonal[:, np.newaxis] * columns)
        rows = self._rows[batch]
        return np.asarray(columns - rows.T @ (self._shares[batch] * (rows @ columns)))

    def inlet(self, noise_map: FloatArray) -> FloatArray:
        """The transposed E e_k eta' (rows, r) that `epoch` takes, from E e_k eta' (r, rows) in the modes."""
        source = np.ascontiguousarray(noise_map.T)
        places = self._places[self._aligned]
        source[places] = self._left.T @ source[places]
        return source

    def epoch(self, second: FloatArray, source: FloatArray) -> FloatArray:
        """E e e' (r, r) after one more epoch."""
        moments = {0: second}
        for arrivals in self._layers:
            moments = {arrival.subset: self._arrive(arrival, moments, source) for arrival in arrivals}
        (end,) = moments.values()
        return end

    def _arrive(self, arrival: "_Arrival", moments: dict[int, FloatArray], source: FloatArray) -> FloatArray:
        """The mean over which batch of a subset is visited last."""
        total = np.zeros_like(self.basis)
        pushes = np.empty(arrival.columns.shape[::-1])
        for batch, slot in zip(arrival.members, arrival.slots, strict=True):
            before = arrival.subset ^ (1 << batch)
            total += moments[before]
            self._push(batch, before, moments[before], source, pushes[slot])
        if arrival.members:
            product = arrival.columns @ pushes
            total -= product
            total -= product.T
        if arrival.has_aligned:
            before = arrival.subset ^ (1 << self._aligned)
            visited = moments[before] * self._scales
            if self.noise:
                self._let_in(visited, source[self._places[self._aligned]] @ self._means[before])
            total += visited
        total /= len(arrival.members) + arrival.has_aligned
        return total

    def _push(self, batch: int, before: int, second: FloatArray, source: FloatArray, out: FloatArray) -> None:
        """Write L / h (m_b, r) into `out`."""
        rows = self._rows[batch]
        np.matmul(rows, second, out=out)
        halves = self._halves[batch]
        if self.noise:
            noises = source[self._places[batch]] @ self._means[before]
            out -= noises
            inner = (out - noises) @ halves
            inner.flat[:: len(inner) + 1] += self.noise**2 * self._shares[batch] / 2
        else:
            inner = out @ halves
        out -= inner @ rows

    def _let_in(self, visited: FloatArray, noises: FloatArray) -> None:
        """Add G D H' + H D'G' + noise^2 H H' for the diagonal batch, in place."""
        kept = len(self._inlet)
        entering = self._inlet[:, np.newaxis] * noises[:kept] * self._diagonal
        visited[:kept] += entering
        visited[:, :kept] += entering.T
        diagonal = np.arange(kept)
        visited[diagonal, diagonal] += (self.noise * self._inlet) ** 2


@dataclass(frozen=True, eq=False)
class _Arrival:
    """A subset of batches: those of its members that are not diagonal, and their rows times h, side by side."""

    subset: int
    members: list[int]
    columns: FloatArray
    slots: list[slice]
    has_aligned: bool
