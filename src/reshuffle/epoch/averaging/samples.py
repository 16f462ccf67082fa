"""Exact means over drawn or shuffled samples: independent steps, and shuffled samples in two to four batches.

With the weight w_i of row i in the mean gradient of an epoch (1 / (B m_b) for batches, 1 / n for samples), the
singular value decomposition of the weighted rows sqrt(w) C = O diag(s) V' makes every W_b a product of few
orthonormal rows: step W_b = L P_b L in the basis V, where P_b = O_b'O_b, sum_b P_b = I and L^2 = diag(x) is what
all visits add up to, x = B step s^2 (`Whitened`). A word in the W_b begins and ends with L, so that

    I - Abar = L K L,   K = Y O,   Y_b = L^-1 Pi_b L O_b'   (k, rows of b),

and Y, the input map, gives both the kernel of Z and how the responses enter.

A word of samples a_1 .. a_j before sample b is P_a1 X ... P_aj X o for each row o of b, where X = diag(x). E_j is
the sum over ordered tuples of j distinct samples other than b, and Abar = sum_j (-1)^j a_j E_j. Expanding the
distinctness (Moebius inversion on set partitions) leaves sums that need no loop over tuples, since all P add up to
I and repeated samples meet themselves through small Gram matrices. Degrees beyond the fourth have crossing pairs of
pairs, and no sum of polynomial cost is known for them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise

import numpy as np
import scipy.linalg

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._linalg import thin_qr
from reshuffle.epoch.epoch_map import MeanMap
from reshuffle.errors import BudgetError
from reshuffle.problem.row_space import Blocks

MOST_BATCHES = 4
MOST_BATCHES_OF_GROUPS = 3
"""Samples of one row meet in pairs as numbers, which have cubes; those of several rows meet as matrices."""
_CHUNK = 1 << 22  # entries of the Gram matrix of the samples that are computed at a time
_MANY_COLUMNS = 100
_APART = 1e-14  # the cosine of the angle between columns that are orthogonal, up to rounding
_PROBES = 3


@dataclass(frozen=True, eq=False)
class Whitened:
    """Rows in the coordinates of their mean step, at one step; the atoms are what is visited as a whole."""

    orthonormal: FloatArray  # O (q, k)
    factor: FloatArray  # diag(s) V' (k, r), so that Z = factor' K factor
    roots: FloatArray  # sqrt(w) (q,)
    decay_rates: FloatArray  # x = unit s^2 (k,): exp(-x) is left of a mode by infinitely many small visits
    unit: float  # B step
    offsets: IntArray  # (atoms + 1,): where the rows of each atom begin

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
    # If they are, M'M is diagonal, and its product with a vector shows it: all cosines, with random signs.
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(len(norms), _PROBES))
    added = (matrix.T @ (matrix @ (signs / norms[:, np.newaxis]))) / norms[:, np.newaxis] - signs
    return norms if np.abs(added).max() < _APART * math.sqrt(len(norms)) else None


def kernel(whitened: Whitened, input_map: FloatArray) -> FloatArray:
    """The symmetric part of Y O (k, k), for an input map Y (k, q)."""
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


def one_batch(blocks: Blocks, step: float) -> MeanMap:
    """The map of a single batch: Z = W, with the kernel I / n."""
    kernel = np.full(len(blocks.rows), 1 / blocks.divisors[0])
    identity = np.eye(blocks.rows.shape[1])
    return MeanMap(blocks.rows, kernel, kernel, step, 1, blocks.weight, lambda batch: identity)


def repeated_step(blocks: Blocks, step: float, steps: int) -> MeanMap:
    """The mean of a step on one of the blocks, each as likely as the others, done so many times per epoch."""
    roots = np.sqrt(np.repeat(1 / (blocks.batches * blocks.divisors), blocks.sizes))[:, np.newaxis]
    orthonormal, factor = thin_qr(roots * blocks.rows)
    identity = np.eye(factor.shape[1])

    def modifier(batch: int) -> FloatArray:
        one_step = identity - step * (factor.T @ factor)
        # Horner's rule for the mean of 1, A, ..., A^(steps-1): what comes after a given visit.
        mean = identity
        for _ in range(steps - 1):
            mean = identity + one_step @ mean
        return mean / steps

    return MeanMap(factor, np.ones(len(factor)), (orthonormal * roots).T, step, steps, 1.0, modifier)


def flops(n: int, rank: int, steps: int) -> float:
    """Operations of `mean_map`."""
    return 12.0 * n * rank**2 + (4.0 * n**2 * rank if steps == MOST_BATCHES else 0.0)


def mean_map(rows_of: Callable[[], Whitened], shares: FloatArray, most: int) -> MeanMap:
    """The mean over all orders of the samples, cut into at most `most` batches that weigh `shares` (B,)."""
    steps = len(shares)
    if steps > most:
        raise BudgetError(
            f"batches is {steps}, but the exact mean over shuffled samples is computed for at most {most}.",
            hint=("fewer batches", 'descend(..., {method}="auto")'),
        )
    whitened = rows_of()
    coefficients = _coefficients(shares, whitened.atoms)
    rows = whitened.orthonormal
    met = _through_own(whitened, whitened.decay_rates, rows)
    inputs = coefficients[1] * rows
    if steps > 1:
        inputs = inputs - coefficients[2] * (rows * whitened.decay_rates - met)
    if steps > 2:
        inputs = inputs + coefficients[3] * _degree_two(whitened, met)
    if steps == MOST_BATCHES:
        inputs = inputs - coefficients[4] * _degree_three(whitened)
    return MeanMap(
        whitened.factor, kernel(whitened, inputs.T), inputs.T * whitened.roots, whitened.unit, 1, 1.0,
        partial(_modifier, whitened, coefficients, met),
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


def _through_own(whitened: Whitened, weights: FloatArray, vectors: FloatArray) -> FloatArray:
    """(O_b diag(w) O_b') M_b (q, k), for the rows M_b of each atom b in `vectors` (q, k) and weights (k,)."""
    rows = whitened.orthonormal
    if len(rows) == whitened.atoms:
        return np.asarray((rows**2 @ weights)[:, np.newaxis] * vectors)
    found = np.empty_like(vectors)
    for start, stop in pairwise(whitened.offsets):
        found[start:stop] = (rows[start:stop] * weights) @ rows[start:stop].T @ vectors[start:stop]
    return found


def _degree_two(whitened: Whitened, met: FloatArray) -> FloatArray:
    """E_2: (X^2 - X P_b X - P_b X^2 + 2 (P_b X)^2 - Q) o, with Q = sum_a P_a X P_a X; P_b X o is `met`."""
    x, rows = whitened.decay_rates, whitened.orthonormal
    own = met * x + _through_own(whitened, x**2, rows) - 2 * _through_own(whitened, x, met)
    return np.asarray(rows * x**2 - own - (rows * x) @ (rows.T @ met))


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


def _modifier(whitened: Whitened, coefficients: FloatArray, met: FloatArray, atom: int) -> FloatArray:
    """Pi_b (r, r): the same sums as matrices, where words P X ... P have no last X, and L at both ends."""
    x, rows, place = whitened.decay_rates, whitened.orthonormal, slice(*whitened.offsets[atom : atom + 2])
    single = np.eye(len(x)) - rows[place].T @ rows[place]
    pairs = rows.T @ met - rows[place].T @ met[place]
    words = [single, (single * x) @ single - pairs]
    if len(coefficients) > MOST_BATCHES:
        others, own = np.delete(rows, atom, axis=0), np.delete(whitened.row_norms, atom)[:, np.newaxis]
        around = np.einsum("ij,ij->i", (others * x) @ single, others * x)[:, np.newaxis]
        words.append(
            ((single * x) @ single * x) @ single
            - (pairs * x) @ single
            - (single * x) @ pairs
            - others.T @ (around * others)
            + 2 * others.T @ (own**2 * others)
        )
    # Of two batches there is but the first word, and of one there is none.
    inside = np.zeros_like(single)
    for degree, (word, coefficient) in enumerate(zip(words, coefficients[2:], strict=False), start=1):
        inside += (-1) ** degree * coefficient * word
    root = np.sqrt(x)
    return in_row_space(whitened, coefficients[1] * np.eye(len(x)) + root[:, np.newaxis] * inside * root)


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
