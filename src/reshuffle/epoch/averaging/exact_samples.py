"""The exact mean over the orders of shuffled samples, for two to four batches, and the coordinates that it is in.

With the weight w_i of row i in the mean gradient of an epoch (1 / (B m_b) for batches, 1 / n for samples), the
singular value decomposition of the weighted rows sqrt(w) C = O diag(s) V' makes every W_b a product of few
orthonormal rows: step W_b = L P_b L in the basis V, where P_b = O_b'O_b, sum_b P_b = I and L^2 = diag(x) is what
all visits add up to, x = B step s^2. A word in the W_b begins and ends with L, so that

    I - Abar = L K L,   K = Y O,   Y_b = L^-1 Pi_b L O_b'   (k, rows of b),

and Y, the input map, gives the kernel of Z and the way of the responses both.

A word of samples a_1 .. a_j before sample b is P_a1 X ... P_aj X o for each row o of b, where X = diag(x). E_j is
the sum over ordered tuples of j distinct samples other than b, and Abar = sum_j (-1)^j a_j E_j. Expanding the
distinctness (Moebius inversion on set partitions) leaves sums that need no loop over tuples, since all P add up to
I and repeated samples meet themselves through small Gram matrices. Degrees beyond the fourth have crossing pairs of
pairs, and no sum of polynomial cost is known for them.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import scipy.linalg

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._linalg import thin_qr
from reshuffle.epoch.mean_map import MeanMap

MOST_BATCHES = 4
MOST_BATCHES_OF_GROUPS = 3
"""Samples of one row meet in pairs as numbers, which have cubes; those of several rows meet as matrices."""
_CHUNK = 1 << 22
"""Entries of the Gram matrix of the samples that are held at a time."""
_MANY_COLUMNS = 100
_APART = 1e-14
"""The cosine of the angle between columns that are orthogonal, up to rounding."""
_PROBES = 3


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
    decay_rates : (k,)
        x = unit s^2, what a mode is multiplied by exp(-x) with, were the visits infinitely many and small.
    unit : float
        B step.
    offsets : (atoms + 1,)
        Where the rows of each atom begin.
    """

    orthonormal: FloatArray
    factor: FloatArray
    roots: FloatArray
    decay_rates: FloatArray
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
        """The number of batches or samples."""
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
        return np.asarray((self.orthonormal**2) @ self.decay_rates)


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


def kernel(whitened: Whitened, input_map: FloatArray) -> FloatArray:
    """The symmetric part of Y O (k, k), for a input map Y (k, q)."""
    product = input_map @ whitened.orthonormal
    return np.asarray((product + product.T) / 2)


def in_row_space(whitened: Whitened, inside: FloatArray) -> FloatArray:
    """M given in the basis V, as a matrix on the row space; directions that no row reaches stay as they are."""
    norms = (
        np.sqrt(whitened.decay_rates / whitened.unit) if whitened.unit else np.ones(len(whitened.decay_rates))
    )
    basis = whitened.factor / np.where(norms == 0, 1.0, norms)[:, np.newaxis]
    identity = np.eye(whitened.factor.shape[1])
    return np.asarray(identity + basis.T @ (inside - np.eye(len(norms))) @ basis)


def flops(n: int, rank: int, steps: int) -> float:
    """Operations of `mean_map`."""
    return 12.0 * n * rank**2 + (4.0 * n**2 * rank if steps == MOST_BATCHES else 0.0)


def mean_map(whitened: Whitened, shares: FloatArray) -> MeanMap:
    """The mean over all orders of the samples, cut into batches whose visits weigh `shares` (B,)."""
    steps, coefficients = len(shares), _coefficients(shares, whitened.atoms)
    with np.errstate(over="ignore", invalid="ignore"):
        inputs = coefficients[1] * whitened.orthonormal
        if steps > 1:
            inputs = inputs - coefficients[2] * _degree_one(whitened)
        if steps > 2:
            inputs = inputs + coefficients[3] * _degree_two(whitened)
        if steps == MOST_BATCHES:
            inputs = inputs - coefficients[4] * _degree_three(whitened)
        alone = len(whitened.orthonormal) == whitened.atoms
        modifier = partial(_modifier_of_sample if alone else _modifier_of_group, whitened, coefficients)
        return MeanMap(
            whitened.factor, kernel(whitened, inputs.T), inputs.T * whitened.roots, whitened.unit, 1, 1.0,
            lambda sample: in_row_space(whitened, modifier(sample)),
        ).require_finite(steps)  # fmt: skip


def _coefficients(shares: FloatArray, n: int) -> FloatArray:
    """The a_i = e_i(shares / B) n^i (n - i)! / n!, where a sample is B / n times step x x'.

    The mean over orders of a product over batches is that over one sample drawn from each batch, and only words of
    distinct samples occur; e_i are the elementary symmetric functions of the batches' shares m_b / divisor_b.
    """
    symmetric = np.zeros(len(shares) + 1)
    symmetric[0] = 1.0
    for share in shares:
        symmetric[1:] += share / len(shares) * symmetric[:-1]
    falling = np.concatenate([[1.0], np.cumprod(1 - np.arange(len(shares)) / n)])
    return np.asarray(symmetric / falling)


def _degree_one(whitened: Whitened) -> FloatArray:
    """E_1: X o - P_b X o."""
    x, rows = whitened.decay_rates, whitened.orthonormal
    result = rows * x
    for place, own in _atoms(whitened):
        result[place] -= (own * x) @ own.T @ own
    return result


def _degree_two(whitened: Whitened) -> FloatArray:
    """E_2: (X^2 - X P_b X - P_b X^2 + 2 (P_b X)^2 - Q) o, with Q = sum_a P_a X P_a X."""
    x, rows = whitened.decay_rates, whitened.orthonormal
    pairs = np.zeros((len(x), len(x)))
    result = rows * x**2
    for place, own in _atoms(whitened):
        gram = (own * x) @ own.T
        met = gram @ own
        pairs += own.T @ met
        result[place] -= met * x + ((own * x**2) @ own.T - 2 * gram @ gram) @ own
    return np.asarray(result - (rows * x) @ pairs)


def _degree_three(whitened: Whitened) -> FloatArray:
    """E_3, for atoms that are single rows: S'^3 - Q'S' - S'Q' - sum_a P_a X S' P_a X + 2 sum_a (P_a X)^3.

    Primes leave out the row's own atom. The third sum meets pairs of samples, as cubes of their Gram matrix.
    """
    x, rows = whitened.decay_rates, whitened.orthonormal
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


def _modifier_of_sample(whitened: Whitened, coefficients: FloatArray, sample: int) -> FloatArray:
    """Pi_i in the basis V (k, k), for atoms that are single rows and up to four batches.

    The same sums as above, as matrices: E_1 = S', E_2 = S'^2 - Q', E_3 as in `_degree_three`, where every
    word P X P X ... P is left without its last X, and L stands at both ends.
    """
    x, own = whitened.decay_rates, whitened.orthonormal[sample]
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


def _modifier_of_group(whitened: Whitened, coefficients: FloatArray, atom: int) -> FloatArray:
    """Pi_i in the basis V (k, k), for atoms of any number of rows and up to three batches: E_1 and E_2 as above."""
    x, own = whitened.decay_rates, whitened.of_atom(atom)
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
        gram = (rows[part] * whitened.decay_rates) @ rows.T
        # Two products are fifty times as quick as a power of three, which is taken by pow.
        result[part] = (gram * gram * gram) @ rows
    return result
