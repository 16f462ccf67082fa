"""The fixed-point system of one epoch of random reshuffling, in the proportional limit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle.asymptotics.laws.symmetric_blocks import Blocks, SymmetricBlocks
from reshuffle.free.checks import Complex
from reshuffle.free.laws import MarchenkoPastur
from reshuffle.free.solver import RationalR, inverse

_FEW = 4
"""Eigenvalues of Sigma up to which they are taken one by one, for a single direction."""

_SMALL = 0.95
"""Root mean square of 1 - w_b up to which products of these count as small.

For B = 3, 4, 8 and aspects .002, .05, .3, both bases give the same ends of the spectrum to 1e-10 above .6. Below,
and up to .9 for 8 batches at aspect .1, that of u loses all digits."""

_MOST_DIRECT = 500
"""Unknowns up to which the Jacobian is made and factored; beyond, its products with few vectors are cheaper."""


@dataclass(frozen=True, eq=False)
class State:
    """One evaluation of the map.

    Attributes
    ----------
    resolvent : (points, k, k)
        The mean of G over the spectrum of Sigma.
    image : (points, unknowns)
        The next unknowns.
    blocks : for each type (points, eigenvalues, sizes, sizes)
        G at each eigenvalue of Sigma.
    restricted : for each inner type (points, sizes, sizes)
        The mean of lambda G, on the subsets without a given batch.
    factors : for each inner type
        beta (1 - c g beta)^-1, which tangents need.
    """

    resolvent: Complex
    image: Complex
    blocks: Blocks
    restricted: Blocks
    factors: Blocks

    def with_conjugates(self) -> "State":
        """The same points followed by their conjugates, where everything is conjugate."""

        def both(array: Complex) -> Complex:
            return np.concatenate([array, array.conj()])

        return State(
            both(self.resolvent),
            both(self.image),
            [both(block) for block in self.blocks],
            [both(block) for block in self.restricted],
            [both(block) for block in self.factors],
        )


class BatchSystem(SymmetricBlocks):
    """G(lambda) = (b + lambda sum_b H_b)^-1, one matrix over subsets for each eigenvalue lambda of Sigma.

    H_b = -v beta_b (1 - c g beta_b)^-1 is the R-transform of a Marchenko-Pastur variable of variance
    v = alpha/B and ratio B aspect (c = alpha aspect) at g, the mean of lambda G(lambda) on the subsets without b:
    for Sigma = I this is the system of `reshuffle.free`, and Sigma^(1/2) between the
    factors is averaged over by its conditional expectation. All batches are alike, so one H (in symmetric blocks)
    is unknown: 13 numbers for B = 4, where the general engine has 144.

    The equations are written in a basis in which 1 - (1 - w_1) ... (1 - w_B) does not cancel: without data every
    F(S) is I, and the vector u of these takes the place of the empty set, divided by the root of `unit`, the size
    of the spectrum. Its row of the pencil then holds z / unit and what is of first order in the w_b, with all
    digits however small the step is, or z near a hard edge. Only where the products themselves are small, and the
    spectrum is narrow and near one, they stay as they are.

    Parameters
    ----------
    aspect, alpha : float
    batches : int
    eigenvalues, weights : (m,)
        The spectrum of Sigma.
    """

    def __init__(
        self, aspect: float, alpha: float, batches: int, eigenvalues: FloatArray, weights: FloatArray
    ):
        super().__init__(batches)
        self.eigenvalues, self.weights = eigenvalues, weights
        law = MarchenkoPastur(batches * aspect, alpha / batches)
        r = law.rational_r
        assert r is not None
        self.direct = self.unknowns <= _MOST_DIRECT
        # What z multiplies.
        self.direction = np.zeros((self.size, self.size))
        self.direction[0, 0] = 1.0
        self.constant = self._constant()
        largest = float(eigenvalues.max())
        self.unit = min(1.0, alpha * largest * (1 + aspect**0.5) ** 2)
        squares = (1 - alpha * eigenvalues / batches) ** 2 + alpha**2 * eigenvalues**2 * aspect / batches
        self._adapt(r, bool(squares.max() < _SMALL**2 and batches * aspect < 1 and self.unit == 1))
        size = max(np.linalg.norm(transform.coefficient, 2) for transform in self.transforms)
        self.norm = float(np.linalg.norm(self._offset, 2) + batches * law.scale * largest * size)

    def _adapt(self, r: tuple[float, float, float], small: bool) -> None:
        """Pass to the basis of u: restricted to the subsets without a batch it is that of the inner type 0.

        Where every F(S) is `small` instead of near I, at steps near one over the curvature, u would cancel what is
        left of it: the empty set stays as it is, with z - 1 in its row.
        """
        embedding = self.symmetry.links[0][0].embedding
        inner = np.eye(embedding.shape[1])
        self._offset = self.constant.copy()
        if not small:
            # Without data every F(S) is I: u is 1 for every size, and so is its part in the inner type.
            inner[:, 0] = embedding.sum(axis=0) / self.unit**0.5
            # The constant times u vanishes.
            self._offset[0, :] = self._offset[:, 0] = 0.0
        first, *others = self.symmetry.coefficients
        coefficients = [inner.T @ first @ inner, *others]
        self.transforms = [RationalR(block.astype(complex), r) for block in coefficients]
        self.modifier = inner.T @ self.symmetry.modifier

    def _constant(self) -> FloatArray:
        total = np.zeros((self.size, self.size))
        total[0, 0] = 1.0
        ones = self.spread(self.symmetry.coefficients)
        for where, pairing, one in zip(self.outer, self.symmetry.pairing, ones, strict=True):
            total[where, where] += pairing - one
        return total

    def base(self, z: Complex, height: Complex) -> Complex:
        """The base z e_0 e_0' + i height - offset, (points, k, k), for z in units of `unit`."""
        total = 1j * height[:, np.newaxis, np.newaxis] * np.eye(self.size) - self._offset
        total[:, 0, 0] += z
        return np.asarray(total)

    def mirrored(self, unknowns: Complex) -> Complex:
        """The unknowns at the conjugate point: everything is symmetric."""
        return np.conj(unknowns)

    def start(self, points: int) -> Complex:
        """The unknowns far up in the half-plane, where H vanishes to first order."""
        return np.zeros((points, self.unknowns), dtype=complex)

    def evaluate(self, base: Complex, unknowns: Complex) -> State:
        """The map at unknowns (points, unknowns) for a base (points, k, k)."""
        spread = self.spread_unknowns(unknowns)
        scale = self.eigenvalues[:, np.newaxis, np.newaxis]
        blocks = [
            inverse(base[:, np.newaxis, where, where] + scale * h[:, np.newaxis])
            for where, h in zip(self.outer, spread, strict=True)
        ]
        restricted = self.restrict(self.average(blocks, 1))
        pairs = [transform.apply(g, g) for transform, g in zip(self.transforms, restricted, strict=True)]
        images, factors = zip(*pairs, strict=True)
        return State(
            self._assemble(self.average(blocks, 0)), self.pack(images), blocks, restricted, list(factors)
        )

    def average(self, blocks: Sequence[Complex], power: int) -> Blocks:
        """The mean of lambda^power G(lambda) over the spectrum of Sigma."""
        weights = self.weights * self.eigenvalues**power
        if len(weights) == 1:
            return [weights[0] * block[:, 0] for block in blocks]
        return [np.einsum("l,nlij->nij", weights, block) for block in blocks]

    def _assemble(self, blocks: Sequence[Complex]) -> Complex:
        total = np.zeros((len(blocks[0]), self.size, self.size), dtype=complex)
        for where, block in zip(self.outer, blocks, strict=True):
            total[:, where, where] = block
        return total

    def _disassemble(self, matrix: Any, points: int) -> Blocks:
        full = np.broadcast_to(matrix, (points, self.size, self.size))
        return [full[:, np.newaxis, where, where] for where in self.outer]

    def between(self, left: Blocks, right: Blocks, power: int) -> Blocks:
        """The maps move -> mean of lambda^power G(lambda) move G'(lambda) for each type.

        They are (points, sizes^2, sizes^2). Made once they serve every direction, and cost no more for fifty
        eigenvalues of Sigma than for one.
        """
        weights = self.weights * self.eigenvalues**power
        maps = []
        for a, b in zip(left, right, strict=True):
            points, number, size = a.shape[:3]
            rows = (weights[:, np.newaxis] * a.reshape(points, number, size * size)).transpose(0, 2, 1)
            whole = (rows @ b.reshape(points, number, size * size)).reshape(points, size, size, size, size)
            # G' is symmetric, so that (G move G')_ij is the sum of G_ia G'_jb move_ab.
            maps.append(whole.transpose(0, 1, 3, 2, 4).reshape(points, size * size, size * size))
        return maps

    def through(self, maps: Blocks) -> Complex:
        """Spread, move by the maps, restrict: one matrix over all entries of the inner blocks."""
        points = len(maps[0])
        total = np.zeros((points, self.entries**2), dtype=complex)
        for entries, places, down, up, whole in zip(*self.crossings, maps, strict=True):
            # One flat index is several times faster than two.
            target = (entries[:, np.newaxis] * self.entries + entries).ravel()
            source = (places[:, np.newaxis] * whole.shape[2] + places).ravel()
            factors = np.outer(down, up).ravel()
            total[:, target] += factors * whole.reshape(points, whole.shape[1] ** 2).take(source, axis=1)
        return total.reshape(points, self.entries, self.entries)

    def from_corner(self, maps: Blocks) -> Complex:
        """The image of e_0 e_0' under the maps, restricted, (points, entries, 1)."""
        entries, places, down = (column[0] for column in self.crossings[:3])
        result = np.zeros((len(maps[0]), self.entries, 1), dtype=complex)
        result[:, entries, 0] = down * maps[0][:, places, 0]
        return result

    def weigh(self, left: Blocks, right: Blocks, inner: Complex) -> Complex:
        """The R-transform's derivative v c X g X' for each column g of a matrix (points, entries, columns)."""
        result = np.empty_like(inner)
        start, count = 0, inner.shape[-1]
        for transform, a, b in zip(self.transforms, left, right, strict=True):
            points, size = a.shape[:2]
            part = slice(start, start + size * size)
            rows = (a @ inner[:, part].reshape(points, size, size * count)).reshape(points, size, size, count)
            # X' is symmetric, as everything here is.
            turned = np.ascontiguousarray(rows.transpose(0, 2, 1, 3)).reshape(points, size, size * count)
            done = (b @ turned).reshape(points, size, size, count).transpose(0, 2, 1, 3)
            result[:, part] = transform.b * done.reshape(points, size * size, count)
            start += size * size
        return result

    def jacobian(self, state: State) -> Complex:
        """The derivative of the map, (points, unknowns, unknowns)."""
        points = len(state.resolvent)
        total = np.zeros((points, self.unknowns**2), dtype=complex)
        maps = self.between(state.blocks, state.blocks, 2)
        for whole, (target, above, below, factors) in zip(maps, self.folded, strict=True):
            flat = whole.reshape(points, whole.shape[1] ** 2)
            total[:, target] += factors * (flat.take(above, axis=1) + flat.take(below, axis=1))
        inner = total.reshape(points, self.unknowns, self.unknowns)[:, self.unknown_of_entry]
        # G moves by -G move G and H by -v c X dg X: the signs cancel.
        return self.weigh(state.factors, state.factors, inner)[:, self.first_entries]

    def tangent(self, state: State, directions: Complex) -> Complex:
        """The derivative of the map along directions (points, count, unknowns)."""
        return self._image_tangent(state, self._moved(state, self.spread_unknowns(directions), 2))

    def _moved(self, state: State, moves: Sequence[Any], power: int) -> Blocks:
        """The mean of -lambda^power G(lambda) move G(lambda), for moves (points, directions, ...)."""
        if moves[0].shape[1] == 1 and len(self.weights) <= _FEW:
            both = [block @ move @ block for block, move in zip(state.blocks, moves, strict=True)]
            return [-block[:, np.newaxis] for block in self.average(both, power)]
        result = []
        for whole, move in zip(self.between(state.blocks, state.blocks, power), moves, strict=True):
            flat = move.reshape(*move.shape[:2], whole.shape[1])
            result.append(-(flat @ whole.transpose(0, 2, 1)).reshape(len(whole), *move.shape[1:]))
        return result

    def _image_tangent(self, state: State, moved: Sequence[Any]) -> Complex:
        pairs = zip(self.transforms, state.factors, self.restrict(moved), strict=True)
        return self.pack([transform.tangent(factor, dg, dg) for transform, factor, dg in pairs])

    def shift_tangent(self, state: State, direction: Complex) -> Complex:
        """The derivative of the map when the base moves along a matrix, (points, unknowns)."""
        moves = self._disassemble(direction, len(state.resolvent))
        return np.asarray(self._image_tangent(state, self._moved(state, moves, 1))[:, 0])

    def resolvent_tangent(self, state: State, direction: Any, unknowns: Complex) -> Complex:
        """The derivative of G as the base moves along `direction` and the unknowns along theirs."""
        moved = self._moved(state, self.spread_unknowns(unknowns[:, np.newaxis]), 1)
        if np.any(direction):
            shifted = self._moved(state, self._disassemble(direction, len(unknowns)), 0)
            moved = [a + b for a, b in zip(moved, shifted, strict=True)]
        return self._assemble([block[:, 0] for block in moved])

    def noise_vectors(self, state: State) -> Complex:
        """(1 - c beta g)^-1 pi, (points, sizes): Pi_b as the resolvent of b's own batch sees it."""
        weights = np.linalg.solve(self.transforms[0].coefficient, self.modifier)
        return np.asarray(state.factors[0] @ weights)

    def noise_transform(self, state: State) -> Complex:
        """The Cauchy transform tau((z - alpha Z)^-1 M) of the noise, M = Xtilde' Xtilde / n.

        M is the mean of Pi_b W_b Pi_b over b, and Pi_b a combination of the states F(S). With g the restricted G
        it is pi' g (1 - c beta g)^-1 pi, because beta (id (x) tau)(A^-1 w_b) = -H g.
        """
        return np.asarray(
            np.einsum("i,nij,nj->n", self.modifier, state.restricted[0], self.noise_vectors(state))
        )

    @property
    def block_entries(self) -> int:
        """Of all blocks of G at all eigenvalues of Sigma."""
        return len(self.eigenvalues) * sum(len(sizes) ** 2 for sizes in self.symmetry.sizes)
