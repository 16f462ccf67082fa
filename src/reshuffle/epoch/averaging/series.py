"""The mean of an epoch with many batches, as a series in coincidences.

Give every batch an independent uniform time: the order of the times is a uniformly random order, so that

    Abar = T prod_b (I - int_0^1 step W_b(t) dt) = T exp( - int step S - sum_b sum_{j>=2} (int step W_b)^j / j ),

where T puts later times to the left and S = sum_b W_b. Expanding in the second sum counts coincidences: words that
meet the same batch more than once. Without any the mean is exp(-step S); with one pair it is, in the basis in which
S is diagonal, a sum over divided differences of exp. Both are kept, in all degrees of the step. What is left out is
bounded by the same expression in the numbers |step W_b|, since exp(-t S) never enlarges anything: about
(sum_b |step W_b|^2)^2 / 8 + sum_b |step W_b|^3 / 3, which is small whenever the batches are many.

Shuffled samples obey the same with other coefficients than 1/i! (see `sample_coefficients`), only without the
integral form, so that the bound also takes the powers of |step S| along.
"""

from dataclasses import dataclass

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle.epoch.accuracy import CALL
from reshuffle.epoch.averaging.low_degrees import Whitened

_MOST_TERMS = 170
"""Coefficients of a generating function that are ever needed: 1/170! is the end of the range of numbers."""
_LARGEST_RATE = 12.0
"""Beyond, alternating sums of the size exp(x) lose more digits than the bound could make up for."""
_LARGEST_VISIT = 0.5
"""Visits beyond change more than a series in them could follow."""


@dataclass(frozen=True)
class SeriesError:
    """Bounds on what the series leaves out, for features divided by their scale.

    Attributes
    ----------
    share : float
        On the error of Abar relative to the plain sum of the visits: |v'(error) v| <= share v'(step S) v for all v.
    pull : float
        On the Frobenius norm of the error of the matrix through which responses enter in an epoch.
    """

    share: float
    pull: float


def batch_coefficients() -> FloatArray:
    """The coefficients a_i of Abar = sum_i (-1)^i a_i E_i for batches that are all visited: 1/i!."""
    with np.errstate(under="ignore"):
        return np.cumprod(np.concatenate([[1.0], 1 / np.arange(1.0, _MOST_TERMS)]))


def sample_coefficients(shares: FloatArray, n: int) -> FloatArray:
    """The a_i = e_i(shares / B) n^i (n - i)! / n! for shuffled samples, where an atom is B / n times step x x'.

    The mean over orders of a product over batches is that over one sample drawn from each batch, and only words of
    distinct samples occur; e_i are the elementary symmetric functions of the batches' shares m_b / divisor_b.
    """
    terms = min(len(shares), _MOST_TERMS - 1)
    symmetric = np.zeros(terms + 1)
    symmetric[0] = 1.0
    for share in shares:
        symmetric[1:] += share / len(shares) * symmetric[:-1]
    falling = np.concatenate([[1.0], np.cumprod(1 - np.arange(terms) / n)])
    return np.asarray(symmetric / falling)


def pull(whitened: Whitened, coefficients: FloatArray) -> FloatArray:
    """Y (k, q) without coincidences and with one."""
    correction = _pair_correction(whitened, coefficients)
    plain = _homogeneous_sum(coefficients[1:], whitened.paces)
    rows = whitened.orthonormal
    return ((rows * plain) + rows @ correction.T + _own_correction(whitened, coefficients)).T


def modifier(whitened: Whitened, coefficients: FloatArray, atom: int) -> FloatArray:
    """Pi_b, in the basis V (k, k), to the same order as `pull`."""
    x, root = whitened.paces, np.sqrt(whitened.paces)
    rows = whitened.of_atom(atom)
    inner = _pair_correction(whitened, coefficients, weighted=False)
    inner += _homogeneous_sum(coefficients[2:], x[:, np.newaxis], x) * (rows.T @ rows)
    return np.diag(_homogeneous_sum(coefficients[1:], x)) + root[:, np.newaxis] * inner * root


def error(whitened: Whitened, coefficients: FloatArray, *, contracts: bool) -> SeriesError:
    """Bound what `pull` leaves out; infinite where the visits are too large for the series.

    `contracts` says that what happens between coincidences never enlarges anything, as for batches.
    """
    norms = whitened.norms
    if whitened.fastest == 0:
        return SeriesError(0.0, 0.0)
    if whitened.fastest > _LARGEST_RATE or norms.max(initial=0.0) > _LARGEST_VISIT:
        return SeriesError(np.inf, np.inf)
    # Terms beyond these are below rounding: a visit is at most one half, and factorials do the rest.
    terms = min(len(coefficients) - 1, 120)
    left_out = _left_out(norms, 0.0 if contracts else whitened.fastest, terms)
    factorials = np.cumprod(np.concatenate([[1.0], np.arange(1.0, terms)]))
    each = (coefficients[1 : terms + 1] * factorials) @ left_out
    # As a norm, the error is sum_b (error of Pi_b) step W_b. Relative to L on either side every word begins with
    # P_a L, which has the root of the norm of L P_a L.
    total = np.sqrt(each**2 @ norms)
    norm = min(float(each @ norms), float(np.sqrt(whitened.fastest) * total))
    slowest, smallest = float(whitened.paces.min(initial=np.inf)), float(norms.min(initial=np.inf))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = min(norm / slowest if slowest else np.inf, total / np.sqrt(smallest) if smallest else np.inf)
    of_rows = np.repeat(each, whitened.sizes)
    in_pull = whitened.unit * np.sum((whitened.roots * of_rows) ** 2 * whitened.row_norms)
    return SeriesError(float(share), float(np.sqrt(in_pull)))


def flops(whitened: Whitened) -> float:
    """Operations of `pull`: products over atoms for each pair of modes, and sums over triples of modes."""
    k, q = len(whitened.paces), len(whitened.orthonormal)
    terms = _terms(whitened.fastest)
    calls = CALL * (whitened.atoms + terms * k)
    return 2.0 * whitened.atoms * k**3 + 8.0 * q * k**2 + 10.0 * terms * k**3 + calls


def _left_out(norms: FloatArray, propagator: float, terms: int) -> FloatArray:
    """Coefficients in z of exp(u z + l(z)) / (1 - w z) minus what is kept of it, (terms, atoms).

    l(z) = sum_a (-log(1 - w_a z) - w_a z) counts the coincidences of all atoms, 1 / (1 - w z) those with the atom
    whose pull it is; kept are exp(u z) (1 + w z + sum_a w_a^2 z^2 / 2).
    """
    exponent = np.array([0.0, propagator, *((norms**power).sum() / power for power in range(2, terms))])
    between = _exponential(np.array([0.0, propagator]), terms)
    everything = _exponential(exponent[:terms], terms)
    left_out = np.zeros((terms, len(norms)))
    running = np.zeros(len(norms))
    for power in range(terms):
        running = norms * running + everything[power]
        kept = np.full(len(norms), between[power])
        if power >= 1:
            kept += norms * between[power - 1]
        if power >= 2:
            kept += exponent[2] * between[power - 2]
        left_out[power] = np.maximum(running - kept, 0.0)
    return left_out


def _exponential(series: FloatArray, terms: int) -> FloatArray:
    """The coefficients of exp of a power series without constant term: i e_i = sum_j j s_j e_{i-j}."""
    result = np.zeros(terms)
    result[0] = 1.0
    weighted = np.arange(len(series)) * series
    for power in range(1, terms):
        reach = min(power, len(series) - 1)
        result[power] = weighted[1 : reach + 1] @ result[power - reach : power][::-1] / power
    return result


def _terms(largest: float) -> int:
    """Terms of sum_m h_m / m! until they are below rounding."""
    size, terms = 1.0, 1
    while size > 1e-18 and terms < _MOST_TERMS:
        size *= largest / terms
        terms += 1
    return terms + 2


def _homogeneous_sum(coefficients: FloatArray, *paces: FloatArray) -> FloatArray:
    """sum_m a_m h_m(-x, -y, ...), with h_m the complete homogeneous polynomials; arguments broadcast.

    These are the divided differences of sum_i a_i (-x)^i, shifted, with no division by differences.
    """
    shape = np.broadcast_shapes(*(pace.shape for pace in paces))
    current = [np.zeros(shape) for _ in paces]
    total = np.zeros(shape)
    largest = max(float(pace.max(initial=0.0)) for pace in paces)
    for power, coefficient in enumerate(coefficients[: _terms(largest)]):
        # h_m of the first variables comes before that of one more: h_m(.., z) = z h_{m-1}(.., z) + h_m(..).
        below: FloatArray | float = 1.0 if power == 0 else 0.0
        for number, pace in enumerate(paces):
            current[number] = below - pace * current[number]
            below = current[number]
        total += coefficient * below
    return total


def _pair_correction(whitened: Whitened, coefficients: FloatArray, weighted: bool = True) -> FloatArray:
    """Minus the sum over atoms of the words with one pair, (k, k), times diag(x) on the right if weighted."""
    x, rows = whitened.paces, whitened.orthonormal
    correction = np.zeros((len(x), len(x)))
    singles = bool((whitened.sizes == 1).all())
    for mode, pace in enumerate(x):
        scaled = rows * rows[:, mode, np.newaxis]
        # P_b[:, mode] for every atom: its rows, weighed with their own entry.
        columns = scaled if singles else np.add.reduceat(scaled, whitened.offsets[:-1], axis=0)
        middle = np.full((1, 1), pace)
        weights = _homogeneous_sum(coefficients[3:], middle, x[:, np.newaxis], x[np.newaxis])
        correction -= pace * weights * (columns.T @ columns)
    return correction * x if weighted else correction


def _own_correction(whitened: Whitened, coefficients: FloatArray) -> FloatArray:
    """What the pull of an atom gains because no word of it meets the atom itself, to first order, (q, k)."""
    x, rows = whitened.paces, whitened.orthonormal
    weights = _homogeneous_sum(coefficients[2:], x[:, np.newaxis], x[np.newaxis]) * x
    if (whitened.sizes == 1).all():
        return np.asarray(rows * ((rows**2) @ weights.T))
    gained = np.empty_like(rows)
    for atom in range(whitened.atoms):
        own = whitened.of_atom(atom)
        gained[whitened.offsets[atom] : whitened.offsets[atom + 1]] = own @ (weights * (own.T @ own)).T
    return gained
