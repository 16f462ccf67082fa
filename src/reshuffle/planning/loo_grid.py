"""Leave-one-out of every step, batch size, penalty and epoch at once, where epochs repeat one mean step.

The mean step of a batch that is drawn from all rows is b -> b - step ((W + penalty) b - X'y / n), W = X'X / n,
whatever its size: without row i the mean iterate after K visits is a polynomial in W - x_i x_i' / n, its residual

    e_i = y_i - (1 / 2 pi i) contour of q(m) E_i(m) dm,    q(m) = (1 - (1 - step (m + penalty))^K) / (m + penalty),
    E_i(m) = (y_i - sum_j r_ij c_j / (l_j - m)) / (1 - sum_j r_ij^2 / (n (l_j - m))),

with r the rows in the eigenvectors of W, l its eigenvalues and c = r'y / n. One curve serves them all: for steps up
to the largest and step K up to the longest, |1 - step m|^K is at most e on it. So the E_i at its few nodes are
found once, and sums of squares over all rows are quadratic forms in the numbers q with one small matrix.

Rows that were centred have seen each other: with all means zero a row is minus the sum of the others, and whoever
fits those knows it. Without row i the means are others. That is a factor a_i = n / (n - 1), or
sum w / (sum w - w_i) for weights w: W loses a_i x_i x_i' / n, X'y loses a_i x_i y_i, and the residual is a_i times
that of the row as it was centred. So a_i stands before the last sum in E_i, and before e_i.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import scipy.linalg

from reshuffle._arrays import AnyArray, FloatArray, IntArray
from reshuffle._linalg import eigenvalue, norms
from reshuffle._progress import track
from reshuffle.errors import ArgumentError
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.schemes.base import Scheme, Shuffle
from reshuffle.validation import contour

_CHUNK = 1 << 20
"""Numbers that are worked on at a time."""
_SQUARES = 1 << 22
"""Squared residuals of ridge regression in memory at a time."""
GROUPS = 2000
"""Groups of rows, at most, between which squares vary as those of rows do."""
_CACHED = 1 << 27
"""Numbers that are cached: a gigabyte."""
_LOWEST, _HIGHEST, _COUNT = 0.01, 2.0, 16
"""The smallest and the largest step of a grid in safe steps, and how many steps it has."""
_POINTS = 5
"""Points between two epochs at which residuals are computed."""
_SLOW = 1e-3
_NEAREST = 0.99
"""Of the safe step, beyond which the estimate does not grow: it would be without bound."""

Piece: TypeAlias = tuple[IntArray, FloatArray, FloatArray]
"""Numbers of some rows (m,), these in the eigenvectors of W (m, r), and their responses (m, t)."""


@dataclass(frozen=True, eq=False)
class RowSpectrum:
    """The rows of a problem in the eigenvectors of W."""

    problem: LeastSquares
    values: FloatArray  # (r,): l, the eigenvalues of W that are not zero
    vectors: FloatArray  # (r, r), in the coordinates of the row space
    centred: bool = False  # True if the mean over rows was subtracted from features and responses

    @classmethod
    def of(cls, problem: LeastSquares, centred: bool = False) -> "RowSpectrum":
        """The spectrum by one decomposition of the reduced rows."""
        space = problem.row_space
        _, sizes, right = scipy.linalg.svd(problem.reduction.rows, full_matrices=False, check_finite=False)
        return cls(problem, np.square(space.scale * sizes) / problem.n, right.T, centred)

    def rows(self, members: IntArray) -> FloatArray:
        """The rows of some members, (m, r)."""
        if self.problem.n * len(self.values) <= _CACHED:
            is_piece = len(members) and members[-1] - members[0] == len(members) - 1
            # Rows are ascending: a piece of them need not be copied.
            return self._all_rows[members[0] : members[-1] + 1] if is_piece else self._all_rows[members]
        return np.asarray(self.problem.rows_inside(members) @ (self.problem.row_space.scale * self.vectors))

    @cached_property
    def _all_rows(self) -> FloatArray:
        everything = np.arange(self.problem.n)
        return np.asarray(
            self.problem.rows_inside(everything) @ (self.problem.row_space.scale * self.vectors)
        )

    def pieces(self, width: int, members: IntArray | None = None) -> Iterator[Piece]:
        """Some rows or all, so many at a time that `width` numbers of each fit in memory.

        Where rows are read in chunks it is all of them, in one pass.
        """
        problem, height = self.problem, max(1, _CHUNK // max(1, width))
        if problem.stream is None:
            members = np.arange(problem.n) if members is None else members
            for part in np.split(members, np.arange(height, len(members), height)):
                yield part, self.rows(part), problem.compressed.y[part]
            return
        for start, X, y in problem.stream.pairs():
            for first in range(0, len(X), height):
                part = np.arange(first, min(first + height, len(X)))
                yield start + part, problem.row_space.coordinates(X[part].T).T @ self.vectors, y[part]

    @cached_property
    def input_map(self) -> FloatArray:
        """r'y / n (r, t)."""
        problem = self.problem
        inside = problem.reduction.rows.T @ problem.reduction.response
        return np.asarray(self.vectors.T @ inside * (problem.row_space.scale / problem.n))

    @cached_property
    def enlarged(self) -> FloatArray:
        """a_i (n,): by how much a row is farther from the mean of the others than from that of all."""
        return self.problem.centring_factors if self.centred else np.ones(self.problem.n)

    @cached_property
    def kurtosis(self) -> float:
        """The smallest R^2 with mean_i |x_i|^2 x_i x_i' <= R^2 W."""
        n, total = self.problem.n, np.zeros((len(self.values),) * 2)
        for _, rows, _ in self.pieces(len(self.values)):
            whitened = rows * (np.sqrt(np.square(rows).sum(axis=1) / n)[:, np.newaxis] / np.sqrt(self.values))
            total += whitened.T @ whitened
        return eigenvalue(total, -1)

    def safe_step(self, scheme: Scheme, penalty: float = 0.0) -> float:
        """A step below which single runs converge in the mean square, if batches of m rows are drawn afresh.

        2 / ((1 - 1/m) max l + R^2 / m + penalty): with M the second moment of the error, one visit takes at least
        step (2 - step (...)) tr(W M) of its trace. Where batches have different sizes 1/m is the mean over them,
        and the proof has a gap; of all rows, it is 2 / (max l + penalty).
        """
        n = self.problem.n
        share = float(scheme.variance_shares(n).mean()) if scheme.steps(n) > 1 else 0.0
        return 2 / ((1 - share) * float(self.values.max()) + share * self.kurtosis + penalty)

    def spreads(
        self, scheme: Scheme, steps: FloatArray, epochs: FloatArray, penalty: float = 0.0
    ) -> FloatArray:
        """Estimates (s, k) of tr(W Cov b) over outputs on average, for steps (s,) after ascending epochs (k,).

        In visit t, of m_t rows, the gradient is off by xi_t. Samples that are shuffled have Cov(xi_t, xi_u) = (n /
        m_t [t = u] - 1) N / (n - 1), those drawn independently n / m_t [t = u] N / (n - 1) or so, with N the
        covariance of the gradient of one row. It is taken to be diagonal in the modes of W, N = r^2 l, where r^2 is
        the mean square of the residuals along the mean iterate. With p = 1 - step (l + penalty) and a_t = p^(B - 1
        - t), an epoch then adds step^2 r^2 l / (n - 1) (sum a_t^2 n / m_t - (sum a_t)^2) to the variance of a mode,
        and p^2B of it is left after another. That runs have different residuals multiplies it by 1 / (1 - step /
        safe step).

        `run.covariance` knows it without these assumptions, at a price. Orders that are drawn once, at the start,
        spread more than this: what they do in one epoch they do in all.
        """
        problem, n, values = self.problem, self.problem.n, self.values
        visits, found = scheme.steps(n), np.zeros((len(steps), len(epochs)))
        if not scheme.is_random or visits == 1:
            return found
        # The share of each mode in the mean square of the responses, and that of none.
        explained = np.square(self.input_map).mean(axis=1) / values
        unexplained = float(
            np.square(problem.compressed.y).sum() / n / self.input_map.shape[1] - explained.sum()
        )
        decay_rate = np.multiply.outer(steps, values + penalty)
        noise = _epoch_noise(decay_rate, n / scheme.sizes(n), scheme.shuffle is Shuffle.EVERY_STEP)
        grown = 1 - np.minimum(steps / self.safe_step(scheme, penalty), _NEAREST)
        added = (np.square(steps) / grown)[:, np.newaxis] * values * noise / (n - 1)
        begin, variance = 0.0, np.zeros(decay_rate.shape)
        log_rate = np.log(np.maximum(np.abs(1 - decay_rate), 1e-300))
        left = -np.expm1(2 * visits * log_rate)
        for number, end in enumerate(epochs):
            lost = -np.expm1(2 * visits * (end - begin) * log_rate)
            sums = np.divide(lost, left, out=np.full(decay_rate.shape, end - begin), where=left > 0)
            # Between whole visits a mode that overshoots, with a factor below zero, counts by the size of it.
            between = np.linspace(begin, end, _POINTS)[:, np.newaxis, np.newaxis] * visits
            learned = (1 - np.abs(1 - decay_rate) ** between) * (values / (values + penalty))
            residual = (unexplained + np.square(1 - learned) @ explained).mean(axis=0)
            variance = (1 - lost) * variance + added * residual[:, np.newaxis] * sums
            found[:, number], begin = variance @ values, end
        return np.asarray(found * (n / problem.row_weights.sum()))


@dataclass(frozen=True, eq=False)
class LeftOutCurve:
    """The E_i on one curve, for all steps, visits and penalties up to given ones."""

    spectrum: RowSpectrum
    nodes: AnyArray  # (N,): m, in the upper half plane
    weights: AnyArray  # (N,): dm / (2 pi i)

    @classmethod
    def around(cls, spectrum: RowSpectrum, step: float, longest: float, penalty: float) -> "LeftOutCurve":
        """Make the curve for steps up to `step`, step times visits to `longest`, and penalties to `penalty`."""
        curve = contour.around(0.0, step * (float(spectrum.values.max()) + penalty), longest / step)
        return cls(spectrum, curve.nodes / step, curve.weights / step)

    def combinations(
        self, step: float | FloatArray, visits: FloatArray, penalty: float | FloatArray
    ) -> FloatArray:
        """(k, 1 + 2N): what y_i, the real and the imaginary parts of E_i at the nodes are multiplied by in e_i.

        For visits (k,), and one step and penalty for all or (k,) of them.
        """
        steps, penalties = (np.reshape(part, (-1, 1)) for part in (step, penalty))
        moved = self.nodes + penalties
        with np.errstate(over="ignore", invalid="ignore"):
            sums = -np.expm1(visits[:, np.newaxis] * np.log1p(-steps * moved)) / moved * self.weights
        return np.hstack([np.ones((len(visits), 1)), 2 * sums.real, -2 * sums.imag])

    def parts(self, members: IntArray, rows: FloatArray, responses: FloatArray) -> FloatArray:
        """(m, t, 1 + 2N): y_i, and the real and imaginary parts of E_i at the nodes."""
        spectrum, n = self.spectrum, self.spectrum.problem.n
        # (r, N), real and imaginary parts side by side, so that all products are of real matrices.
        resolvent = 1 / (spectrum.values[:, np.newaxis] - self.nodes)
        split, count = np.hstack([resolvent.real, resolvent.imag]), len(self.nodes)
        enlarged = spectrum.enlarged[members, np.newaxis]
        leverage = np.square(rows) @ split
        inverse = enlarged / (1 - enlarged / n * (leverage[:, :count] + 1j * leverage[:, count:]))
        mapped_inputs = spectrum.input_map[:, :, np.newaxis] * split[:, np.newaxis]
        explained = (rows @ mapped_inputs.reshape(len(mapped_inputs), -1)).reshape(
            *responses.shape, 2 * count
        )
        # (y - explained) / (1 - ...), written out: quotients of complex numbers take several times as long.
        missed = np.subtract(responses[..., np.newaxis], explained[..., :count], out=explained[..., :count])
        across, real, imaginary = explained[..., count:], inverse.real[:, None], inverse.imag[:, None]
        parts = np.empty((*responses.shape, 1 + 2 * count))
        parts[..., 0] = enlarged * responses
        parts[..., 1 : 1 + count] = missed * real + across * imaginary
        parts[..., 1 + count :] = missed * imaginary - across * real
        return parts

    def pieces(self, rows: IntArray | None = None) -> Iterable[FloatArray]:
        """The parts of some rows or of all, some at a time; those of all are cached, unless they are too many."""
        problem = self.spectrum.problem
        size = problem.n * (problem.outputs or 1) * (1 + 2 * len(self.nodes))
        if rows is None or len(rows) == problem.n:
            is_cached = size <= _CACHED // 4 and problem.stream is None
            return self._cached_parts if is_cached else self._made_parts(None)
        return self._made_parts(rows)

    @cached_property
    def _cached_parts(self) -> list[FloatArray]:
        return list(self._made_parts(None))

    def _made_parts(self, rows: IntArray | None) -> Iterator[FloatArray]:
        """The parts of some rows or of all, so many at a time that they fit in memory."""
        problem = self.spectrum.problem
        width = (1 + 2 * len(self.nodes)) * (problem.outputs or 1) + len(self.spectrum.values)
        return (self.parts(*piece) for piece in self.spectrum.pieces(width, rows))

    @cached_property
    def _gram(self) -> FloatArray:
        """Sums over rows and outputs of products of the parts, over the number of outputs and the weights."""
        width, problem = 1 + 2 * len(self.nodes), self.spectrum.problem
        total = np.zeros((width, width))
        for parts in track(self.pieces(), None, "leaving out rows, part"):
            flat = parts.reshape(-1, width)
            total += flat.T @ flat
        return np.asarray(total / (self.spectrum.problem.row_weights.sum() * (problem.outputs or 1)))

    def mean_squares(self, step: float, visits: FloatArray, penalty: float = 0.0) -> FloatArray:
        """The mean of e_i^2 over rows and outputs after each number of visits, (k,)."""
        combinations = self.combinations(step, visits, penalty)
        return np.asarray(((combinations @ self._gram) * combinations).sum(axis=1).clip(min=0.0))

    def residuals(
        self, step: float, visits: FloatArray, penalty: float = 0.0, rows: IntArray | None = None
    ) -> FloatArray:
        """e_i after each number of visits, (k, n, t), times the root of its weight; of some rows or of all."""
        combinations = self.combinations(step, visits, penalty)
        made = [np.moveaxis(parts @ combinations.T, -1, 0) for parts in self.pieces(rows)]
        return np.concatenate(made, axis=1)


def _epoch_noise(decay_rate: FloatArray, shares: FloatArray, independent: bool) -> FloatArray:
    """Sum_t a_t^2 n / m_t - (sum_t a_t)^2 for a_t = p^(B - 1 - t), p = 1 - decay rate.

    The first sum alone where draws are independent. `shares` are the n / m_t (B,): all the same, but for a last
    batch that may be shorter.
    """
    rate, visits = 1 - decay_rate, len(shares)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        squares = np.where(
            decay_rate == 0, visits, (1 - rate ** (2 * visits)) / (decay_rate * (2 - decay_rate))
        )
        sums = np.where(decay_rate == 0, visits, (1 - rate**visits) / decay_rate)
    if independent:
        return np.asarray(shares[0] * squares + shares[-1] - shares[0])
    # The two cancel where little happens in an epoch.
    small = np.square(decay_rate * visits) * (visits**2 - 1) / 12
    alike = np.where(decay_rate * visits < _SLOW, small, np.maximum(visits * squares - sums**2, 0.0))
    return np.asarray(alike + (shares[0] - visits) * squares + shares[-1] - shares[0])


def auto_steps(problem: LeastSquares, schemes: Sequence[Scheme], count: int = _COUNT) -> FloatArray:
    """Steps (count,) in even steps of their logarithm, from a hundredth of a safe step up to two of them.

    The safe step of a scheme is one below which single runs converge in the mean square; it is smaller for smaller
    batches, so that the grid begins with the smallest and ends with the largest of all schemes.

    >>> from reshuffle import FullBatch
    >>> auto_steps(LeastSquares([[1.0], [3.0]], [0.0, 0.0]), [FullBatch()], 3).round(4)
    array([0.004 , 0.0566, 0.8   ])
    """
    if not problem.rank:
        raise ArgumentError("X", "not be zero in all its entries", "it is", "give steps yourself")
    spectrum = RowSpectrum.of(problem)
    safe = [spectrum.safe_step(scheme) for scheme in schemes]
    return np.geomspace(_LOWEST * min(safe), _HIGHEST * max(safe), count)


def ridge_left_out(spectrum: RowSpectrum, penalties: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The mean of e_i^2 over rows and outputs, and its standard error, (k,) each, of ridge regression.

    The loss is |y - X b|^2 / (2n) + penalty |b|^2 / 2, with penalties (k,) above zero: the E_i at m = -penalty.
    """
    problem, found = spectrum.problem, []
    # Of rows that are read in chunks the squares of groups are added up.
    groups = problem.n if problem.stream is None else min(problem.n, GROUPS)
    weights = np.bincount(np.arange(problem.n) % groups, problem.row_weights).astype(np.float64)
    at_once = max(1, _SQUARES // groups)
    parts = np.split(penalties, np.arange(at_once, len(penalties), at_once))
    for some in track(parts, len(parts), "ridge regression"):
        squares, resolvent = np.zeros((groups, len(some))), 1 / (spectrum.values[:, np.newaxis] + some)
        mapped_inputs = (resolvent[:, :, np.newaxis] * spectrum.input_map[:, np.newaxis]).reshape(
            len(resolvent), -1
        )
        for members, rows, responses in spectrum.pieces(len(spectrum.values)):
            fitted = (rows @ mapped_inputs).reshape(len(rows), len(some), -1)
            missed = np.square(responses[:, np.newaxis] - fitted).mean(axis=2)
            one_minus = 1 / spectrum.enlarged[members, np.newaxis] - np.square(rows) @ resolvent / problem.n
            np.add.at(squares, members % groups, missed / np.square(one_minus))
        found.append(averaged(squares.T, weights))
    means, errors = (np.concatenate(both) for both in zip(*found, strict=True))
    return means, errors


def averaged(squares: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The weighted mean of squares (..., n), weighted already, over the rows, and its standard error as a sample.

    >>> [round(float(part), 4) for part in averaged(np.array([1.0, 2.0, 3.0]), np.ones(3))]
    [2.0, 0.5774]
    """
    total, count = weights.sum(), len(weights)
    mean = squares.sum(axis=-1) / total
    # Squares of squares leave the range of numbers long before the test error does.
    off = norms(squares - mean[..., np.newaxis] * weights)
    return mean, off * np.sqrt(count / (count - 1)) / total
