"""What leaving out the gradient of a single row changes in the mean map of an epoch, and what that does in the end.

Without row i the mean map A and the pull g of one application become

    A_i = A + L C R',   g_i = g - L C alpha,

of low rank: the rows of R' are how row i looks at the parameters through what comes before its visit, those of L'
what becomes of its gradient in what comes after, and alpha what it has to say there. L is R in another order, since
the mean map of reversible orders is symmetric. With G = R'(w - A)^-1 R and v = R'(w - A)^-1 g the
residual y_i - x_i'b_i after k applications is

    e_i(k) = y_i + integral of (1 - w^k) / (1 - w) o'(I - G C)^-1 (alpha - v) dw / (2 pi i),

where o picks the look with nothing before it, x_i = R o (Woodbury's formula inside Cauchy's).
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from reshuffle._arrays import AnyArray, BoolArray, FloatArray, IntArray
from reshuffle.epoch.averaging.lattice import available_bytes
from reshuffle.errors import BudgetError
from reshuffle.validation import contour
from reshuffle.validation.looks import Looks

_CHUNK = 1 << 22
"""Numbers that are worked on at a time."""
_SOLVED = 700.0
"""Operations per entry of the system of a row and node: of small systems in stacks it is memory that takes time.
Measured: 470 to 1600 for 4 to 10 looks, 330 to 540 for a single one."""
_WIDENED = 0.02
"""By how much the slit is longer than the paces of all rows: leaving one out may add to the largest."""
SATURATED, OPEN = 1e-8, 1e-6
"""What is left of a row's leverage at most where it alone sees some direction, and at least where it does not."""
_AGREES, _ROUNDED, _TRUSTED = 1e-11, 1e-15, 1e-6
"""Shares by which residuals after one application may be off: at first, more per epoch, and at all."""


def standing_still(looks: Looks, alone: BoolArray, paces: FloatArray, pull: FloatArray) -> Looks:
    """The looks of rows of which some alone see a direction: without such a row nothing moves there.

    Looks that are not exact may let it move, a little in every epoch. C is multiplied by the number next to one for
    which I - G C is singular at w = 1, as it must be, and alpha - v is put at right angles to its null vector.
    """
    if not alone.any():
        return looks
    few = looks.of(alone)
    grams, missing = (part[..., 0] for part in _grams_and_missing(few, 1 / paces[:, np.newaxis], pull))
    values, vectors = np.linalg.eig(np.swapaxes(grams @ few.coupling, 1, 2))
    nearest = np.argmin(np.abs(values - 1), axis=1)
    null = np.take_along_axis(vectors, nearest[:, np.newaxis, np.newaxis], 2).real
    coupling = looks.coupling.copy()
    coupling[alone] /= np.take_along_axis(values, nearest[:, np.newaxis], 1).real[..., np.newaxis]
    # The response itself, o'alpha, is known.
    along = (
        null - looks.picks[:, np.newaxis] * (looks.picks @ null)[:, np.newaxis] / np.square(looks.picks).sum()
    )
    across = np.swapaxes(null, 1, 2)
    alpha = looks.alpha.copy()
    turned = across @ along
    # With a single look there is nothing to turn.
    alpha[alone] -= along * (across @ missing) / np.where(turned == 0, 1.0, turned)
    return Looks(looks.members, looks.right, alpha, coupling, looks.picks)


@dataclass(frozen=True, eq=False)
class LeftOutRows:
    """The mean map of one application in its modes, and how rows look at it.

    Attributes
    ----------
    paces : (r,)
        What one application takes of each mode.
    pull : (r, t)
        What it adds to each mode, per output.
    looks : callable
        (rows, most at a time) -> their `Looks`, chunk by chunk.
    rank : int
        q.
    applications : int
        Per epoch.
    is_monotone : bool
        Whether the paces of left-out runs are between zero and the largest of all rows.
    alone : callable
        () -> which of all rows alone see some direction.
    unit : float
        In which alpha is measured.
    """

    paces: FloatArray
    pull: FloatArray
    looks: Callable[[IntArray, int], Iterator[Looks]]
    rank: int
    applications: int
    is_monotone: bool
    alone: Callable[[], BoolArray]
    unit: float = 1.0

    def residuals(self, rows: IntArray, epochs: FloatArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows, some at a time, and y_i - x_i'b_i (epochs, rows, t) after each of the finite epochs (k,)."""
        counts = epochs * self.applications
        contour.require_within_reach(self.paces, counts)
        rules = [_Rule(self.paces, slit, counts) for slit in self._slits(float(counts.max(initial=1.0)))]
        self._require_room(rules[-1].nodes)
        tolerance = min(max(_AGREES, _ROUNDED * float(counts.max(initial=1.0))), _TRUSTED)
        for looks in self.looks(rows, self._height(rules[-1].nodes, len(epochs))):
            integrals = self._integrated(looks, rules, tolerance)
            with np.errstate(over="ignore", invalid="ignore"):
                found = np.einsum("q,mqt->mt", looks.picks, looks.alpha) + integrals[1:]
            yield looks.members, np.where(np.isfinite(found), self.unit * found, np.inf)

    def operations(self, rows: int, epochs: FloatArray) -> float:
        """About what the residuals of so many rows cost, after each of the finite epochs (k,)."""
        counts = epochs * self.applications
        slit = self._slits(float(counts.max(initial=1.0)))[0]
        nodes = len(contour.around(*slit, float(counts.max(initial=1.0))).nodes)
        products = 2 * len(self.paces) * (self.rank + 1 + 2 * self.outputs)
        sums = 4 * self.outputs * len(epochs)
        return float(rows * nodes * (self.rank * (products + _SOLVED * self.rank) + sums))

    @property
    def outputs(self) -> int:
        """How many responses a row has."""
        return int(self.pull.shape[1])

    def limits(self, rows: IntArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows, some at a time, and their residuals (rows, t) in the limit.

        The limit is the integrand at w = 1, o'(I - G C)^-1 (alpha - v). A saturated row is the only one to see some
        direction: both sides of that fraction vanish there, and their derivatives take their places.
        """
        contour.require_paces(self.paces)
        inverse, alone = 1 / self.paces[:, np.newaxis], self.alone()
        for looks in self.looks(rows, self._height(2, 1)):
            grams, missing = (part[..., 0] for part in _grams_and_missing(looks, inverse, self.pull))
            systems = np.eye(self.rank) - grams @ looks.coupling
            left, sizes, right = np.linalg.svd(systems)
            saturated = alone[looks.members]
            _require_told_apart(sizes[:, -1] / np.maximum(sizes[:, 0], 1.0), saturated)
            sizes[saturated, -1] = np.inf
            solved = np.swapaxes(right, 1, 2) @ ((np.swapaxes(left, 1, 2) @ missing) / sizes[..., np.newaxis])
            if saturated.any():
                few = looks.of(saturated)
                slopes, falls = _grams_and_missing(few, inverse**2, self.pull)
                # (I - G C) x = alpha - v to first order in 1 - w, seen from the left null vector.
                seen = left[saturated, :, -1][:, np.newaxis]
                turned = seen @ slopes[..., 0] @ few.coupling
                null = right[saturated, -1][..., np.newaxis]
                pulled = seen @ (few.alpha - falls[..., 0])
                solved[saturated] += null * ((pulled - turned @ solved[saturated]) / (turned @ null))
            found = self.unit * np.einsum("q,mqt->mt", looks.picks, solved)
            # Its sign is that of the product of the paces without the row: one of them is negative.
            grows = (np.linalg.det(systems) < 0) & ~saturated
            found[grows] = np.inf
            yield looks.members, found

    def put_off(self, share: float) -> "LeftOutRows":
        """The same, where what each row does is off by a share."""

        def looks(members: IntArray, height: int) -> Iterator[Looks]:
            for seen in self.looks(members, height):
                yield replace(seen, coupling=(1 + share) * seen.coupling)

        return replace(self, looks=looks)

    def _slits(self, last: float) -> list[tuple[float, float]]:
        """Where the paces of all left-out runs are: as a rule, and at most."""
        # Nothing is known of a row's own direction once it is left out: its pace may be zero.
        lowest, highest = min(float(self.paces.min(initial=0.0)), 0.0), float(self.paces.max(initial=0.0))
        if self.is_monotone:
            return [(lowest, highest)]
        lowest -= _WIDENED / max(last, 2.0)
        return [(lowest, (1 + _WIDENED) * highest), (lowest, max(2.0, highest))]

    def _require_room(self, nodes: int) -> None:
        """Refuse so many outputs that not even one row of all of them can be looked at."""
        needed = 48.0 * self.rank * self.outputs * nodes
        if needed > available_bytes() / 2:
            raise BudgetError(
                f"leave_one_out of {self.outputs} outputs takes {needed / 1e9:.1f} GB for a single row; "
                "take some of the columns of y at a time."
            )

    def _height(self, nodes: int, epochs: int) -> int:
        rank, outputs = self.rank, self.pull.shape[1]
        modes = len(self.paces)
        each: int = (
            rank * (rank + 1) // 2 * (modes + 2 * nodes) + 2 * rank * outputs * nodes + outputs * epochs
        )
        return max(1, _CHUNK // max(each, 1))

    def _integrated(self, looks: Looks, rules: "list[_Rule]", tolerance: float) -> FloatArray:
        """The integrals (1 + epochs, m, t) along the first curve that has missed no pace of a left-out run.

        What is missed after one application, as a share of the responses, grows with the epochs.
        """
        known, best, found = self._after_one(looks), math.inf, np.zeros(0)
        for rule in rules:
            integrals = _integrals(looks, rule.resolvent, self.pull, rule.powers)
            off = _disagreement(integrals[0], known, looks.alpha)
            if off < best:
                best, found = off, integrals
            if best <= _AGREES:
                break
        if best > tolerance:
            raise ArithmeticError("the paces of left-out runs are not where they were looked for.")
        return found

    def _after_one(self, looks: Looks) -> FloatArray:
        """Minus x_i'g_i (m, t), what the integral is after one application, known without it."""
        feet = np.einsum("q,mqr->mr", looks.picks, looks.right)
        met = np.einsum("mqr,mr->mq", looks.right, feet)
        return np.asarray(np.einsum("mq,mqt->mt", met, looks.coupling @ looks.alpha) - feet @ self.pull)


class _Rule:
    """The integral along one curve: (w - A)^-1 (r, N) at its nodes, in the modes, and powers (1 + epochs, N)."""

    def __init__(self, paces: FloatArray, slit: tuple[float, float], counts: FloatArray):
        curve = contour.around(*slit, float(counts.max(initial=1.0)))
        self.nodes = len(curve.nodes)
        self.powers = curve.powers(np.concatenate([np.ones(1), counts]))
        self.resolvent = 1 / (paces[:, np.newaxis] - curve.nodes)


def _require_told_apart(left: FloatArray, saturated: BoolArray) -> None:
    """Refuse rows whose leverage, of which so much is left (m,), is too near to one, or to what it must not be."""
    if (left[~saturated] < OPEN).any() or (left[saturated] > SATURATED).any():
        raise ArithmeticError("leverages next to one are known too poorly.")


def _disagreement(found: FloatArray, known: FloatArray, responses: FloatArray) -> float:
    """How far what is found after one application is from what it must be, as a share of the responses."""
    with np.errstate(over="ignore", invalid="ignore"):
        off = np.abs(found - known).max(initial=0.0)
        size = np.abs(known).max(initial=0.0) + np.abs(responses).max(initial=0.0)
    return float(off / size) if math.isfinite(size) and size > 0 else 0.0


def _integrals(looks: Looks, resolvent: AnyArray, pull: FloatArray, powers: AnyArray) -> FloatArray:
    """The integrals (epochs, m, t), twice the real part of the sums over the nodes."""
    (rows, _, _), nodes, outputs = looks.right.shape, resolvent.shape[1], pull.shape[1]
    grams, missing = _grams_and_missing(looks, resolvent, pull)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        solved = _solved(grams, missing, looks)
        flat = solved.reshape(rows * outputs, nodes)
        sums = 2 * (powers.real @ flat.real.T - powers.imag @ flat.imag.T)
    return np.asarray(sums.reshape(len(powers), rows, outputs))


def _grams_and_missing(looks: Looks, resolvent: AnyArray, pull: FloatArray) -> tuple[AnyArray, AnyArray]:
    """G (m, q, q, nodes) and alpha - v (m, q, t, nodes)."""
    rows, rank, modes = looks.right.shape
    moved = (pull[:, :, np.newaxis] * resolvent[:, np.newaxis, :]).reshape(modes, -1)
    pulled = _product(looks.right.reshape(-1, modes), moved).reshape(rows, rank, pull.shape[1], -1)
    return _grams(looks.right, resolvent), looks.alpha[..., np.newaxis] - pulled


def _solved(grams: AnyArray, missing: AnyArray, looks: Looks) -> AnyArray:
    """O'(I - G C)^-1 (alpha - v), (m, t, nodes)."""
    if looks.right.shape[1] == 1:
        return np.asarray(missing[:, 0] / (1 - looks.coupling[..., 0] * grams[:, 0, 0])[:, np.newaxis])
    # (m, nodes, q, q), and the picked row of the inverse alone, however many outputs there are.
    systems = np.eye(len(looks.picks)) - np.moveaxis(grams, 3, 1) @ looks.coupling[:, np.newaxis]
    picked = np.linalg.solve(np.swapaxes(systems, -1, -2), looks.picks[:, np.newaxis])[..., 0]
    return np.asarray(np.einsum("mnq,mqtn->mtn", picked, missing))


def _grams(right: FloatArray, resolvent: AnyArray) -> AnyArray:
    """R'(w - A)^-1 R (m, q, q, nodes)."""
    rows, rank, modes = right.shape
    first, second = np.triu_indices(rank)
    pairs = right[:, first] * right[:, second]
    upper = _product(pairs.reshape(-1, modes), resolvent).reshape(rows, len(first), -1)
    grams = np.empty((rows, rank, rank, upper.shape[2]), dtype=resolvent.dtype)
    grams[:, first, second] = upper
    grams[:, second, first] = upper
    return grams


def _product(real: FloatArray, other: AnyArray) -> AnyArray:
    """A real matrix times one that may be complex, as one product of real ones."""
    if not np.iscomplexobj(other):
        return real @ other
    parts = real @ np.hstack([other.real, other.imag])
    half = other.shape[1]
    return np.asarray(parts[:, :half] + 1j * parts[:, half:])
