"""The fixed-point system of one epoch of random reshuffling, in the proportional limit.

One epoch is linearized on the proper subsets of the batches, 2^B - 1 states. All batches are alike, so every
matrix that occurs commutes with permutations of them and splits into blocks, one for each type
k = 0, 1, ..., B/2, whose rows are the sizes i = k, ..., B - k of the subsets: about B^2 / 4 rows in all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from reshuffle._arrays import FloatArray, IntArray
from reshuffle.asymptotics.spectra import Population
from reshuffle.free.checks import Complex
from reshuffle.free.solver import PencilSystem, inverse


@dataclass(frozen=True, eq=False)
class Link:
    """The embedding of the vectors of one inner type in one outer type."""

    outer: int
    embedding: FloatArray  # the component of each vector there, (outer sizes, inner sizes)
    weight: float  # makes summing over b the adjoint of restricting to the subsets without b


@dataclass(frozen=True, eq=False)
class SubsetSymmetry:
    """The matrices of the linearization in the symmetry-adapted basis.

    With states S (proper subsets), the Hermitian matrix

        A = z E - E - J + sum_b beta_b (x) (1 - w_b),   E = e_0 e_0',

    where J pairs complementary subsets and beta_b pairs the subsets that are complementary once b is left out,
    has A^-1 = [F(S) (z - alpha Z)^-1 F(T)] up to terms without z; F(S) is the mean product over the
    orders of S, as in the exact lattice. State S carries the factor binom(B, |S|)^(1/2), which keeps entries of
    size one.

    Types: those of all B batches (`sizes`) and of the B - 1 batches other than a given one
    (`inner_sizes`). A vector on the subsets without b, of inner type k and size i, has the squared
    components (B - k - i) / (B - 2k) and (i - k) / (B - 2k) in the outer types k and k + 1.
    """

    batches: int

    @cached_property
    def sizes(self) -> list[FloatArray]:
        """For each type, the sizes of subsets in which it occurs; the full set is no state."""
        top = [self.batches - max(k, 1) for k in range(self.batches // 2 + 1)]
        return [np.arange(k, last + 1.0) for k, last in enumerate(top) if last >= k]

    @cached_property
    def inner_sizes(self) -> list[FloatArray]:
        """For each type of the B - 1 other batches, the sizes of its subsets, the full one included."""
        return [np.arange(k, self.batches - k + 0.0) for k in range((self.batches + 1) // 2)]

    @cached_property
    def pairing(self) -> list[FloatArray]:
        """J in each type: sizes i and B - i, with the sign (-1)^k of a complement; zero at the empty set."""
        return [
            (-1.0) ** k * (sizes[:, np.newaxis] + sizes == self.batches) for k, sizes in enumerate(self.sizes)
        ]

    @cached_property
    def coefficients(self) -> list[FloatArray]:
        """The blocks of beta_b in each inner type: (-1)^k ((i + 1)(j + 1))^(-1/2) where i + j = B - 1."""
        return [
            (-1.0) ** k
            * (sizes[:, np.newaxis] + sizes == self.batches - 1)
            / np.sqrt(np.outer(sizes + 1, sizes + 1))
            for k, sizes in enumerate(self.inner_sizes)
        ]

    @cached_property
    def links(self) -> list[list[Link]]:
        """The links of each inner type to the outer types."""
        return [self._links_of(k, sizes) for k, sizes in enumerate(self.inner_sizes)]

    def _links_of(self, k: int, sizes: FloatArray) -> list[Link]:
        B = self.batches
        # B dim(inner) / dim(outer), with dim(k) = binom(B, k) - binom(B, k - 1).
        stays = self._link(
            k, sizes, (B - k - sizes) / (B - 2 * k), (B - 2 * k) * (B - k + 1) / (B - 2 * k + 1)
        )
        if k + 1 >= len(self.sizes):
            return [stays]
        rises = self._link(k + 1, sizes, (sizes - k) / (B - 2 * k), (k + 1) * (B - 2 * k) / (B - 2 * k - 1))
        return [stays, rises]

    def _link(self, outer: int, sizes: FloatArray, share: FloatArray, weight: float) -> Link:
        same = self.sizes[outer][:, np.newaxis] == sizes
        return Link(outer, same * np.sqrt(share), weight)

    @cached_property
    def modifier(self) -> FloatArray:
        """Pi_b = sum_S pi_S F(S) over the subsets without b, which is of inner type 0: (B (B - i))^(-1/2)."""
        return 1 / np.sqrt(self.batches * (self.batches - self.inner_sizes[0]))


_SMALL_MATRIX = 20_000
"""Numbers, those of eight batches, up to which a full matrix is faster than a sparse one."""

Blocks = list[Any]
"""One matrix for each type, (..., sizes, sizes)."""


def _flat(blocks: Sequence[Any]) -> Any:
    """The entries of all blocks, (..., entries)."""
    return np.concatenate([block.reshape(*block.shape[:-2], -1) for block in blocks], axis=-1)


def _assembled(blocks: Sequence[Complex]) -> Complex:
    """The block-diagonal matrices (points, k, k)."""
    places = _consecutive([block.shape[-1] for block in blocks])
    total = np.zeros((len(blocks[0]), places[-1].stop, places[-1].stop), dtype=complex)
    for where, block in zip(places, blocks, strict=True):
        total[:, where, where] = block
    return total


def weighted(weights: FloatArray, blocks: Any) -> Any:
    """The sums of matrices (..., k, sizes, sizes) with weights (k,)."""
    if len(weights) == 1:
        return weights[0] * blocks[..., 0, :, :]
    return np.einsum("k,...kij->...ij", weights, blocks)


def _consecutive(lengths: Sequence[int]) -> list[slice]:
    return [
        slice(int(end) - length, int(end)) for end, length in zip(np.cumsum(lengths), lengths, strict=True)
    ]


def _linear_map(rows: IntArray, columns: IntArray, values: FloatArray, shape: tuple[int, int]) -> Any:
    """The transposed matrix of a map between entries: of B^6 numbers in all, at most two in a row are not zero."""
    matrix = scipy.sparse.csr_array((values, (columns, rows)), shape=shape[::-1])
    return matrix.toarray() + 0j if shape[0] * shape[1] <= _SMALL_MATRIX else matrix


def _apply(matrix: Any, vectors: Any) -> Any:
    """The images (..., rows) of vectors (..., columns)."""
    if isinstance(matrix, np.ndarray):
        return vectors @ (matrix if np.iscomplexobj(vectors) else matrix.real)
    flat = vectors.reshape(-1, vectors.shape[-1]) @ matrix
    return flat.reshape(*vectors.shape[:-1], matrix.shape[1])


class SymmetricBlocks:
    """Packing, spreading and restriction of symmetric matrices on the subsets without a batch.

    `outer` has the rows of each type of all subsets, `size` in number, and `triangles` the rows and columns on and
    above the diagonal of each inner type. They hold the `unknowns`; `indices` says which of them fills each entry.
    """

    def __init__(self, batches: int):
        self.symmetry = SubsetSymmetry(batches)
        self.outer = _consecutive([len(sizes) for sizes in self.symmetry.sizes])
        self.size = self.outer[-1].stop
        self.triangles = [np.triu_indices(len(sizes)) for sizes in self.symmetry.inner_sizes]
        self.indices: list[IntArray] = []
        self.unknowns = 0
        for sizes, (rows, columns) in zip(self.symmetry.inner_sizes, self.triangles, strict=True):
            index = np.zeros((len(sizes), len(sizes)), dtype=np.intp)
            index[rows, columns] = index[columns, rows] = self.unknowns + np.arange(len(rows))
            self.indices.append(index)
            self.unknowns += len(rows)
        self._inner_entries = _consecutive([index.size for index in self.indices])
        self._outer_entries = _consecutive([len(sizes) ** 2 for sizes in self.symmetry.sizes])
        entries, places, down, up = self.crossings
        factors = np.concatenate(down)
        # A vector of inner type k and size k has no part in the outer type k + 1.
        meets = factors != 0
        inner, total = np.concatenate(entries)[meets], self._outer_entries[-1].stop
        moved = [place + part.start for place, part in zip(places, self._outer_entries, strict=True)]
        outer, spreading = np.concatenate(moved)[meets], np.concatenate(up)[meets]
        columns = self.unknown_of_entry[inner]
        self._restricting = _linear_map(inner, outer, factors[meets], (self.entries, total))
        self._spreading = _linear_map(outer, inner, spreading, (total, self.entries))
        self._spreading_unknowns = _linear_map(outer, columns, spreading, (total, self.unknowns))

    def spread(self, inner: Sequence[Any]) -> Blocks:
        """Sum over b of a matrix on the subsets without b, in the outer types."""
        return self._outer_blocks(_apply(self._spreading, _flat(inner)))

    def spread_unknowns(self, unknowns: Complex) -> Blocks:
        """The sum over b of H_b, from vectors (..., unknowns)."""
        return self._outer_blocks(_apply(self._spreading_unknowns, unknowns))

    def restrict(self, outer: Sequence[Any]) -> Blocks:
        """A matrix on all subsets, seen from those without a given batch, in the inner types."""
        flat = _apply(self._restricting, _flat(outer))
        return [
            flat[..., entries].reshape(*flat.shape[:-1], *index.shape)
            for entries, index in zip(self._inner_entries, self.indices, strict=True)
        ]

    def _outer_blocks(self, flat: Any) -> Blocks:
        return [
            flat[..., entries].reshape(*flat.shape[:-1], len(sizes), len(sizes))
            for entries, sizes in zip(self._outer_entries, self.symmetry.sizes, strict=True)
        ]

    def pack(self, blocks: Sequence[Complex]) -> Complex:
        """The vectors (..., unknowns) of symmetric blocks, one for each inner type."""
        pieces = [
            block[..., rows, columns] for block, (rows, columns) in zip(blocks, self.triangles, strict=True)
        ]
        return np.concatenate(pieces, axis=-1)

    @cached_property
    def crossings(self) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
        """For each outer type the inner entries that meet it, where they lie in it, and their factors both ways."""
        starts = np.cumsum([0, *(index.size for index in self.indices)])
        columns: tuple[list[Any], list[Any], list[Any], list[Any]] = ([], [], [], [])
        for outer, sizes in enumerate(self.symmetry.sizes):
            pieces: list[tuple[Any, ...]] = []
            for start, index, links in zip(starts, self.indices, self.symmetry.links, strict=False):
                for link in (link for link in links if link.outer == outer):
                    row, share = np.argmax(link.embedding, axis=0), link.embedding.max(axis=0)
                    factor = np.outer(share, share).ravel()
                    place = (row[:, np.newaxis] * len(sizes) + row).ravel()
                    pieces.append((start + np.arange(index.size), place, factor, link.weight * factor))
            for column, parts in zip(columns, zip(*pieces, strict=True), strict=True):
                column.append(np.concatenate(parts))
        return columns

    @cached_property
    def unknown_of_entry(self) -> IntArray:
        """The unknown of each entry of the inner blocks, (entries,)."""
        return np.concatenate([index.ravel() for index in self.indices])

    @cached_property
    def first_entries(self) -> IntArray:
        """The first entry that each unknown fills, (unknowns,)."""
        return np.unique(self.unknown_of_entry, return_index=True)[1]

    @cached_property
    def folded(self) -> list[tuple[IntArray, IntArray, IntArray, FloatArray]]:
        """For each outer type: pairs of unknowns, where the maps hold them and the mirror image, their factors."""
        every, first = self.unknown_of_entry, self.first_entries
        mirror = len(every) - 1 - np.unique(every[::-1], return_index=True)[1]
        result = []
        for entries, places, down, up, sizes in zip(*self.crossings, self.symmetry.sizes, strict=True):
            # Of symmetric moves and images the entries on and above the diagonals tell all.
            upper = np.isin(entries, first)
            unknown, row, width = every[entries[upper]], places[upper], len(sizes) ** 2
            where = dict(zip(entries.tolist(), places.tolist(), strict=True))
            below = np.array([where[int(mirror[u])] for u in unknown])
            twice = np.where(first[unknown] != mirror[unknown], 1.0, 0.5)
            result.append(
                (
                    (unknown[:, np.newaxis] * self.unknowns + unknown).ravel(),
                    (row[:, np.newaxis] * width + row).ravel(),
                    (row[:, np.newaxis] * width + below).ravel(),
                    np.outer(down[upper], up[upper] * twice).ravel(),
                )
            )
        return result

    @property
    def entries(self) -> int:
        """The number of entries of all inner blocks, symmetry not used."""
        return sum(index.size for index in self.indices)


_FEW = 4
"""Eigenvalues of Sigma up to which they are taken one by one, for a single direction."""
_SMALL = 0.95
"""Root mean square of 1 - w_b up to which products of these count as small.

For B = 3, 4, 8 and aspects .002, .05, .3, both bases give the same ends of the spectrum to 1e-10 above .6. Below,
and up to .9 for 8 batches at aspect .1, that of u loses all digits."""
_MOST_DIRECT = 150
"""Unknowns up to which the Jacobian is made and factored; beyond, its products with few vectors are cheaper.

Both ends of 12, 14 and 16 batches (203, 308 and 444 unknowns) take 0.32, 0.34 and 0.37 s with products and 0.36,
0.8 and 1.7 s with factors. At a critical alpha the Jacobian has many large eigenvalues, and is always factored:
Krylov's method needs hundreds of products there."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """One evaluation of the map at several points."""

    mean: Blocks  # the mean of G over the spectrum of Sigma, for each type (points, sizes, sizes)
    image: Complex  # the next unknowns, (points, unknowns)
    blocks: Blocks  # G at each eigenvalue of Sigma, for each type (points, eigenvalues, sizes, sizes)
    restricted: Blocks  # the mean of lambda G on the subsets without a given batch, (points, sizes, sizes)
    factors: Blocks  # beta (1 - c t g beta)^-1 at each squared row scale t, (points, scales, sizes, sizes)

    @cached_property
    def resolvent(self) -> Complex:
        """The mean of G as one matrix, (points, k, k), as the solvers of `free` expect it."""
        return _assembled(self.mean)

    @property
    def corner(self) -> Complex:
        """The Cauchy transform of the law, tau(G)_00, (points,)."""
        return np.asarray(self.mean[0][:, 0, 0])

    def with_conjugates(self) -> "Evaluation":
        """The state at these points followed by the conjugate state at their conjugates."""
        return self._mapped(lambda array: np.concatenate([array, array.conj()]))

    @property
    def real(self) -> "Evaluation":
        """The state at real points outside of the spectrum, in real numbers: derivatives then cost a third."""
        return self._mapped(lambda array: np.ascontiguousarray(array.real))

    def _mapped(self, change: Callable[[Complex], Any]) -> "Evaluation":
        lists = (self.mean, self.blocks, self.restricted, self.factors)
        mean, *others = ([change(block) for block in blocks] for blocks in lists)
        return Evaluation(mean, change(self.image), *others)


class BatchSystem(SymmetricBlocks, PencilSystem):
    """G(lambda) = (A_0 + lambda sum_b H_b)^-1, one matrix over subsets for each eigenvalue lambda of Sigma.

    A_0 is the pencil of `SubsetSymmetry` at w = 0, H_b = -v E[t beta_b (1 - c t g beta_b)^-1] the R-transform of
    one batch at g, the mean of lambda G(lambda) on the subsets without b, with v = alpha/B, c = alpha aspect and t
    the squared scale of a row: that of a Marchenko-Pastur variable of variance v and ratio B aspect if all t are 1,
    and of a compound free Poisson variable otherwise. Sigma^(1/2) between the factors is averaged over by its
    conditional expectation. All batches are alike, so one H (in symmetric blocks) is unknown: 13 numbers for B = 4,
    where the general engine of `reshuffle.free` has 144.

    The equations are written in a basis in which 1 - (1 - w_1) ... (1 - w_B) does not cancel: without data every
    F(S) is I, and the vector u of these takes the place of the empty set, divided by the root of `unit`, the size
    of the spectrum. Its row of the pencil then holds z / unit and what is of first order in the w_b, with all
    digits however small the step is, or z near a hard edge. Only where the products themselves are small, and the
    spectrum is narrow and near one, they stay as they are, and in a `plain` system.
    """

    def __init__(
        self,
        aspect: float,
        alpha: float,
        batches: int,
        population: Population,
        plain: bool = False,
    ):
        super().__init__(batches)
        self.eigenvalues, self.weights = population.eigenvalues, population.weights
        self.squares, self.shares = population.row_squares, population.row_shares
        self.aspect = aspect
        self.direct = self.unknowns <= _MOST_DIRECT
        # What z multiplies.
        self.direction = np.zeros((self.size, self.size))
        self.direction[0, 0] = 1.0
        self.constant = np.zeros((self.size, self.size))
        self.constant[0, 0] = 1.0
        ones = [one.real for one in self.spread(self.symmetry.coefficients)]
        for where, pairing, one in zip(self.outer, self.symmetry.pairing, ones, strict=True):
            self.constant[where, where] += pairing - one
        self.set_alpha(alpha)
        # Of all rows as large as the largest: a Marchenko-Pastur variable ends there.
        largest = alpha * float(self.eigenvalues.max() * self.squares.max())
        self.unit = 1.0 if plain else min(1.0, largest * (1 + aspect**0.5) ** 2)
        means, squares = (alpha * self.eigenvalues * (self.shares @ self.squares**k) for k in (1, 2))
        products = (1 - means / batches) ** 2 + squares * alpha * self.eigenvalues * aspect / batches
        small = bool(products.max() < _SMALL**2 and batches * aspect < 1 and self.unit == 1)
        self._adapt(plain or small)
        size = max(np.linalg.norm(coefficient, 2) for coefficient in self.coefficients)
        # The norm of sum_b w_b at most: the ratio of each batch is B aspect.
        reach = size * largest * (1 + (batches * aspect) ** 0.5) ** 2
        self.norm = float(reach + max(np.linalg.norm(self._offset[one, one], 2) for one in self.outer))
        # With few parameters every W_b is a multiple of Sigma, and at this alpha the spectrum leaves (0, 2).
        self.last_alpha = 2 * batches * alpha / float(means.max())

    def set_alpha(self, alpha: float) -> None:
        """Set the step; afterwards only that of a plain system may change."""
        self.alpha = alpha
        self.feedback = alpha * self.aspect * self.squares
        self.variances = alpha / self.symmetry.batches * self.shares * self.squares
        self.gains = self.variances * self.feedback

    def _adapt(self, small: bool) -> None:
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
        self.coefficients = [block.astype(complex) for block in (inner.T @ first @ inner, *others)]
        self.modifier = inner.T @ self.symmetry.modifier

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

    def base_blocks(self, z: Complex) -> Blocks:
        """The base on the axis, height zero, in the types (points, sizes, sizes): all that is not zero of it."""
        blocks = [np.tile(-self._offset[where, where] + 0j, (len(z), 1, 1)) for where in self.outer]
        blocks[0][:, 0, 0] += z
        return blocks

    def evaluate(self, base: Complex, unknowns: Complex) -> Evaluation:
        """The map at unknowns (points, unknowns) for a base (points, k, k); real numbers stay real."""
        state = self.evaluate_blocks([base[:, where, where] for where in self.outer], unknowns)
        return state if np.iscomplexobj(unknowns) else state.real

    def evaluate_blocks(self, base: Blocks, unknowns: Complex) -> Evaluation:
        """The map at unknowns (points, unknowns) for a base in the types, (points, sizes, sizes)."""
        spread = self.spread_unknowns(unknowns)
        scale = self.eigenvalues[:, np.newaxis, np.newaxis]
        blocks = [
            inverse(start[:, np.newaxis] + scale * h[:, np.newaxis])
            for start, h in zip(base, spread, strict=True)
        ]
        restricted = self.restrict(self.average(blocks, 1))
        feedback = self.feedback[:, np.newaxis, np.newaxis]
        factors = [
            beta @ inverse(np.eye(len(beta)) - feedback * (g @ beta)[:, np.newaxis])
            for beta, g in zip(self.coefficients, restricted, strict=True)
        ]
        image = self.pack([-weighted(self.variances, factor) for factor in factors])
        return Evaluation(self.average(blocks, 0), image, blocks, restricted, factors)

    def average(self, blocks: Sequence[Complex], power: int) -> Blocks:
        """The mean of lambda^power G(lambda) over the spectrum of Sigma."""
        return [weighted(self.weights * self.eigenvalues**power, block) for block in blocks]

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
        """The R-transform's derivative v c E[t^2 X g X'] for columns g of a matrix (points, entries, columns)."""
        result = np.zeros_like(inner)
        start, count = 0, inner.shape[-1]
        for lefts, rights in zip(left, right, strict=True):
            points, scales, size = lefts.shape[:3]
            part = slice(start, start + size * size)
            columns = inner[:, part].reshape(points, size, size * count)
            for k in range(scales):
                rows = (lefts[:, k] @ columns).reshape(points, size, size, count)
                # X' is symmetric, as everything here is.
                turned = np.ascontiguousarray(rows.transpose(0, 2, 1, 3)).reshape(points, size, size * count)
                done = (rights[:, k] @ turned).reshape(points, size, size, count).transpose(0, 2, 1, 3)
                result[:, part] += self.gains[k] * done.reshape(points, size * size, count)
            start += size * size
        return result

    def jacobian(self, state: Evaluation) -> Complex:
        points = len(state.image)
        maps = self.between(state.blocks, state.blocks, 2)
        total = np.zeros((points, self.unknowns**2), dtype=maps[0].dtype)
        for whole, (target, above, below, factors) in zip(maps, self.folded, strict=True):
            flat = whole.reshape(points, whole.shape[1] ** 2)
            total[:, target] += factors * (flat.take(above, axis=1) + flat.take(below, axis=1))
        inner = total.reshape(points, self.unknowns, self.unknowns)[:, self.unknown_of_entry]
        # G moves by -G move G and H by -v c E[t^2 X dg X]: the signs cancel.
        return self.weigh(state.factors, state.factors, inner)[:, self.first_entries]

    def tangent(self, state: Evaluation, directions: Complex) -> Complex:
        return self._image_tangent(state, self._moved(state, self.spread_unknowns(directions), 2))

    def _moved(self, state: Evaluation, moves: Sequence[Any], power: int) -> Blocks:
        """The mean of -lambda^power G(lambda) move G(lambda), for moves (points, directions, ...)."""
        if moves[0].shape[1] == 1 and len(self.weights) <= _FEW:
            both = [block @ move @ block for block, move in zip(state.blocks, moves, strict=True)]
            return [-block[:, np.newaxis] for block in self.average(both, power)]
        result = []
        for whole, move in zip(self.between(state.blocks, state.blocks, power), moves, strict=True):
            flat = move.reshape(*move.shape[:2], whole.shape[1])
            result.append(-(flat @ whole.transpose(0, 2, 1)).reshape(len(whole), *move.shape[1:]))
        return result

    def _image_tangent(self, state: Evaluation, moved: Sequence[Any]) -> Complex:
        pairs = zip(state.factors, self.restrict(moved), strict=True)
        return self.pack(
            [
                -weighted(self.gains, x[:, np.newaxis] @ dg[:, :, np.newaxis] @ x[:, np.newaxis])
                for x, dg in pairs
            ]
        )

    def shift_tangent(self, state: Evaluation, direction: Complex) -> Complex:
        moves = self._disassemble(direction, len(state.image))
        return np.asarray(self._image_tangent(state, self._moved(state, moves, 1))[:, 0])

    def resolvent_tangent(self, state: Evaluation, direction: Any, unknowns: Complex) -> Complex:
        moved = self._moved(state, self.spread_unknowns(unknowns[:, np.newaxis]), 1)
        if np.any(direction):
            shifted = self._moved(state, self._disassemble(direction, len(unknowns)), 0)
            moved = [a + b for a, b in zip(moved, shifted, strict=True)]
        return _assembled([block[:, 0] for block in moved])

    def noise_vectors(self, state: Evaluation) -> Complex:
        """(1 - c t beta g)^-1 pi, (points, scales, sizes): Pi_b as the resolvent of b's own batch sees it."""
        weights = np.linalg.solve(self.coefficients[0], self.modifier)
        return np.asarray(state.factors[0] @ weights)

    def noise_transform(self, state: Evaluation) -> Complex:
        """The Cauchy transform tau((z - alpha Z)^-1 M) of the noise, M = Xtilde' Xtilde / n.

        M is the mean of Pi_b W_b Pi_b over b, and Pi_b a combination of the states F(S). With g the restricted G
        it is pi' g E[t (1 - c t beta g)^-1] pi, because beta (id (x) tau)(A^-1 w_b) = -H g.
        """
        vectors = self.shares * self.squares @ self.noise_vectors(state)
        return np.asarray(np.einsum("i,nij,nj->n", self.modifier, state.restricted[0], vectors))

    @property
    def block_entries(self) -> int:
        """The number of entries of all blocks of G at all eigenvalues of Sigma, and of the factors but one."""
        number = len(self.eigenvalues) + len(self.squares) - 1
        return number * sum(len(sizes) ** 2 for sizes in self.symmetry.sizes)


class AlphaSystem(BatchSystem):
    """System along alpha, which takes the place of z, at a real z, the `edge`; unit and basis stay as they are."""

    def __init__(self, aspect: float, alpha: float, batches: int, population: Population, edge: float):
        super().__init__(aspect, alpha, batches, population, plain=True)
        self.edge, self.direct = edge, True

    def base(self, z: Complex, height: Complex) -> Complex:
        """The base at the edge, (1, k, k), when alpha passes to the one value in z."""
        self.set_alpha(float(z[0].real))
        return super().base(np.full(1, self.edge + 0j), height)

    def shift_tangent(self, state: Evaluation, direction: Complex) -> Complex:
        """The derivative of the map in alpha, (points, unknowns): H = -v E[t X], and X moves by t aspect X g X."""
        pairs = zip(state.factors, state.restricted, strict=True)
        moves = [
            weighted(self.variances, x) + weighted(self.gains, x @ g[:, np.newaxis] @ x) for x, g in pairs
        ]
        return -self.pack(moves) / self.alpha
