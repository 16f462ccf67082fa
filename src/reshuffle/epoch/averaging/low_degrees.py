"""The lowest degrees of an epoch, exactly: sums over words of distinct batches, or distinct samples.

In the coordinates of `Whitened` a word of atoms a_1 .. a_j before atom b is P_a1 X ... P_aj X o for each row o
of b, where X = diag(x) and all P add up to I. E_j is the sum over ordered tuples of j distinct atoms other than
b. Expanding the distinctness (Moebius inversion on set partitions) leaves sums that need no loop over tuples,
since a sum over all atoms is I and repeated atoms meet themselves through small Gram matrices. Functions return
rows (q, k).

Those coordinates make the mean step of an epoch diagonal. With the weight w_i of row i in the mean gradient of
an epoch (1 / (B m_b) for batches, 1 / n for samples), the singular value decomposition of the weighted rows
sqrt(w) C = O diag(s) V' makes every W_b a product of few orthonormal rows: step W_b = L P_b L in the basis V,
where P_b = O_b'O_b, sum_b P_b = I and L^2 = diag(x) is what all visits add up to, x = B step s^2. A word in the
W_b begins and ends with L, so that

    I - Abar = L K L,   K = Y O,   Y_b = L^-1 Pi_b L O_b'   (k, rows of b),

and Y, the pull, gives the kernel of Z and the way of the responses both.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._linalg import thin_qr


@dataclass(frozen=True, eq=False)
class Whitened:
    """Rows in the coordinates of their mean step, at one step; the atoms are what is visited as a whole.

    Attributes
    ----------
    orthonormal : (q, k)
        O.
    factor : (k, r)
        diag(s) V', so that Z = factor' K factor.
    roots : (q,)
        sqrt(w).
    paces : (k,)
        x = unit s^2, what a mode is multiplied by exp(-x) with, were the visits infinitely many and small.
    unit : float
        B step.
    offsets : (atoms + 1,)
        Where the rows of each atom begin.
    """

    orthonormal: FloatArray
    factor: FloatArray
    roots: FloatArray
    paces: FloatArray
    unit: float
    offsets: IntArray

    @classmethod
    def of(cls, rows: FloatArray, weights: FloatArray, unit: float, offsets: IntArray) -> "Whitened":
        """Decompose rows (q, r) with weights (q,)."""
        roots = np.sqrt(weights)
        weighted = roots[:, np.newaxis] * rows
        apart = _orthogonal(weighted)
        if apart is not None:
            # As features of a kernel are, from its eigenvectors.
            order = np.argsort(apart)[::-1]
            factor = np.zeros((len(apart), len(apart)))
            factor[np.arange(len(apart)), order] = singular = apart[order]
            orthonormal = weighted if (np.diff(order) == 1).all() else weighted[:, order]
            orthonormal /= singular
            return cls(orthonormal, factor, roots, unit * singular**2, unit, offsets)
        basis, triangle = thin_qr(weighted)
        left, singular, right = scipy.linalg.svd(triangle, full_matrices=False, check_finite=False)
        return cls(basis @ left, singular[:, np.newaxis] * right, roots, unit * singular**2, unit, offsets)

    @property
    def atoms(self) -> int:
        """How many batches or samples there are."""
        return len(self.offsets) - 1

    @property
    def sizes(self) -> IntArray:
        """The rows of each atom."""
        return np.diff(self.offsets)

    def of_atom(self, atom: int) -> FloatArray:
        """O_b (m, k)."""
        return self.orthonormal[self.offsets[atom] : self.offsets[atom + 1]]

    @cached_property
    def row_norms(self) -> FloatArray:
        """o'diag(x) o (q,): what a visit does along its own row."""
        return np.asarray((self.orthonormal**2) @ self.paces)

    @cached_property
    def norms(self) -> FloatArray:
        """|step W_b| (atoms,)."""
        if (self.sizes == 1).all():
            return self.row_norms
        roots = np.sqrt(self.paces)
        return np.array(
            [
                scipy.linalg.svdvals(self.of_atom(atom) * roots).max(initial=0.0) ** 2
                for atom in range(self.atoms)
            ]
        )

    @property
    def fastest(self) -> float:
        """The largest pace, |step sum_b W_b|."""
        return float(self.paces.max(initial=0.0))


_MANY_COLUMNS = 100
_APART = 1e-14
"""The cosine of the angle between columns that are orthogonal, up to rounding."""
_PROBES = 3


def _orthogonal(matrix: FloatArray) -> FloatArray | None:
    """The norms of the columns of a large matrix (q, k), if these are orthogonal to each other; else None."""
    if matrix.shape[1] < _MANY_COLUMNS or matrix.shape[1] > len(matrix):
        return None
    norms = np.linalg.norm(matrix, axis=0)
    if not norms.min() > 0:
        return None
    # If they are, M'M is diagonal, and what it makes of any vector tells: all cosines, added up with random signs.
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(len(norms), _PROBES))
    added = (matrix.T @ (matrix @ (signs / norms[:, np.newaxis]))) / norms[:, np.newaxis] - signs
    return norms if np.abs(added).max() < _APART * math.sqrt(len(norms)) else None


_CHUNK = 1 << 22
"""Entries of the Gram matrix of the samples that are held at a time."""


def degree_one(whitened: Whitened) -> FloatArray:
    """E_1: X o - P_b X o."""
    x, rows = whitened.paces, whitened.orthonormal
    result = rows * x
    for place, own in _atoms(whitened):
        result[place] -= (own * x) @ own.T @ own
    return result


def degree_two(whitened: Whitened) -> FloatArray:
    """E_2: (X^2 - X P_b X - P_b X^2 + 2 (P_b X)^2 - Q) o, with Q = sum_a P_a X P_a X."""
    x, rows = whitened.paces, whitened.orthonormal
    pairs = np.zeros((len(x), len(x)))
    result = rows * x**2
    for place, own in _atoms(whitened):
        gram = (own * x) @ own.T
        met = gram @ own
        pairs += own.T @ met
        result[place] -= met * x + ((own * x**2) @ own.T - 2 * gram @ gram) @ own
    return np.asarray(result - (rows * x) @ pairs)


def degree_three_of_samples(whitened: Whitened) -> FloatArray:
    """E_3, for atoms that are single rows: S'^3 - Q'S' - S'Q' - sum_a P_a X S' P_a X + 2 sum_a (P_a X)^3.

    Primes leave out the row's own atom. The third sum meets pairs of samples, as cubes of their Gram matrix.
    """
    x, rows = whitened.paces, whitened.orthonormal
    own, own_square = whitened.row_norms, np.asarray(rows**2 @ x**2)
    pairs, triples, squares = (
        rows.T @ (weight[:, np.newaxis] * rows) for weight in (own, own**2, own_square)
    )

    def along(vectors: FloatArray) -> FloatArray:
        return np.asarray(np.einsum("ij,ij->i", rows * x, vectors)[:, np.newaxis])

    def all_others(vectors: FloatArray) -> FloatArray:
        return vectors * x - rows * along(vectors)

    def pairs_of_others(vectors: FloatArray) -> FloatArray:
        return np.asarray((vectors * x) @ pairs - own[:, np.newaxis] * rows * along(vectors))

    first = all_others(rows)
    around = (rows * x) @ squares - _cubes(whitened) - (own_square * own - own**3)[:, np.newaxis] * rows
    thrice = (rows * x) @ triples - (own**3)[:, np.newaxis] * rows
    return np.asarray(
        all_others(all_others(first))
        - pairs_of_others(first)
        - all_others(pairs_of_others(rows))
        - around
        + 2 * thrice
    )


def up_to_two(whitened: Whitened, coefficients: FloatArray) -> FloatArray:
    """The pull up to second degree, (q, k): the first three degrees of the map."""
    return np.asarray(
        coefficients[1] * whitened.orthonormal
        - (coefficients[2] * degree_one(whitened) if len(coefficients) > 2 else 0.0)
        + (coefficients[3] * degree_two(whitened) if len(coefficients) > 3 else 0.0)
    )


def modifier_of_sample(whitened: Whitened, coefficients: FloatArray, sample: int) -> FloatArray:
    """Pi_i in the basis V (k, k), for atoms that are single rows and up to four batches.

    The same sums as above, as matrices: E_1 = S', E_2 = S'^2 - Q', E_3 as in `degree_three_of_samples`, where every
    word P X P X ... P is left without its last X, and L stands at both ends.
    """
    x, own = whitened.paces, whitened.orthonormal[sample]
    others = np.delete(whitened.orthonormal, sample, axis=0)
    met = np.einsum("ij,j,ij->i", others, x, others)[:, np.newaxis]
    single = np.eye(len(x)) - np.outer(own, own)
    pairs = others.T @ (met * others)
    words = [single]
    if len(coefficients) > 3:
        words.append((single * x) @ single - pairs)
    if len(coefficients) > 4:
        around = np.einsum("ij,ij->i", (others * x) @ single, others * x)[:, np.newaxis]
        words.append(
            ((single * x) @ single * x) @ single
            - (pairs * x) @ single
            - (single * x) @ pairs
            - others.T @ (around * others)
            + 2 * others.T @ (met**2 * others)
        )
    inside = sum(
        ((-1) ** degree * coefficients[degree + 1]) * word
        for degree, word in enumerate(words, start=1)
        if degree + 1 < len(coefficients)
    )
    root = np.sqrt(x)
    return np.asarray(coefficients[1] * np.eye(len(x)) + root[:, np.newaxis] * inside * root)


def modifier_of_group(whitened: Whitened, coefficients: FloatArray, atom: int) -> FloatArray:
    """Pi_i in the basis V (k, k), for atoms of any number of rows and up to three batches: E_1 and E_2 as above."""
    x, own = whitened.paces, whitened.of_atom(atom)
    single = np.eye(len(x)) - own.T @ own
    inside = -coefficients[2] * single if len(coefficients) > 2 else np.zeros_like(single)
    if len(coefficients) > 3:
        pairs = np.zeros_like(single)
        for place, rows in _atoms(whitened):
            if place.start != whitened.offsets[atom]:
                pairs += rows.T @ ((rows * x) @ rows.T) @ rows
        inside += coefficients[3] * ((single * x) @ single - pairs)
    root = np.sqrt(x)
    return np.asarray(coefficients[1] * np.eye(len(x)) + root[:, np.newaxis] * inside * root)


def _atoms(whitened: Whitened) -> Iterator[tuple[slice, FloatArray]]:
    """The rows of each atom, and where they are."""
    for start, stop in zip(whitened.offsets[:-1], whitened.offsets[1:], strict=True):
        place = slice(int(start), int(stop))
        yield place, whitened.orthonormal[place]


def _cubes(whitened: Whitened) -> FloatArray:
    """G^3 O with the entries of G = O X O' cubed one by one, a few of its rows at a time."""
    rows = whitened.orthonormal
    height = max(1, _CHUNK // max(1, len(rows)))
    result = np.empty_like(rows)
    for start in range(0, len(rows), height):
        part = slice(start, start + height)
        gram = (rows[part] * whitened.paces) @ rows.T
        # Two products are fifty times as quick as a power of three, which is taken by pow.
        result[part] = (gram * gram * gram) @ rows
    return result
