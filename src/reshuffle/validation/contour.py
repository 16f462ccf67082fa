"""Low-rank updates of an epoch map, repeated any number of times: Woodbury's formula inside Cauchy's.

Without row i the map z -> A z + g of an epoch becomes A_i = A + L C R', g_i = g - L C alpha (`RowUpdate`). With
G = R'(w - A)^-1 L, v = R'(w - A)^-1 g and x_i = R o its residual y_i - x_i'z after k epochs from zero is

    e_i(k) = y_i + (1 / 2 pi i) contour of (1 - w^k) / (1 - w) o'(I - G C)^-1 (alpha - v) dw,

along any closed curve around the eigenvalues of A_i. Those of symmetric maps lie in a slit of the real axis, and
w^k is of ordinary size in the disc of radius 1 + 1/k. Between the two an elliptic sine is the best of all curves:
the trapezoidal rule with N nodes is off by exp(-pi N K' / (8 K)), where the complete elliptic integrals K and K'
grow with the logarithm of k alone. The first few epochs are followed one by one, in the eigenvectors of A.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg
import scipy.special

from reshuffle._arrays import AnyArray, BoolArray, FloatArray, IntArray
from reshuffle._budget import A_SECOND, CALL, require_memory
from reshuffle._progress import track

_DIGITS = 31.0
"""The trapezoidal rule is taken so fine that it is off by exp of minus this."""
_FEWEST, _USUAL = 8, 150
"""Nodes of a curve at least, and for many epochs about."""
FARTHEST = 4e9
"""Epochs in which rounding of the decay rates adds up to a millionth."""
_APART, _APART_COMPLEX = 1e-11, 1e-8
"""Ratio of decay rates below which small ones, and what enters them, are known poorly."""
_GAP = 1e4
"""Ratio of successive decay rates from which on the smaller ones are computed apart."""
_NARROW = 0.02
"""Width left for the curve, relative to that around an empty slit, below which nodes would be too many."""
_WORST_BASIS = 1e5
"""Condition number of eigenvectors beyond which they are no coordinates."""
CHUNK = 1 << 22
"""Numbers that are worked on at a time."""
_SOLVED = 700.0
"""Operations per entry of the system of a row and node: of small systems in stacks it is memory that takes time.
Measured: 470 to 1600 for systems of 4 to 10, 330 to 540 for a single one."""
_WIDENED = 0.02
"""Relative extension of the slit beyond the decay rates of all rows: leaving one out may add to the largest."""
_SATURATED, _OPEN = 1e-8, 1e-6
"""Rest of a row's leverage at most where it alone sees some direction, and at least where it does not."""
_AGREES, _ROUNDED, _TRUSTED = 1e-11, 1e-15, 1e-6
"""Relative error allowed in the residuals after one epoch: at least, per epoch, and at most."""


@dataclass(frozen=True, eq=False)
class RateContour:
    """Nodes 1 - w (N,) and weights dw / (2 pi i) in the upper half plane: integrals are twice the real part."""

    nodes: AnyArray
    weights: AnyArray

    def powers(self, epochs: FloatArray) -> AnyArray:
        """(1 - w^k) / (1 - w), the sum of k powers, times the weights (epochs, N)."""
        with np.errstate(over="ignore", invalid="ignore"):
            rest = -np.expm1(np.multiply.outer(epochs, np.log1p(-self.nodes)))
            return np.asarray(rest / self.nodes * self.weights)


def around(lowest: float, highest: float, last: float, beside: AnyArray | None = None) -> RateContour:
    """Curve around decay rates between `lowest` and `highest`, for powers up to `last`.

    Rates beyond 2 belong to runs that diverge: the disc grows with the largest |1 - rate|. Complex ones, off
    the slit, are in `beside`: then the curve is half-way between the farthest of them and the disc.

    >>> contour = around(0.0, 1.2, 1000.0)
    >>> sums = (contour.powers(np.array([1.0, 10.0, 1000.0])) / (0.3 - contour.nodes)).sum(axis=1)
    >>> np.allclose(2 * sums.real, (1 - 0.7 ** np.array([1, 10, 1000])) / 0.3)
    True
    """
    # Real ones are in the slit itself, where the integral has a branch cut.
    beside = np.zeros(0, dtype=complex) if beside is None else beside[beside.imag != 0]
    grown = max(1.0, abs(1 - lowest), abs(1 - highest), float(np.abs(1 - beside).max(initial=0.0)))
    # The disc ends 1/k of its radius beyond the slit, and farther for the first few powers.
    radius = grown * (1 + 1 / max(last, 2.0))
    # artanh(place / radius), where both are near each other.
    low, high = (0.5 * math.log((radius + 1 - rate) / (radius - 1 + rate)) for rate in (highest, lowest))
    centre, half = math.tanh((low + high) / 2), max((high - low) / 2, 1e-3)
    slit = math.tanh(half)
    parameter = slit**4
    quarter, other = float(scipy.special.ellipk(parameter)), float(scipy.special.ellipkm1(parameter))
    # Heights of the complex rates above the slit, by Carlson's form of the inverse elliptic sine.
    place = (1 - beside) / radius
    sines = (place - centre) / (1 - centre * place) / slit
    heights = (sines * scipy.special.elliprf(1 - sines**2, 1 - parameter * sines**2, 1.0)).imag
    far = float(np.abs(heights).max(initial=0.0))
    width = (other / 2 - far) / 2
    if width < _NARROW * other:
        raise ArithmeticError("some decay rates are too near to those of runs that diverge.")
    count = max(_FEWEST, math.ceil(_DIGITS * quarter / (math.pi * width)))
    along = quarter * (2 * (np.arange(count) + 0.5) / count - 1)
    # The elliptic sine, cosine and delta amplitude at along + i (far + width); the slope is that of the sine.
    s, c, d, _ = scipy.special.ellipj(along, parameter)
    s1, c1, d1, _ = scipy.special.ellipj(far + width, 1 - parameter)
    size = c1**2 + parameter * s**2 * s1**2
    sine = (s * d1 + 1j * c * d * s1 * c1) / size
    slope = (c * c1 - 1j * s * d * s1 * d1) * (d * c1 * d1 - 1j * parameter * s * c * s1) / size**2
    mapped, moved = slit * sine, 1 + centre * slit * sine
    distance = 2 / (math.exp(low + high) + 1)
    nodes = 1 - radius + radius * distance * (1 - mapped) / moved
    derivative = radius * (1 - centre**2) / moved**2 * slit * slope
    # Along the upper half from left to right is clockwise.
    return RateContour(nodes, -derivative * (2 * quarter / count) / (2j * math.pi))


def require_resolved(sizes: FloatArray, apart: float = _APART) -> None:
    """Refuse decay rates so far apart that the small ones, and what enters them, are known poorly."""
    if sizes.min(initial=np.inf) < apart * sizes.max(initial=0.0):
        raise ArithmeticError("decay rates are too far apart for their modes to be separated.")


def _eigenvectors(loss: FloatArray) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Eigenvalues (d,), right eigenvectors (d, d) and left ones (d, d), as rows, of D = I - A, complex.

    D is S K S with a diagonal S that holds all that is small, such as the step. Eigenvalues are rounded relative
    to the largest: where a gap separates slow modes, they are taken from S^-1 K^-1 S^-1, where they are largest.
    """
    values, vectors = scipy.linalg.eig(loss, check_finite=False)
    order = np.argsort(np.abs(values))
    sizes, scale = np.abs(values[order]), np.sqrt(np.abs(np.diag(loss)))
    gaps = sizes[1:] - _GAP * sizes[:-1]
    if not ((gaps > 0).any() and sizes[0] > 0 and scale.min() > 0):
        return values.astype(complex), vectors.astype(complex), _inverse(vectors).astype(complex)
    slow = int(np.argmax(sizes[1:] / sizes[:-1])) + 1
    across = np.multiply.outer(scale, scale)
    inverse: Any = np.linalg.inv(loss / across) / across
    backwards, left_back, right_back = scipy.linalg.eig(inverse, left=True, right=True, check_finite=False)
    few, many = np.argsort(-np.abs(backwards))[:slow], order[slow:]
    right = np.hstack([right_back[:, few], vectors[:, many]]).astype(complex)
    left = _inverse(right)
    # What fast modes hold of slow ones by rounding would be all that is left of the slow ones.
    left[:slow] = np.linalg.solve(left_back[:, few].conj().T @ right[:, :slow], left_back[:, few].conj().T)
    return np.append(1 / backwards[few], values[many]).astype(complex), right, left


def _inverse(vectors: AnyArray) -> AnyArray:
    """The inverse (d, d); refused where eigenvectors are so nearly parallel that they are no coordinates."""
    if not np.linalg.cond(vectors) < _WORST_BASIS:
        raise ArithmeticError("the eigenvectors of the mean map are no coordinates.")
    return np.asarray(np.linalg.inv(vectors))


class Eigenvectors:
    """Decay rates (k,) and eigenvectors of an epoch map A = I - D; one of each conjugate pair.

    ArithmeticError where the eigenvectors of another map are no coordinates.
    """

    def __init__(self, loss: FloatArray, *, is_symmetric: bool):
        self.is_symmetric = is_symmetric
        if is_symmetric:
            self.rates, self.right = scipy.linalg.eigh((loss + loss.T) / 2, driver="evd", check_finite=False)
            self.left: AnyArray = self.right.T
            self.is_pair = np.zeros(len(loss), dtype=bool)
            return
        if not np.isfinite(loss).all():
            raise ArithmeticError("the mean map is beyond the range of numbers.")
        # Vectors are real where all values are.
        values, right, left = _eigenvectors(loss)
        upper = values.imag >= 0
        self.rates, self.right, self.left = values[upper], right[:, upper], left[upper]
        self.is_pair = self.rates.imag > 0

    @property
    def largest(self) -> float:
        """The largest |1 - rate|."""
        return float(np.abs(1 - self.rates).max(initial=0.0))


@dataclass(frozen=True, eq=False)
class RowUpdate:
    """A_i = A + L C R' and g_i = g - L C alpha of m rows, or groups of rows, in the eigenvectors of A.

    L' is None where it is R', since A is symmetric; alpha are the residuals of a row where it is visited.
    """

    members: IntArray  # (m,)
    right: AnyArray  # R' (m, q, d)
    left: AnyArray | None  # L' (m, l, d)
    coupling: FloatArray  # C (m, l, q)
    alpha: FloatArray  # (m, q, t)

    @property
    def entering(self) -> AnyArray:
        """(L C)' (m, q, d)."""
        return product(self.coupling.swapaxes(1, 2), self.right if self.left is None else self.left)

    def of(self, chosen: BoolArray) -> "RowUpdate":
        """The updates of some of the rows."""
        left = None if self.left is None else self.left[chosen]
        parts = (part[chosen] for part in (self.coupling, self.alpha))
        return RowUpdate(self.members[chosen], self.right[chosen], left, *parts)


Seen: TypeAlias = tuple[AnyArray, AnyArray | None, FloatArray]
"""R', L' and alpha of some rows."""


@dataclass(frozen=True, eq=False)
class LeftOutRows:
    """Mean map of an epoch, and its update for every row: their residuals where they are left out."""

    modes: Eigenvectors
    gains: AnyArray  # (k, t): g, in the eigenvectors
    views: Callable[[int, IntArray], Seen]  # of some of the rows of a group
    groups: IntArray  # (n,): that of each row
    coupling: FloatArray  # (l, q): C
    factors: FloatArray  # (n,): of C, for each row
    picks: FloatArray  # (q, s): o, with x_i = R o, of s rows that are left out together
    readout: AnyArray  # (r, k): of the parameters
    alone: Callable[[], BoolArray]  # (n,): rows that alone see some direction
    is_exact: bool = True  # updates leave that direction unmoved
    applications: int = 1  # of the map per epoch
    is_monotone: bool = False  # decay rates of left-out runs are between zero and the largest of all rows

    def answers(
        self, rows: IntArray, epochs: FloatArray, converges: bool, *, changes: bool = False
    ) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows, some at a time, and y_i - x_i'z_i (epochs, rows, s, t) after ascending epochs (k,).

        With `changes` z_i - z in its place, (epochs, rows, r, t), for the parameters z of the run. In the limit
        they are infinite unless the run converges.
        """
        finite = epochs[np.isfinite(epochs)]
        counts, ends = finite * self.applications, len(epochs) - len(finite)
        last = float(counts.max(initial=1.0))
        curves, _ = self._curves(last, len(finite), len(rows))
        nodes = len(curves[-1].nodes) if curves else 1
        rules = [(curve.nodes, curve.powers(np.concatenate([[1.0], counts]))) for curve in curves]
        outputs = self.gains.shape[1]
        needed = 96.0 * len(self.picks) * outputs * nodes
        require_memory(
            needed, f"a row of leave_one_out with {outputs} outputs", "fewer columns of y at a time"
        )
        tolerance = min(max(_AGREES, _ROUNDED * last), _TRUSTED)
        if ends and converges:
            require_resolved(np.abs(self.modes.rates), _APART if self.modes.is_symmetric else _APART_COMPLEX)
        for update in self._updates(rows, nodes, len(epochs), changes):
            shape = (len(update.members), len(self.readout) if changes else self.picks.shape[1], outputs)
            found = np.full((len(epochs), *shape), np.inf)
            if curves:
                found[: len(finite)] = self._integrated(update, rules, tolerance, changes)
            else:
                found[: len(finite)] = self._followed(update, counts, changes)
            if ends and converges:
                found[len(finite) :] = self._limits(update, changes)
            yield update.members, np.where(np.isfinite(found), found, np.inf)

    def _updates(self, rows: IntArray, nodes: int, epochs: int, changes: bool) -> Iterator[RowUpdate]:
        """Updates of the rows, as many at a time as memory allows for."""
        (q, s), d, t = self.picks.shape, len(self.modes.right), self.gains.shape[1]
        pairs = q * (q + 1) // 2 if self.modes.is_symmetric else q * len(self.coupling)
        each: int = pairs * (d + 2 * nodes) + t * (2 * q * nodes + s * epochs)
        each += 4 * t * d * (1 + epochs) * len(self.coupling) if changes else 0
        height = max(1, CHUNK // max(each, 1))
        for group in np.unique(self.groups[rows]):
            mine = rows[self.groups[rows] == group]
            starts = range(0, len(mine), height)
            for start in track(starts, len(starts), "leaving out rows, part"):
                members = mine[start : start + height]
                right, left, alpha = self.views(group, members)
                coupling = self.factors[members, np.newaxis, np.newaxis] * self.coupling
                update = RowUpdate(members, right, left, coupling, alpha)
                yield update if self.is_exact else self._unmoved(update)

    def _parameters(self, modes: AnyArray) -> FloatArray:
        """Parameters (..., r, t) of states (..., k, t) in the eigenvectors: conjugates add twice the real part."""
        return np.asarray(((1 + self.modes.is_pair) * self.readout @ modes).real)

    def _picked(self, values: FloatArray) -> FloatArray:
        """o'V (m, s, t) of V (m, q, t): of alpha, the responses."""
        return np.asarray(np.einsum("qs,mqt->mst", self.picks, values))

    def _curves(self, last: float, epochs: int, rows: int) -> tuple[list[RateContour], float]:
        """Curves around the decay rates of all left-out runs, as a rule and at most, and operations per row.

        No curves where the first few epochs are better followed one by one, or runs diverge.
        """
        others = len(self.picks) + len(self.coupling) + 2
        following = 10.0 * last * len(self.modes.right) * self.gains.shape[1] * others
        real = self.modes.rates.real
        # Nothing is known of a row's own direction once it is left out: its rate may be zero.
        lowest, highest = min(float(real.min(initial=0.0)), 0.0), float(real.max(initial=0.0))
        try:
            if last > FARTHEST:
                raise ArithmeticError("rounding of the decay rates of slow modes adds up in so many epochs.")
            if self.modes.largest > 1 + 1e-9:
                raise ArithmeticError(
                    "runs that diverge may do so at other rates without some of their rows."
                )
            if not self.modes.is_symmetric:
                curves = [around(lowest, max(highest, 1e-3), last, self.modes.rates)]
            elif self.is_monotone:
                curves = [around(lowest, highest, last)]
            else:
                lowest -= _WIDENED / max(last, 2.0)
                curves = [around(lowest, top, last) for top in ((1 + _WIDENED) * highest, max(2.0, highest))]
        except ArithmeticError:
            if rows * following + last * CALL > A_SECOND:
                raise
            return [], following
        integrating = len(curves[0].nodes) * self._per_node(epochs)
        return ([], following) if following < integrating else (curves, integrating)

    def operations(self, rows: int, epochs: FloatArray) -> float:
        """Operations of the residuals of so many rows, after each of the finite epochs (k,)."""
        last = float((epochs * self.applications).max(initial=1.0))
        try:
            return rows * self._curves(last, len(epochs), rows)[1]
        except ArithmeticError:
            return rows * _USUAL * self._per_node(len(epochs))

    def _per_node(self, epochs: int) -> float:
        """Operations of a row at a node."""
        (q, s), (d, _), t = self.picks.shape, self.modes.right.shape, self.gains.shape[1]
        others = len(self.coupling)
        return float(q * (2 * d * (others + 1 + 2 * t) + _SOLVED * q) + 4.0 * s * t * epochs)

    def _followed(self, update: RowUpdate, counts: FloatArray, changes: bool) -> FloatArray:
        """Residuals (epochs, m, s, t), or changes, one application after the other."""
        responses = self._picked(update.alpha)
        left = update.entering
        # A mode and its conjugate add up to twice the real part.
        right = (1 + self.modes.is_pair) * update.right
        seen = np.einsum("qs,mqd->mds", self.picks, right)
        # z -> A z + g + L C (R'z - alpha), for states as rows (m, t, d).
        gained = self.gains.T - product(update.alpha.swapaxes(1, 2), left)
        states, alone = np.zeros_like(gained), np.zeros_like(self.gains.T)
        size = len(self.readout) if changes else responses.shape[1]
        found = np.empty((len(counts), len(responses), size, responses.shape[2]))
        done, across, kept = 0, right.swapaxes(1, 2), 1 - self.modes.rates
        for place, count in enumerate(counts):
            while done < count:
                states = kept * states + gained + product((states @ across).real, left)
                alone = kept * alone + self.gains.T
                done += 1
            if changes:
                found[place] = self._parameters((states - alone).swapaxes(1, 2))
            else:
                found[place] = responses - (states @ seen).swapaxes(1, 2).real
        return found

    def _integrated(
        self, update: RowUpdate, rules: list[tuple[AnyArray, AnyArray]], tolerance: float, changes: bool
    ) -> FloatArray:
        """Residuals (epochs, m, s, t), or changes, along the first curve around all eigenvalues of left-out runs.

        After one application the integral is minus x_i'g_i, or g_i - g, which is known without it; what is missed
        there, as a share of the responses, grows with the epochs.
        """
        if changes:
            known: AnyArray = -(update.entering.swapaxes(1, 2) @ update.alpha)
        else:
            products, missing = self._system(update, np.ones_like)
            # R'L C alpha - R'g, where `missing` is alpha - R'g.
            gained = products[..., 0] @ update.coupling @ update.alpha + missing[..., 0] - update.alpha
            known = self._picked(gained.real)
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.abs(known).max(initial=0.0)
            size += 0.0 if changes else np.abs(update.alpha).max(initial=0.0)
        best, found = math.inf, np.zeros(0)
        for nodes, powers in rules:
            with np.errstate(over="ignore", invalid="ignore"):
                integrals = (self._changed if changes else self._summed)(update, nodes, powers)
                off = float(np.abs(integrals[0] - known).max(initial=0.0))
            share = off / size if math.isfinite(size) and size > 0 else 0.0
            if share < best:
                best, found = share, integrals
            if best <= _AGREES:
                break
        if best > tolerance:
            raise ArithmeticError("the decay rates of left-out runs are not where they were expected.")
        with np.errstate(over="ignore", invalid="ignore"):
            if changes:
                return self._parameters(found[1:])
            return np.asarray(self._picked(update.alpha) + found[1:])

    def _summed(self, update: RowUpdate, nodes: AnyArray, powers: AnyArray) -> FloatArray:
        """Integrals (epochs, m, s, t) of o'(I - G C)^-1 (alpha - v)."""
        if len(self.picks) == 1 and self.modes.is_symmetric and len(powers) < self.gains.shape[1]:
            return self._summed_by_mode(update, nodes, powers)
        solved = self._solved(update, nodes, self.picks)
        flat = solved.reshape(-1, len(nodes))
        sums = 2 * (powers.real @ flat.real.T - powers.imag @ flat.imag.T)
        return np.asarray(sums.reshape(len(powers), *solved.shape[:3]))

    def _summed_by_mode(self, update: RowUpdate, nodes: AnyArray, powers: AnyArray) -> FloatArray:
        """The integrals where there are fewer epochs than outputs: first over the nodes, then over the modes.

        With f = (1 - G C)^-1 they are alpha times the integral of f, less R' diag(integrals of f / (w - a)) g.
        """
        right, alpha, outputs = update.right[:, 0], update.alpha[:, 0], self.gains.shape[1]
        found = np.empty((len(powers), len(right), 1, outputs))
        poles = 1 / (self.modes.rates - nodes[:, np.newaxis])
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            factors = _parts(1 / (1 - update.coupling[:, 0] * product(np.square(right), poles.T)))
            for place, power in enumerate(powers):
                # The real part of a product of complex numbers, by parts in turns.
                weights = 2 * np.column_stack([power, power[:, np.newaxis] * poles]).conj()
                sums = factors @ np.stack([weights.real, weights.imag], axis=1).reshape(2 * len(nodes), -1)
                found[place, :, 0] = sums[:, :1] * alpha - (right * sums[:, 1:]) @ self.gains
        return found

    def _changed(self, update: RowUpdate, nodes: AnyArray, powers: AnyArray) -> AnyArray:
        """Integrals (epochs, m, k, t) of -(w - A)^-1 L C (I - G C)^-1 (alpha - v), in the eigenvectors."""
        q, rates = len(self.picks), self.modes.rates
        solved = np.einsum("mlq,mqtn->mltn", update.coupling, self._solved(update, nodes, np.eye(q)))
        flat = solved.reshape(-1, len(nodes))

        def summed(rates: AnyArray) -> AnyArray:
            weights = powers[:, np.newaxis] / (rates[:, np.newaxis] - nodes)
            sums = flat @ weights.reshape(-1, len(nodes)).T
            return np.asarray(sums.reshape(*solved.shape[:3], len(powers), len(rates)))

        # The other half of the curve has the conjugates of all but the rates.
        one = summed(rates)
        both = one + summed(rates.conj()).conj() if np.iscomplexobj(rates) else 2 * one.real
        left = update.right if update.left is None else update.left
        return np.asarray(-np.einsum("mlk,mltek->emkt", left, both))

    def _system(
        self, update: RowUpdate, function: Callable[[AnyArray], AnyArray]
    ) -> tuple[AnyArray, AnyArray]:
        """G (m, q, l, N) and alpha - v (m, q, t, N), for a function of the decay rates (k, 1) -> (k, N)."""
        rows, q, k = update.right.shape
        rates, pair = self.modes.rates[:, np.newaxis], self.modes.is_pair[:, np.newaxis]
        values = function(rates)
        moved = self.gains[..., np.newaxis] * values[:, np.newaxis]
        if not self.modes.is_symmetric:
            others = pair * function(rates.conj())
            moved = _with_conjugates(moved, self.gains.conj()[..., np.newaxis] * others[:, np.newaxis])
            values = _with_conjugates(values, others)
        mapped_inputs = product(_parts(update.right).reshape(rows * q, -1), moved.reshape(len(moved), -1))
        missing = update.alpha[..., np.newaxis] - mapped_inputs.reshape(rows, q, self.gains.shape[1], -1)
        if update.left is not None:
            pairs = update.right[:, :, np.newaxis] * update.left[:, np.newaxis]
            return product(_parts(pairs).reshape(-1, len(values)), values).reshape(
                *pairs.shape[:3], -1
            ), missing
        first, second = np.triu_indices(q)
        pairs = update.right[:, first] * update.right[:, second]
        upper = product(pairs.reshape(-1, k), values).reshape(rows, len(first), -1)
        grams = np.empty((rows, q, q, upper.shape[2]), dtype=values.dtype)
        grams[:, first, second] = upper
        grams[:, second, first] = upper
        return grams, missing

    def _solved(self, update: RowUpdate, nodes: AnyArray, picks: FloatArray) -> AnyArray:
        """O'(I - G C)^-1 (alpha - v), (m, s, t, N), for O (q, s)."""
        grams, missing = self._system(update, lambda rates: 1 / (rates - nodes))
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            if len(picks) == 1:
                return missing / (1 - update.coupling[..., np.newaxis] * grams)
            # (m, N, q, q), and the picked rows of the inverse alone, however many outputs there are.
            systems = np.eye(len(picks)) - np.moveaxis(grams, 3, 1) @ update.coupling[:, np.newaxis]
            picked = np.linalg.solve(np.swapaxes(systems, -1, -2), picks)
            return np.asarray(np.einsum("mnqs,mqtn->mstn", picked, missing))

    def _system_at_one(self, update: RowUpdate, power: int) -> tuple[FloatArray, FloatArray]:
        """G (m, q, l) and alpha - v (m, q, t) with (I - A)^-power in place of (w - A)^-1."""
        grams, missing = self._system(update, lambda rates: 1 / rates**power)
        return grams[..., 0].real, missing[..., 0].real

    def _limits(self, update: RowUpdate, changes: bool) -> FloatArray:
        """Residuals (m, s, t), or changes, in the limit: the integrand at w = 1, o'(I - G C)^-1 (alpha - v).

        A saturated row is the only one to see some direction: both sides of that fraction vanish there, and their
        derivatives take their places.
        """
        grams, missing = self._system_at_one(update, 1)
        systems = np.eye(len(self.picks)) - grams @ update.coupling
        left, sizes, right = np.linalg.svd(systems)
        saturated = self.alone()[update.members]
        share = sizes[:, -1] / np.maximum(sizes[:, 0], 1.0)
        if (share[~saturated] < _OPEN).any() or (share[saturated] > _SATURATED).any():
            raise ArithmeticError("leverages next to one are known too poorly.")
        sizes[saturated, -1] = np.inf
        solved = right.swapaxes(1, 2) @ ((left.swapaxes(1, 2) @ missing) / sizes[..., np.newaxis])
        if saturated.any():
            few = update.of(saturated)
            slopes, falls = self._system_at_one(few, 2)
            # (I - G C) x = alpha - v to first order in 1 - w, seen from the left null vector.
            across = left[saturated, :, -1][:, np.newaxis]
            turned = across @ slopes @ few.coupling
            null = right[saturated, -1][..., np.newaxis]
            mapped_inputs = across @ (few.alpha - falls)
            solved[saturated] += null * ((mapped_inputs - turned @ solved[saturated]) / (turned @ null))
        if changes:
            moved = update.entering.swapaxes(1, 2) @ solved
            found = -self._parameters(moved / self.modes.rates[:, np.newaxis])
        else:
            found = self._picked(solved)
        # The sign of the determinant is that of the product of the rates without the row: one of them is negative.
        found[(np.linalg.det(systems) < 0) & ~saturated] = np.inf
        return found

    def _unmoved(self, update: RowUpdate) -> RowUpdate:
        """The update where rows that alone see a direction leave it unmoved, as they must.

        Updates that are not exact may let it move, a little in every epoch. C is multiplied by the number next to
        one for which I - G C is singular at w = 1, and alpha - v is made orthogonal to its null vector.
        """
        alone = self.alone()[update.members]
        if not alone.any():
            return update
        few, picks = update.of(alone), self.picks
        grams, missing = self._system_at_one(few, 1)
        values, vectors = np.linalg.eig(np.swapaxes(grams @ few.coupling, 1, 2))
        nearest = np.argmin(np.abs(values - 1), axis=1)
        null = np.take_along_axis(vectors, nearest[:, np.newaxis, np.newaxis], 2).real
        coupling, alpha = update.coupling.copy(), update.alpha.copy()
        coupling[alone] /= np.take_along_axis(values, nearest[:, np.newaxis], 1).real[..., np.newaxis]
        # The response itself, o'alpha, is known.
        along = null - picks @ (picks.T @ null) / np.square(picks).sum()
        across = null.swapaxes(1, 2)
        turned = across @ along
        # With a single row of R' there is nothing to turn.
        alpha[alone] -= along * (across @ missing) / np.where(turned == 0, 1.0, turned)
        return replace(update, coupling=coupling, alpha=alpha)


def product(first: FloatArray, other: AnyArray) -> AnyArray:
    """First @ other of a real and another matrix, or stacks of them, by real products alone."""
    if not np.iscomplexobj(other):
        return np.asarray(first @ other)
    return np.ascontiguousarray(first @ _parts(other)).view(complex)


def _parts(numbers: AnyArray) -> FloatArray:
    """Real and imaginary parts (..., 2k) of complex numbers (..., k), in turns; real numbers as they are."""
    return np.ascontiguousarray(numbers).view(float)


def _with_conjugates(one: AnyArray, other: AnyArray) -> AnyArray:
    """Matrix (2k, ...) for z' one + conj(z)' other as `_parts` of z times it, for matrices (k, ...)."""
    return np.stack([one + other, 1j * (one - other)], axis=1).reshape(2 * len(one), *one.shape[1:])
