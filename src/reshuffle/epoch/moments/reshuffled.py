"""The second moment of random reshuffling, where most of the work is matrix products through the rows of a batch.

M(S) is the mean of E e e' over the orders of the batches in S. With D = E e eta_b' before the visit to b and
h = step / m_b,

    G M G' + G D H' + H D'G' + noise^2 H H' = M - h (C'L + L'C),
    L = T - D' - (h / 2) ((T - 2 D') C' + noise^2) C,    T = C M,    C = X_b,

so that no product is larger than (m_b, r) by (r, r). What the noise of a batch has to do with the error before
the visit is what the mean over the orders of S makes of it, D = F(S) E e_k eta_b', so nothing of it travels
through the lattice. In the coordinates of `aligned` the largest batch needs no product.

Its coordinates make the rows of two batches as sparse as they can be. With C_1 = U_1 [diag(s), 0] V' the
largest batch is diagonal in the coordinates V. Those that it does not see are still free: a second singular
value decomposition makes the part of the second batch there diagonal, so that half of its products, or more,
are spared. Rows may be turned too, if what enters through them is turned with them.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from reshuffle._arrays import FloatArray
from reshuffle._blas import few_threads
from reshuffle.epoch.averaging.lattice import elements, layer
from reshuffle.epoch.epoch_map import average
from reshuffle.problem.batches import Blocks


@dataclass(frozen=True, eq=False)
class Rows:
    """C = [dense, diag] (m, r): `dense` (m, k), then a diagonal of length c in the next columns, then zeros."""

    dense: FloatArray
    diagonal: FloatArray
    columns: int

    @property
    def _beside(self) -> slice:
        return slice(self.dense.shape[1], self.dense.shape[1] + len(self.diagonal))

    def __len__(self) -> int:
        return len(self.dense)

    def times(self, matrix: FloatArray, out: FloatArray) -> None:
        """Write C M (m, c) into `out`, for M (r, c)."""
        np.matmul(self.dense, matrix[: self.dense.shape[1]], out=out)
        if len(self.diagonal):
            out[: len(self.diagonal)] += self.diagonal[:, np.newaxis] * matrix[self._beside]

    def right_of(self, matrix: FloatArray) -> FloatArray:
        """M C' (q, m), for M (q, r)."""
        product = matrix[:, : self.dense.shape[1]] @ self.dense.T
        if len(self.diagonal):
            product[:, : len(self.diagonal)] += matrix[:, self._beside] * self.diagonal
        return np.asarray(product)

    def subtract(self, matrix: FloatArray, out: FloatArray) -> None:
        """Subtract M C from `out` (q, r), for M (q, m)."""
        out[:, : self.dense.shape[1]] -= matrix @ self.dense
        if len(self.diagonal):
            out[:, self._beside] -= matrix[:, : len(self.diagonal)] * self.diagonal

    def scaled(self, factor: float) -> "Rows":
        """The rows times a number."""
        return Rows(factor * self.dense, factor * self.diagonal, self.columns)

    def add_transposed(self, matrix: FloatArray, out: FloatArray) -> None:
        """Add C'M to `out` (r, c), for M (m, c)."""
        out[: self.dense.shape[1]] += self.dense.T @ matrix
        if len(self.diagonal):
            out[self._beside] += self.diagonal[:, np.newaxis] * matrix[: len(self.diagonal)]


class Alignment:
    """The coordinates and the rows of all batches in them.

    Attributes
    ----------
    first : int
        The batch that is diagonal: C = [diag(singular), 0].
    basis : (r, r)
        The coordinates, orthonormal.
    turns : dict of (m, m)
        For the batches whose rows were turned, the transposed turn U': their noise is to be turned by it as well.
    rows : list of Rows
        Of all batches but the first, which has none.
    """

    def __init__(self, blocks: Blocks):
        sizes = np.asarray(blocks.sizes)
        self.first, *others = np.argsort(-sizes, kind="stable").tolist()
        left, self.singular, right = scipy.linalg.svd(blocks.rows[blocks.of(self.first)], check_finite=False)
        self.basis, kept = right.T, len(self.singular)
        self.turns = {self.first: left.T}
        diagonal = np.zeros(0)
        if others and kept < len(right):
            second = blocks.rows[blocks.of(others[0])] @ self.basis[:, kept:]
            turn, diagonal, remaining = scipy.linalg.svd(second, check_finite=False)
            self.basis = np.hstack([self.basis[:, :kept], self.basis[:, kept:] @ remaining.T])
            self.turns[others[0]] = turn.T
        self.rows = [self._in_basis(blocks, batch, diagonal, kept) for batch in range(blocks.batches)]

    def _in_basis(self, blocks: Blocks, batch: int, diagonal: FloatArray, kept: int) -> Rows:
        turned = blocks.rows[blocks.of(batch)] @ self.basis
        if batch in self.turns and batch != self.first:
            turned = self.turns[batch] @ turned[:, :kept]
            return Rows(np.ascontiguousarray(turned), diagonal, len(self.basis))
        return Rows(np.ascontiguousarray(turned), np.zeros(0), len(self.basis))


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

    Attributes
    ----------
    basis : (r, r)
        The coordinates of the second moments.
    """

    def __init__(self, blocks: Blocks, step: float, modes: FloatArray, noise: float):
        self.noise, self.batches = noise, blocks.batches
        with few_threads(blocks.rows.shape[1]):
            alignment = Alignment(blocks)
        self.basis, self._first, self._turns = alignment.basis, alignment.first, alignment.turns
        self._rows = alignment.rows
        self._places = [blocks.of(batch) for batch in range(self.batches)]
        self._shares: list[float] = (step / blocks.divisors).tolist()
        self._weighted = [rows.scaled(h) for rows, h in zip(self._rows, self._shares, strict=True)]
        self._halves = [rows.scaled(h / 2) for rows, h in zip(self._rows, self._shares, strict=True)]
        singular, h = alignment.singular, self._shares[self._first]
        self._diagonal = np.ones(len(self.basis))
        self._diagonal[: len(singular)] -= h * singular**2
        with np.errstate(over="ignore"):
            self._scales = np.outer(self._diagonal, self._diagonal)
        self._inlet = h * singular
        self._layers: list[list[_Arrival]] = []
        self._means: dict[int, FloatArray] = {}
        with few_threads(len(self.basis)), np.errstate(over="ignore", invalid="ignore"):
            self._climb(self.basis.T @ modes)

    def _climb(self, modes: FloatArray) -> None:
        """The transposed F(S) Q of every subset, and the ways into it."""
        means = {0: modes}
        for size in range(self.batches + 1):
            if size:
                previous = means
                means = {
                    subset: average([self._visited(b, previous[subset ^ (1 << b)]) for b in elements(subset)])
                    for subset in layer(list(range(self.batches)), size)
                }
                self._layers.append([self._arrival(subset) for subset in means])
            self._means.update({subset: np.ascontiguousarray(mean.T) for subset, mean in means.items()})

    def _visited(self, batch: int, columns: FloatArray) -> FloatArray:
        if batch == self._first:
            return np.asarray(self._diagonal[:, np.newaxis] * columns)
        images = np.empty((len(self._rows[batch]), columns.shape[1]))
        self._weighted[batch].times(columns, images)
        visited = -columns
        self._rows[batch].add_transposed(images, visited)
        return -visited

    def _arrival(self, subset: int) -> "_Arrival":
        last = [b for b in elements(subset) if b != self._first]
        return _Arrival(subset, last, bool(subset >> self._first & 1))

    def inlet(self, noise_map: FloatArray) -> FloatArray:
        """The transposed E e_k eta' (rows, r) that `epoch` takes, from E e_k eta' (r, rows) in the modes."""
        source = np.ascontiguousarray(noise_map.T)
        for batch, turn in self._turns.items():
            source[self._places[batch]] = turn @ source[self._places[batch]]
        return source

    def epoch(self, second: FloatArray, source: FloatArray) -> FloatArray:
        """E e e' (r, r) after one more epoch."""
        moments = {0: second}
        with few_threads(len(self.basis)), np.errstate(over="ignore", invalid="ignore"):
            # In the coordinates of the second moments, in which the first batch is diagonal.
            turned = source @ self._means[0] if self.noise else source
            for arrivals in self._layers:
                moments = {way.subset: self._arrive(way, moments, source, turned) for way in arrivals}
            (end,) = moments.values()
            # Visits take M for symmetric: a skew part, if only of rounding, would grow epoch by epoch.
            return np.asarray((end + end.T) / 2)

    def _arrive(
        self, way: "_Arrival", moments: dict[int, FloatArray], source: FloatArray, turned: FloatArray
    ) -> FloatArray:
        """The mean over which batch of a subset is visited last."""
        product, total = np.zeros_like(self.basis), np.zeros_like(self.basis)
        for batch in way.last:
            before = way.subset ^ (1 << batch)
            total += moments[before]
            push = self._push(batch, moments[before], self._noises(batch, before, source, turned))
            self._weighted[batch].add_transposed(push, product)
        if way.last:
            total -= product
            total -= product.T
        if way.from_first:
            before = way.subset ^ (1 << self._first)
            visited = moments[before] * self._scales
            if self.noise:
                self._let_in(visited, self._noises(self._first, before, source, turned))
            total += visited
        total /= len(way.last) + way.from_first
        return total

    def _noises(self, batch: int, before: int, source: FloatArray, turned: FloatArray) -> FloatArray:
        """D' (m_b, r) after the visits of `before`."""
        place = self._places[batch]
        if not self.noise or before == 0:
            return turned[place]
        if before == 1 << self._first:
            return turned[place] * self._diagonal
        return np.asarray(source[place] @ self._means[before])

    def _push(self, batch: int, second: FloatArray, noises: FloatArray) -> FloatArray:
        """Return L (m_b, r)."""
        rows, half = self._rows[batch], self._halves[batch]
        push = np.empty((len(rows), len(self.basis)))
        rows.times(second, push)
        if self.noise:
            push -= noises
            inner = half.right_of(push - noises)
            inner.flat[:: len(inner) + 1] += self.noise**2 * self._shares[batch] / 2
        else:
            inner = half.right_of(push)
        rows.subtract(inner, push)
        return push

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
    """A subset of batches: which of them may have been visited last, the diagonal one apart."""

    subset: int
    last: list[int]
    from_first: bool
