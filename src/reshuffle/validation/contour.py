"""Low-rank updates of an epoch map, repeated any number of times: Woodbury's formula inside Cauchy's.

Without row i the map z -> A z + g of an epoch becomes A_i = A + L C R', g_i = g - L C alpha (`RowUpdate`). With
G = R'(w - A)^-1 L, v = R'(w - A)^-1 g and x_i = R o its residual y_i - x_i'z after k epochs from zero is

    e_i(k) = y_i + (1 / 2 pi i) contour of (1 - w^k) / (1 - w) o'(I - G C)^-1 (alpha - v) dw,

along any closed curve around the eigenvalues of A_i. Those of symmetric maps lie in a slit of the real axis, and
w^k is of ordinary size in the disc of radius 1 + 1/k. Between the two an elliptic sine is the best of all curves:
the trapezoidal rule with N nodes is off by exp(-pi N K' / (8 K)), where the complete elliptic integrals K and K'
grow with the logarithm of k alone. The first few epochs are followed one by one, in the modes of A.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg
import scipy.special

from reshuffle._arrays import AnyArray, BoolArray, FloatArray, IntArray
from reshuffle._budget import A_SECOND
from reshuffle.epoch.averaging.lattice import available_bytes
from reshuffle.errors import BudgetError

_DIGITS = 31.0
"""The trapezoidal rule is taken so fine that it is off by exp of minus this."""
_FEWEST = 8
FARTHEST = 4e9
"""Epochs in which rounding of the decay rates adds up to a millionth."""
_APART, _APART_COMPLEX = 1e-11, 1e-8
"""Ratio of decay rates below which small ones, and what enters them, are known poorly."""
_USUAL = 150
"""Nodes of curves for many epochs, about."""
_NARROW = 0.02
"""Room for the curve, relative to that around an empty slit, below which nodes would be too many."""
_WORST_BASIS = 1e5
"""Condition number of eigenvectors beyond which they are no coordinates."""
_CHUNK = 1 << 22
"""Numbers that are worked on at a time."""
_SOLVED = 700.0
"""Operations per entry of the system of a row and node: of small systems in stacks it is memory that takes time.
Measured: 470 to 1600 for systems of 4 to 10, 330 to 540 for a single one."""
_WIDENED = 0.02
"""By how much the slit is longer than the decay rates of all rows: leaving one out may add to the largest."""
_SATURATED, _OPEN = 1e-8, 1e-6
"""What is left of a row's leverage at most where it alone sees some direction, and at least where it does not."""
_AGREES, _ROUNDED, _TRUSTED = 1e-11, 1e-15, 1e-6
"""Shares by which residuals after one epoch may be off: at first, more per epoch, and at all."""


@dataclass(frozen=True, eq=False)
class Contour:
    """Nodes and weights in the upper half plane: the integral is twice the real part of the sum.

    Attributes
    ----------
    nodes : (N,)
        omega = 1 - w, in the plane of the decay rates.
    weights : (N,)
        dw / (2 pi i), counter-clockwise.
    """

    nodes: AnyArray
    weights: AnyArray

    def powers(self, epochs: FloatArray) -> AnyArray:
        """(1 - w^k) / (1 - w) (epochs, N), what k applications add up to, times the weights."""
        with np.errstate(over="ignore", invalid="ignore"):
            rest = -np.expm1(np.multiply.outer(epochs, np.log1p(-self.nodes)))
            return np.asarray(rest / self.nodes * self.weights)


def require_resolved(sizes: FloatArray, apart: float = _APART) -> None:
    """Refuse decay rates so far apart that the small ones, and what enters them, are known poorly."""
    if sizes.min(initial=np.inf) < apart * sizes.max(initial=0.0):
        raise ArithmeticError("decay rates are too far apart for their modes to be told from each other.")


def around(lowest: float, highest: float, last: float, beside: AnyArray | None = None) -> Contour:
    """Curve around decay rates between `lowest` and `highest`, for powers up to `last`.

    Rates beyond 2 belong to runs that diverge: the disc grows with the largest |1 - rate|. Complex ones may be
    `beside` the slit: then the curve is half-way between the farthest of them and the disc.

    >>> contour = around(0.0, 1.2, 1000.0)
    >>> sums = (contour.powers(np.array([1.0, 10.0, 1000.0])) / (0.3 - contour.nodes)).sum(axis=1)
    >>> np.allclose(2 * sums.real, (1 - 0.7 ** np.array([1, 10, 1000])) / 0.3)
    True
    """
    # Real ones are in the slit itself, where the integral has a branch cut.
    beside = np.zeros(0, dtype=complex) if beside is None else beside[beside.imag != 0]
    grown = max(1.0, abs(1 - lowest), abs(1 - highest), float(np.abs(1 - beside).max(initial=0.0)))
    # Where the disc ends beyond the slit: 1/k of its radius, and more for the first few powers.
    margin = 1 / max(last, 2.0)
    radius = grown * (1 + margin)
    low, high = _arctanh(1 - highest, radius), _arctanh(1 - lowest, radius)
    centre, half = math.tanh((low + high) / 2), max((high - low) / 2, 1e-3)
    slit = math.tanh(half)
    parameter = slit**4
    quarter, other = float(scipy.special.ellipk(parameter)), float(scipy.special.ellipkm1(parameter))
    place = (1 - beside) / radius
    far = _heights((place - centre) / (1 - centre * place) / slit, parameter).max(initial=0.0)
    room = (other / 2 - far) / 2
    if room < _NARROW * other:
        raise ArithmeticError("some decay rates are too near to those of runs that diverge.")
    count = max(_FEWEST, math.ceil(_DIGITS * quarter / (math.pi * room)))
    along = quarter * (2 * (np.arange(count) + 0.5) / count - 1)
    sine, slope = _sine(along, far + room, parameter)
    mapped, moved = slit * sine, 1 + centre * slit * sine
    distance = 2 / (math.exp(low + high) + 1)
    nodes = 1 - radius + radius * distance * (1 - mapped) / moved
    derivative = radius * (1 - centre**2) / moved**2 * slit * slope
    # Along the upper half from left to right is clockwise.
    weights = -derivative * (2 * quarter / count) / (2j * math.pi)
    return Contour(nodes, weights)


def _arctanh(place: float, radius: float) -> float:
    """artanh(place / radius), where both are near each other."""
    return 0.5 * math.log((radius + place) / (radius - place))


def _heights(sines: AnyArray, parameter: float) -> FloatArray:
    """The heights above the slit of the numbers with these elliptic sines, by Carlson's form of the integral."""
    squares = np.square(sines)
    return np.asarray(np.abs((sines * scipy.special.elliprf(1 - squares, 1 - parameter * squares, 1.0)).imag))


def _sine(along: FloatArray, height: float, parameter: float) -> tuple[AnyArray, AnyArray]:
    """Sn and its derivative at along + i height."""
    s, c, d, _ = scipy.special.ellipj(along, parameter)
    s1, c1, d1, _ = scipy.special.ellipj(height, 1 - parameter)
    size = c1**2 + parameter * s**2 * s1**2
    sine = (s * d1 + 1j * c * d * s1 * c1) / size
    cosine = (c * c1 - 1j * s * d * s1 * d1) / size
    delta = (d * c1 * d1 - 1j * parameter * s * c * s1) / size
    return sine, cosine * delta


class Modes:
    """Eigenvectors of an epoch map A = I - D, in real coordinates: real and imaginary parts of conjugate pairs.

    Parameters
    ----------
    loss : (d, d)
        D.
    is_symmetric : bool
        Of A. Otherwise eigenvectors are complex, and ArithmeticError is raised if they are no coordinates.
    """

    def __init__(self, loss: FloatArray, *, is_symmetric: bool):
        self.is_symmetric = is_symmetric
        if is_symmetric:
            values, right = scipy.linalg.eigh((loss + loss.T) / 2, driver="evd", check_finite=False)
            self.rates: AnyArray = values
            self._right, self._left = right, right.T
            self._is_pair = np.zeros(len(values), dtype=bool)
            return
        if not np.isfinite(loss).all():
            raise ArithmeticError("the mean map is beyond the range of numbers.")
        values, right = scipy.linalg.eig(loss, check_finite=False)
        if not np.linalg.cond(right) < _WORST_BASIS:
            raise ArithmeticError("the eigenvectors of the mean map are no coordinates.")
        upper = values.imag >= 0
        # Of a conjugate pair one is kept.
        self.rates, self._right = values[upper], right[:, upper]
        self._left = np.linalg.solve(right, np.eye(len(loss)).astype(complex))[upper]
        self._is_pair = self.rates.imag > 0

    @property
    def largest(self) -> float:
        """The largest |1 - rate|."""
        return float(np.abs(1 - self.rates).max(initial=0.0))

    @property
    def basis(self) -> FloatArray:
        """The rows (d, d) of the identity, in the coordinates."""
        return self._real(self._right)

    def seen(self, rows: FloatArray) -> FloatArray:
        """Rows (..., d) that act on states, in the coordinates."""
        return self._real(rows @ self._right)

    def entered(self, columns: FloatArray) -> FloatArray:
        """Columns (d, ...) of states, in the coordinates, as rows (..., d)."""
        return self._real(np.moveaxis(np.tensordot(self._left, columns, 1), 0, -1))

    def _real(self, numbers: AnyArray) -> FloatArray:
        if self.is_symmetric:
            return numbers
        return np.concatenate([numbers.real, numbers.imag[..., self._is_pair]], axis=-1)

    def products(self, seen: FloatArray, entered: FloatArray) -> FloatArray:
        """Coefficients (..., d) of seen (w - A)^-1 entered in `functions`."""
        if self.is_symmetric:
            return seen * entered
        count, pair = len(self.rates), self._is_pair
        found = np.empty(np.broadcast_shapes(seen.shape, entered.shape))
        found[..., :count] = seen[..., :count] * entered[..., :count]
        found[..., :count][..., pair] -= seen[..., count:] * entered[..., count:]
        found[..., count:] = (
            seen[..., :count][..., pair] * entered[..., count:]
            + seen[..., count:] * entered[..., :count][..., pair]
        )
        return found

    def functions(self, function: Callable[[AnyArray], AnyArray]) -> AnyArray:
        """Values (d, N) that `products` are multiplied with, of a function of rates (k, 1) -> (k, N)."""
        own = function(self.rates[:, np.newaxis])
        if self.is_symmetric:
            return own
        other = function(self.rates[self._is_pair, np.newaxis].conj())
        pairs = own[self._is_pair]
        own = own.astype(complex)
        own[self._is_pair] = pairs + other
        found = np.concatenate([own, 1j * (pairs - other)])
        return found if np.abs(found.imag).any() else found.real

    def resolvent(self, nodes: AnyArray) -> AnyArray:
        """(w - A)^-1 as `functions` (d, N), at nodes 1 - w."""
        return self.functions(lambda rates: 1 / (rates - nodes))

    def moved(self, entered: FloatArray, functions: AnyArray) -> AnyArray:
        """Images (d, t, N) of entered (t, d), such that seen @ them is what `products` say."""
        count, pair = len(self.rates), self._is_pair
        columns = entered.T[..., np.newaxis]
        found = columns[:count] * functions[:count, np.newaxis]
        if self.is_symmetric:
            return found
        real, imaginary = columns[:count][pair], columns[count:]
        first, second = functions[:count][pair][:, np.newaxis], functions[count:, np.newaxis]
        found[pair] += imaginary * second
        return np.concatenate([found, real * second - imaginary * first])

    def step(self, states: FloatArray) -> FloatArray:
        """A z for states (..., d) in the coordinates."""
        count, pair, left = len(self.rates), self._is_pair, 1 - self.rates
        found = states.copy()
        found[..., :count] *= left.real
        if not self.is_symmetric:
            real, imaginary = states[..., :count][..., pair], states[..., count:]
            found[..., :count][..., pair] -= left.imag[pair] * imaginary
            found[..., count:] = left.real[pair] * imaginary + left.imag[pair] * real
        return found

    @cached_property
    def metric(self) -> FloatArray:
        """Weights (d,) with which seen times entered is a product of rows and columns."""
        if self.is_symmetric:
            return np.ones(len(self.rates))
        return np.concatenate([1.0 + self._is_pair, np.full(self._is_pair.sum(), -2.0)])


@dataclass(frozen=True, eq=False)
class RowUpdate:
    """A_i = A + L C R' and g_i = g - L C alpha for m rows, or groups of s rows, in the coordinates of `Modes`.

    Attributes
    ----------
    members : (m,)
        The rows, or groups.
    right : (m, q, d)
        R'.
    left : (m, l, d), optional
        L'; by default R', where A is symmetric.
    coupling : (m, l, q)
        C.
    alpha : (m, q, t)
        Residuals of the row where it is visited.
    picks : (q, s)
        o, with x_i = R o.
    """

    members: IntArray
    right: FloatArray
    left: FloatArray | None
    coupling: FloatArray
    alpha: FloatArray
    picks: FloatArray

    def of(self, chosen: BoolArray) -> "RowUpdate":
        """The updates of some of the rows."""
        left = None if self.left is None else self.left[chosen]
        return RowUpdate(
            self.members[chosen], self.right[chosen], left, self.coupling[chosen], self.alpha[chosen], self.picks
        )  # fmt: skip

    @property
    def entering(self) -> FloatArray:
        """L' (m, l, d)."""
        return self.right if self.left is None else self.left


@dataclass(frozen=True, eq=False)
class LeftOutRows:
    """The mean map of an epoch, and its update for every row.

    Attributes
    ----------
    modes : Modes
    gains : (t, d)
        g, in the modes.
    updates : callable
        (rows, most at a time) -> their `RowUpdate`, chunk by chunk.
    sizes : (q, l, s)
        Of an update.
    applications : int
        Of the map per epoch.
    is_monotone : bool
        Whether the decay rates of left-out runs are between zero and the largest of all rows.
    alone : callable
        () -> which of all rows alone see some direction.
    """

    modes: Modes
    gains: FloatArray
    updates: Callable[[IntArray, int], Iterator[RowUpdate]]
    sizes: tuple[int, int, int]
    applications: int
    is_monotone: bool
    alone: Callable[[], BoolArray]

    @property
    def outputs(self) -> int:
        """t."""
        return len(self.gains)

    def residuals(self, rows: IntArray, epochs: FloatArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows, some at a time, and y_i - x_i'z_i (epochs, rows, s, t) after each of the finite epochs (k,)."""
        counts = epochs * self.applications
        last = float(counts.max(initial=1.0))
        curves = self._curves(last, len(epochs), len(rows))
        if curves is None:
            for update in self.updates(rows, self._height(1, len(epochs))):
                yield update.members, self._followed(update, counts)
            return
        times = np.concatenate([[1.0], counts])
        rules = [(self.modes.resolvent(curve.nodes), curve.powers(times)) for curve in curves]
        nodes = len(curves[-1].nodes)
        needed = 48.0 * self.sizes[0] * self.outputs * nodes
        if needed > available_bytes() / 2:
            raise BudgetError(
                f"leave_one_out of {self.outputs} outputs takes {needed / 1e9:.1f} GB for a single row; "
                "take some of the columns of y at a time."
            )
        tolerance = min(max(_AGREES, _ROUNDED * last), _TRUSTED)
        for update in self.updates(rows, self._height(nodes, len(epochs))):
            integrals = self._integrated(update, rules, tolerance)
            with np.errstate(over="ignore", invalid="ignore"):
                found = self._responses(update) + integrals[1:]
            yield update.members, np.where(np.isfinite(found), found, np.inf)

    def _curves(self, last: float, epochs: int, rows: int) -> list[Contour] | None:
        """Curves around the decay rates of all left-out runs, as a rule and at most; None to follow epochs."""
        real = self.modes.rates.real
        # Nothing is known of a row's own direction once it is left out: its rate may be zero.
        lowest, highest = min(float(real.min(initial=0.0)), 0.0), float(real.max(initial=0.0))
        try:
            if last > FARTHEST:
                raise ArithmeticError("so late what is left of slow modes is not known by their decay rates.")
            if self.modes.largest > 1 + 1e-9:
                raise ArithmeticError(
                    "runs that diverge may do so without some of their rows at other rates."
                )
            if not self.modes.is_symmetric:
                curves = [around(lowest, max(highest, 1e-3), last, self.modes.rates)]
            elif self.is_monotone:
                curves = [around(lowest, highest, last)]
            else:
                lowest -= _WIDENED / max(last, 2.0)
                slits = [(lowest, (1 + _WIDENED) * highest), (lowest, max(2.0, highest))]
                curves = [around(*slit, last) for slit in slits]
        except ArithmeticError:
            if rows * self._following(last) > A_SECOND:
                raise
            return None
        return None if self._following(last) < self._integrating(len(curves[0].nodes), epochs) else curves

    def operations(self, rows: int, epochs: FloatArray) -> float:
        """Operations of the residuals of so many rows, after each of the finite epochs (k,)."""
        last = float((epochs * self.applications).max(initial=1.0))
        try:
            curves = self._curves(last, len(epochs), rows)
        except ArithmeticError:
            return rows * self._integrating(_USUAL, len(epochs))
        following = rows * self._following(last)
        return following if curves is None else rows * self._integrating(len(curves[0].nodes), len(epochs))

    def _following(self, last: float) -> float:
        """Operations per row of as many applications one by one."""
        q, others, _ = self.sizes
        return 10.0 * last * len(self.modes.metric) * self.outputs * (q + others + 2)

    def _integrating(self, nodes: int, epochs: int) -> float:
        """Operations per row of an integral."""
        q, others, s = self.sizes
        products = 2 * len(self.modes.metric) * (others + 1 + 2 * self.outputs)
        return nodes * (q * (products + _SOLVED * q) + 4.0 * s * self.outputs * epochs)

    def _height(self, nodes: int, epochs: int) -> int:
        """Rows at a time."""
        q, others, s = self.sizes
        pairs = q * (q + 1) // 2 if self.modes.is_symmetric else q * others
        each: int = pairs * (len(self.modes.metric) + 2 * nodes) + self.outputs * (2 * q * nodes + s * epochs)
        return max(1, _CHUNK // max(each, 1))

    def _responses(self, update: RowUpdate) -> FloatArray:
        """y_i (m, s, t)."""
        return np.asarray(np.einsum("qs,mqt->mst", update.picks, update.alpha))

    def _followed(self, update: RowUpdate, counts: FloatArray) -> FloatArray:
        """Residuals (epochs, m, s, t), one application after the other."""
        responses, right = self._responses(update), update.right * self.modes.metric
        left = np.swapaxes(update.coupling, 1, 2) @ update.entering
        seen = np.einsum("qs,mqd->msd", update.picks, right)
        # z -> A z + g + L C (R'z - alpha), for states as rows (m, t, d).
        gained = self.gains - np.swapaxes(update.alpha, 1, 2) @ left
        states, found = np.zeros_like(gained), np.empty((len(counts), *responses.shape))
        done, across = 0, np.swapaxes(right, 1, 2)
        for place in np.argsort(counts):
            while done < counts[place]:
                states = self.modes.step(states) + gained + states @ across @ left
                done += 1
            found[place] = responses - np.swapaxes(states @ np.swapaxes(seen, 1, 2), 1, 2)
        return np.where(np.isfinite(found), found, np.inf)

    def _integrated(
        self, update: RowUpdate, rules: list[tuple[AnyArray, AnyArray]], tolerance: float
    ) -> FloatArray:
        """Integrals (1 + epochs, m, s, t) along the first curve that has missed no eigenvalue of a left-out run.

        After one application the integral is minus x_i'g_i, which is known without it; what is missed there, as a
        share of the responses, grows with the epochs.
        """
        ones = self.modes.functions(lambda rates: np.ones(rates.shape))
        products, missing = (part[..., 0] for part in self._system(update, ones))
        # R'L C alpha - R'g, where `missing` is alpha - R'g.
        known = np.einsum(
            "qs,mqt->mst", update.picks, products @ update.coupling @ update.alpha + missing - update.alpha
        )
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.abs(known).max(initial=0.0) + np.abs(update.alpha).max(initial=0.0)
        best, found = math.inf, np.zeros(0)
        for resolvent, powers in rules:
            solved = self._solved(update, resolvent)
            flat = solved.reshape(-1, solved.shape[-1])
            with np.errstate(over="ignore", invalid="ignore"):
                sums = 2 * (powers.real @ flat.real.T - powers.imag @ flat.imag.T)
                integrals = sums.reshape(len(powers), *solved.shape[:-1])
                off = float(np.abs(integrals[0] - known).max(initial=0.0))
            share = off / size if math.isfinite(size) and size > 0 else 0.0
            if share < best:
                best, found = share, integrals
            if best <= _AGREES:
                break
        if best > tolerance:
            raise ArithmeticError("the decay rates of left-out runs are not where they were expected.")
        return found

    def _system(self, update: RowUpdate, functions: AnyArray) -> tuple[AnyArray, AnyArray]:
        """G (m, q, l, N) and alpha - v (m, q, t, N)."""
        rows, q, d = update.right.shape
        moved = self.modes.moved(self.gains, functions).reshape(d, -1)
        mapped_inputs = _product(update.right.reshape(-1, d), moved).reshape(rows, q, self.outputs, -1)
        missing = update.alpha[..., np.newaxis] - mapped_inputs
        if update.left is not None:
            pairs = self.modes.products(update.right[:, :, np.newaxis], update.left[:, np.newaxis])
            return _product(pairs.reshape(-1, d), functions).reshape(*pairs.shape[:3], -1), missing
        first, second = np.triu_indices(q)
        pairs = update.right[:, first] * update.right[:, second]
        upper = _product(pairs.reshape(-1, d), functions).reshape(rows, len(first), -1)
        grams = np.empty((rows, q, q, upper.shape[2]), dtype=functions.dtype)
        grams[:, first, second] = upper
        grams[:, second, first] = upper
        return grams, missing

    def _solved(self, update: RowUpdate, functions: AnyArray) -> AnyArray:
        """O'(I - G C)^-1 (alpha - v), (m, s, t, N)."""
        grams, missing = self._system(update, functions)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            if len(update.picks) == 1:
                return missing / (1 - update.coupling[..., np.newaxis] * grams)
            # (m, N, q, q), and the picked rows of the inverse alone, however many outputs there are.
            systems = np.eye(len(update.picks)) - np.moveaxis(grams, 3, 1) @ update.coupling[:, np.newaxis]
            picked = np.linalg.solve(np.swapaxes(systems, -1, -2), update.picks)
            return np.asarray(np.einsum("mnqs,mqtn->mstn", picked, missing))

    def limits(self, rows: IntArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows, some at a time, and their residuals (rows, s, t) in the limit.

        The limit is the integrand at w = 1, o'(I - G C)^-1 (alpha - v). A saturated row is the only one to see some
        direction: both sides of that fraction vanish there, and their derivatives take their places.
        """
        require_resolved(np.abs(self.modes.rates), _APART if self.modes.is_symmetric else _APART_COMPLEX)
        inverse = self.modes.functions(lambda rates: 1 / rates).real
        squared = self.modes.functions(lambda rates: 1 / rates**2).real
        alone = self.alone()
        for update in self.updates(rows, self._height(2, 1)):
            grams, missing = (part[..., 0] for part in self._system(update, inverse))
            systems = np.eye(len(update.picks)) - grams @ update.coupling
            left, sizes, right = np.linalg.svd(systems)
            saturated = alone[update.members]
            share = sizes[:, -1] / np.maximum(sizes[:, 0], 1.0)
            if (share[~saturated] < _OPEN).any() or (share[saturated] > _SATURATED).any():
                raise ArithmeticError("leverages next to one are known too poorly.")
            sizes[saturated, -1] = np.inf
            solved = np.swapaxes(right, 1, 2) @ ((np.swapaxes(left, 1, 2) @ missing) / sizes[..., np.newaxis])
            if saturated.any():
                few = update.of(saturated)
                slopes, falls = (part[..., 0] for part in self._system(few, squared))
                # (I - G C) x = alpha - v to first order in 1 - w, seen from the left null vector.
                across = left[saturated, :, -1][:, np.newaxis]
                turned = across @ slopes @ few.coupling
                null = right[saturated, -1][..., np.newaxis]
                mapped_inputs = across @ (few.alpha - falls)
                solved[saturated] += null * ((mapped_inputs - turned @ solved[saturated]) / (turned @ null))
            found = np.einsum("qs,mqt->mst", update.picks, solved)
            # Its sign is that of the product of the rates without the row: one of them is negative.
            grows = (np.linalg.det(systems) < 0) & ~saturated
            found[grows] = np.inf
            yield update.members, found

    def unmoved(self, update: RowUpdate) -> RowUpdate:
        """The update where rows that alone see a direction leave it unmoved, as they must.

        Updates that are not exact may let it move, a little in every epoch. C is multiplied by the number next to
        one for which I - G C is singular at w = 1, and alpha - v is made orthogonal to its null vector.
        """
        alone = self.alone()[update.members]
        if not alone.any():
            return update
        few = update.of(alone)
        inverse = self.modes.functions(lambda rates: 1 / rates).real
        grams, missing = (part[..., 0] for part in self._system(few, inverse))
        values, vectors = np.linalg.eig(np.swapaxes(grams @ few.coupling, 1, 2))
        nearest = np.argmin(np.abs(values - 1), axis=1)
        null = np.take_along_axis(vectors, nearest[:, np.newaxis, np.newaxis], 2).real
        coupling, alpha = update.coupling.copy(), update.alpha.copy()
        coupling[alone] /= np.take_along_axis(values, nearest[:, np.newaxis], 1).real[..., np.newaxis]
        # The response itself, o'alpha, is known.
        picks = update.picks
        along = null - picks @ (picks.T @ null) / np.square(picks).sum()
        across = np.swapaxes(null, 1, 2)
        turned = across @ along
        # With a single row of R' there is nothing to turn.
        alpha[alone] -= along * (across @ missing) / np.where(turned == 0, 1.0, turned)
        return replace(update, coupling=coupling, alpha=alpha)


def _product(real: FloatArray, other: AnyArray) -> AnyArray:
    """A real matrix times one that may be complex, as one product of real ones."""
    if not np.iscomplexobj(other):
        return real @ other
    parts = real @ np.hstack([other.real, other.imag])
    half = other.shape[1]
    return np.asarray(parts[:, :half] + 1j * parts[:, half:])
