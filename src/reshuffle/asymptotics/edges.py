"""Ends of a spectrum.

Fixed points off the real axis are found by contraction; on it the real solution is followed until it turns.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reshuffle._arrays import BoolArray, FloatArray
from reshuffle.asymptotics.batch_system import BatchSystem, Blocks, State
from reshuffle.free import progress
from reshuffle.free.checks import Complex, ConvergenceError
from reshuffle.free.solver import krylov_solve

_ITERATIONS = 120
_SETTLED = 1e-14
"""Relative change of the unknowns below which they have converged."""
_CHUNK = 1_000_000
"""Numbers that the resolvents of the points worked on together may hold."""
_REMEMBERED = 3
"""Earlier images that the next guess is made of: more of them differ by rounding alone."""
_CLOSE = (1.0, 0.1, 0.01, 0.0)
"""Relative change of the images below which they are mixed: at once, or later if that failed."""
_ROUNDING = 1e-6
"""Relative size of an imaginary part whose sign rounding may change."""


def contracted(
    system: BatchSystem, z: Complex, counted: Callable[[int], None] = lambda visits: None
) -> tuple[Complex, BoolArray]:
    """The unknowns at points z (n,) with Im z > 0, in units of the system, and whether they have converged.

    The map takes the half-plane to itself, and its only fixed point there attracts everything (Helton, Rashidi
    Far and Speicher, 2007): slowly close to the spectrum, and like a geometric series away from it. Anderson's
    mixing of the last images is several times faster and knows nothing of half-planes, so that a point whose
    resolvent has a wrong sign is iterated again, and mixed later or not at all. `counted` is called with the
    number of points visited, and may raise to stop.
    """
    unknowns, settled = system.start(len(z)), np.zeros(len(z), dtype=bool)
    height = max(4, _CHUNK // system.block_entries)
    for start in range(0, len(z), height):
        part = slice(start, start + height)
        unknowns[part], settled[part] = _solved(system, z[part], counted)
    return unknowns, settled


def _solved(system: BatchSystem, z: Complex, counted: Callable[[int], None]) -> tuple[Complex, BoolArray]:
    base = system.base_blocks(z)
    with np.errstate(all="ignore"):
        unknowns, settled = system.start(len(z)), np.zeros(len(z), dtype=bool)
        for close in _CLOSE:
            left = np.flatnonzero(~settled)
            if not len(left):
                break
            there = [block[left] for block in base]
            found, done = _iterated(system, there, close, counted)
            unknowns[left], settled[left] = found, done & _above(system, there, found)
    return unknowns, settled


def _above(system: BatchSystem, base: Blocks, unknowns: Complex) -> BoolArray:
    """True where the resolvents have negative imaginary parts, which selects the one right solution."""
    blocks = [block.imag for block in system.evaluate_blocks(base, unknowns).mean]
    finite = np.all([np.isfinite(block).all(axis=(1, 2)) for block in blocks], axis=0)
    values = [np.linalg.eigvalsh(np.where(finite[:, np.newaxis, np.newaxis], block, 0.0)) for block in blocks]
    largest, smallest = (
        np.max([value[:, -1] for value in values], axis=0),
        np.min([value[:, 0] for value in values], axis=0),
    )
    return np.asarray(finite & (largest <= -_ROUNDING * smallest))


def _iterated(
    system: BatchSystem, base: Blocks, close: float, counted: Callable[[int], None]
) -> tuple[Complex, BoolArray]:
    """Iterate from far away, and mix images as soon as they move by less than `close`, relative to their size."""
    count = len(base[0])
    unknowns = system.start(count)
    active, change = np.arange(count), np.full(count, np.inf)
    known: list[tuple[Complex, Complex]] = []
    for _ in range(_ITERATIONS):
        counted(len(active))
        progress.step()
        image = system.evaluate_blocks([block[active] for block in base], unknowns[active]).image
        moves = image - unknowns[active]
        moved = np.linalg.norm(moves, axis=1) / np.linalg.norm(image, axis=1)
        unknowns[active] = image
        # Rounding may keep the last digits moving.
        done = (moved < _SETTLED) | ((moved < 100 * _SETTLED) & (moved >= 0.9 * change[active]))
        change[active] = moved
        active = active[~done]
        if not len(active):
            break
        known = [(a[~done], b[~done]) for a, b in [*known, (image, moves)]][-1 - _REMEMBERED :]
        near = (moved < close)[~done]
        if near.any():
            unknowns[active[near]] = _mixed([(a[near], b[near]) for a, b in known])
    settled = np.ones(count, dtype=bool)
    settled[active] = False
    return unknowns, settled


def _mixed(known: list[tuple[Complex, Complex]]) -> Complex:
    """The affine combination of images (points, unknowns) whose moves are smallest together (Anderson, 1965)."""
    image, move = known[-1]
    if len(known) == 1:
        return image
    images = np.stack([image - other for other, _ in known[:-1]], axis=-1)
    moves = np.stack([move - other for _, other in known[:-1]], axis=-1)
    # A point that left the numbers is found out later.
    finite = np.isfinite(moves).all(axis=(1, 2))[:, np.newaxis, np.newaxis]
    shares = np.linalg.pinv(np.where(finite, moves, 0.0), rcond=1e-12) @ move[..., np.newaxis]
    return np.asarray(image - (images @ shares)[..., 0])


_PRECISION = 1e-15
"""Distance from an end at zero, relative to the size of the spectrum, at which it is taken to be there."""
_NEAR = 1e-11
"""Relative distance at which the end has been seen well enough to extrapolate to it: its power 3/2 is left."""
_FARTHEST = 1e12
"""The farthest starting point outside the spectrum, in units of the system."""
_STEPS = 100
_CORRECTIONS = 9
_EXACT = 1e-13
"""Relative step of Newton's method after which it ends: close to an end the slope has half of the digits left."""
_DENSE, _DENSE_AT_THRESHOLDS = 150, 2_000
"""Unknowns up to which the Jacobian of a single point is made and factored, in general and near a critical alpha.

There it has many large eigenvalues and Krylov's method needs hundreds of products, 3.9 s in place of 1.7 s for the
ends of 16 batches; at alpha = 0.5 it is 4 times quicker."""
_SHARE = 0.97
"""Share of the estimated distance that one step takes."""
_BESIDE = 1e-6
"""Distance from an atom at zero within which a step may cross it, relative to that of the starting point."""


def outer_ends(
    system: BatchSystem, atom: bool, high: float | None = None, at_threshold: bool = False
) -> tuple[float, float]:
    """The lowest and the highest point of the continuous spectrum of alpha Z.

    Outside the spectrum the unknowns H(z) are real. At the end e that is approached they turn like a square root,
    and far away they fall like 1/z: dH/dz is about (z - e)^(-1/2) (z - a)^(-3/2), with a the other end, and the
    change of its logarithm from step to step locates e. An `atom` at zero is no end: H has no pole there.
    `high` may be known; `at_threshold` is true near a critical alpha, where the equations are ill-conditioned.
    """
    far = 2 * system.norm
    dense = _DENSE_AT_THRESHOLDS if at_threshold else _DENSE
    top = _from_outside(system, far, None, atom, dense) if high is None else high / system.unit
    return _from_outside(system, -far, top, atom, dense) * system.unit, top * system.unit


_BEGINNING = 0.25
"""Where a continuation in alpha begins, relative to the critical alpha of full batch."""
_HEIGHT = 0.25
"""Height above the axis at which it is solved first, relative to the distance of the spectrum there."""
_BEYOND = 1.05


def leaving_alpha(system: BatchSystem, edge: float, full_batch: float, stride: float) -> float:
    """The alpha at which the spectrum of alpha Z reaches `edge`, 0 or 2; inf if it does not up to 2B/lambda.

    The real solution at z = edge is followed in alpha instead of z, and turns where the spectrum arrives. At
    2B/lambda, lambda the largest eigenvalue of Sigma, it leaves (0, 2) with few parameters, and earlier with more.
    The system is a plain one, `full_batch` the critical alpha of full batch, `stride` the largest ratio of steps.
    """
    begin = _BEGINNING * full_batch
    system.set_alpha(begin)
    # Full batch is the widest: at its critical alpha it ends at 2.
    ratio = (1 - math.sqrt(system.aspect)) ** 2 / (1 + math.sqrt(system.aspect)) ** 2
    ratio *= float(system.squares[0] / system.squares[-1])
    distance = 2.0 - 2 * _BEGINNING if edge else 2 * _BEGINNING * ratio
    unknowns, settled = contracted(system, np.array([edge + 1j * _HEIGHT * distance]))
    approach = _AlphaApproach(system, begin, edge, stride, _BEYOND * system.last_alpha)
    if not (settled.all() and approach.begin(unknowns.real + 0j)):
        raise ConvergenceError(f"the spectrum was not found on one side of {edge:g} at alpha = {begin:.4g}")
    return approach.end(begin / 2)


def _from_outside(system: BatchSystem, start: float, other: float | None, atom: bool, dense: int) -> float:
    """The end that is met first on the way from `start`, far outside, where `other` is the end beyond it.

    If `other` is None, `lower_end` guesses it.
    """
    place, began = start, False
    # Far beyond convergence a product of steps is much larger than they are.
    while abs(place) < _FARTHEST * system.norm:
        approach = _Approach(system, place, other, atom=atom, dense=dense)
        unknowns = system.start(1)
        for _ in range(4):
            unknowns = system.evaluate(approach.base(place), unknowns).image.real + 0j
        began = approach.begin(unknowns)
        if began:
            if other is None:
                approach.other = approach.lower_end()
            return approach.end(-place / 4)
        place *= 8
    raise ConvergenceError(
        f"the ends of the spectrum were not found within {abs(place) * system.unit:.4g}: alpha is so large that "
        "products of visits leave the precision of numbers, and descent diverges at once; try an alpha near "
        "critical_alpha(aspect, batches), or fewer batches."
    )


@dataclass(frozen=True, eq=False)
class _Solved:
    """The solution at a real place, and how it moves."""

    unknowns: Complex  # H, (1, unknowns)
    slope: Complex  # dH/dz, or dH/dalpha
    first: FloatArray  # the first block of G at each eigenvalue of Sigma, (eigenvalues, sizes, sizes)
    falls: bool  # dG/dz is negative: outside of the spectrum it is minus an integral of squares
    trace: float  # the Cauchy transform of the law
    fall: float  # its derivative


def _falls(matrices: FloatArray) -> bool:
    """True if symmetric matrices (..., k, k), derivatives or difference quotients, are negative up to rounding.

    G(p) - G(q) is (q - p) times an integral of 1/((p - x)(q - x)), which is positive if none of the spectrum is
    between p and q. At each eigenvalue of Sigma G has a different spectral measure, so that a step over an
    interval that belongs to few of them is detected too.
    """
    if not np.isfinite(matrices).all():
        return False
    values = np.linalg.eigvalsh(matrices)
    return bool((values[..., -1] <= -_ROUNDING * values[..., 0]).all())


class _Approach:
    """Steps along the real axis from `place` towards the spectrum, in units of the system.

    `other` is the other end of the spectrum, from which the solution falls like a power, if nothing else is beyond;
    an `atom` at zero may be on the way; up to `dense` unknowns the Jacobian is factored.
    """

    def __init__(
        self,
        system: BatchSystem,
        place: float,
        other: float | None = None,
        atom: bool = False,
        dense: int = _DENSE,
    ):
        self.system, self.place, self.other, self.atom, self.dense = system, place, other, atom, dense
        self.far, self.last, self.expected, self.most = abs(place), math.inf, math.nan, _STEPS
        self.longest = math.inf  # the largest step
        self.at: _Solved | None = None

    def begin(self, unknowns: Complex) -> bool:
        """Solve at the first place, from a guess; True if that is the solution outside of the spectrum."""
        self.at = self._corrected(self.place, unknowns)
        return self.at is not None and self.at.falls

    def base(self, z: float) -> Complex:
        """The base of the system at one real point."""
        return self.system.base(np.array([z + 0j]), np.zeros(1))

    def end(self, step: float) -> float:
        """The end of the spectrum, where the solution turns; `step` is the first step."""
        for _ in range(self.most):
            before, steepness = self.place, self._steepness
            if not self._move(step):
                step /= 2
                if abs(step) < _PRECISION * self.far:
                    return self.place
                continue
            if self.place > self.last:
                return math.inf
            distance = self._distance(before, steepness)
            end = self.expected = self.place + distance
            if abs(distance) < _NEAR * abs(end):
                return end
            if abs(end) < _PRECISION * self.far and abs(self.place) < 4 * _PRECISION * self.far:
                return 0.0
            step = math.copysign(min(_SHARE * abs(distance), self.longest), distance)
        raise ConvergenceError(
            f"an end of the spectrum near {self.place * self.system.unit:.6g} was not reached"
        )

    def lower_end(self) -> float:
        """A guess of the lower end: the mean less two standard deviations, or zero.

        Both are read off the transform at the first place. At steps near one over the curvature the spectrum is
        narrow and far from zero.
        """
        assert self.at is not None
        # With d the distance to the mean, G is (1 + variance/d^2)/d, and what follows is smaller.
        variance = max(-self.at.fall / self.at.trace**2 - 1, 0.0) / self.at.trace**2
        mean = self.place - 1 / self.at.trace - variance * self.at.trace
        return max(mean - 2 * math.sqrt(variance), 0.0)

    @property
    def _steepness(self) -> float:
        assert self.at is not None
        return float(np.log(np.linalg.norm(self.at.slope)))

    def _distance(self, before: float, steepness: float) -> float:
        """The remaining distance to the end, from the growth of the slope since the last step."""
        # The distances d and d + step satisfy 2 change = log((d + step)/d) + 3 log(...), the second known.
        step = before - self.place
        known = 0.0
        if self.other is not None:
            known = 3 * math.log((before - self.other) / (self.place - self.other))
        growth = math.expm1(max(2 * (self._steepness - steepness) - known, 1e-3))
        return -step / growth

    def _move(self, step: float) -> bool:
        place = self.place + step
        across = self.atom and place * self.place <= 0
        if across and abs(self.place) > _BESIDE * self.far:
            place = self.place / 8
            across, step = False, place - self.place
        # Exactly at an atom there is no resolvent.
        place = place if place else 1e-3 * step
        assert self.at is not None
        found = self._corrected(place, self.at.unknowns + self._reach(place) * self.at.slope)
        # Beyond the end Newton's method may land on the other sheet, where the resolvent rises, or in a gap.
        if found is None or not found.falls or not self._continues(found, place, across):
            return False
        self.place, self.at = place, found
        return True

    def _reach(self, place: float) -> float:
        """Length of the tangent for a step to `place`: more than the step, since the solution turns.

        It moves like the root of (z - e)/(z - a), e the end that is expected and a the other one.
        """
        turn, rate = (place - self.expected) / (self.place - self.expected), 1 / (self.place - self.expected)
        if self.other is not None:
            turn *= (self.place - self.other) / (place - self.other)
            rate -= 1 / (self.place - self.other)
        # A guess of the other end may be on this side of the place, and the first step has no expectation.
        return 2 * (math.sqrt(turn) - 1) / rate if turn > 0 and rate else place - self.place

    def _continues(self, found: "_Solved", place: float, across: bool) -> bool:
        """True if none of the spectrum is between here and a place where the solution is `found`."""
        assert self.at is not None
        before, after = self.at.first, found.first
        if across:
            # The atom is a pole of G between the two, and none of z G_00, which falls as well above zero.
            before, after = self.place * before[:, :1, :1], place * after[:, :1, :1]
        return _falls((after - before) / (place - self.place))

    def _corrected(self, place: float, unknowns: Complex) -> "_Solved | None":
        """Newton's method from a prediction; None if it does not converge."""
        base, last = self.base(place), math.inf
        with np.errstate(all="ignore"):
            for _ in range(_CORRECTIONS):
                progress.step()
                state = self.system.evaluate(base, unknowns)
                move = self._solved(state, [state.image - unknowns])[0]
                size = float(np.linalg.norm(move)) / float(np.linalg.norm(unknowns + move))
                if not size < 1:
                    return None
                unknowns = unknowns + move
                # The moves fall like squares, so that the next one is known; at the end rounding keeps them up.
                exact = size < _EXACT or (last < 1 and size**3 < _EXACT * last**2)
                if exact or (size < 1e-7 and size > 0.3 * last):
                    return self._described(self.system.evaluate(base, unknowns), unknowns)
                last = size
        return None

    def _described(self, state: State, unknowns: Complex) -> "_Solved":
        direction = self.system.direction
        along_z, *others = self._solved(state, self._tangents(state))
        moved = self.system.resolvent_tangent(state, direction, along_z + 0j)[0].real
        trace, fall = float(state.corner[0].real), float(moved[0, 0])
        slope = (others[0] if others else along_z) + 0j
        return _Solved(unknowns, slope, state.blocks[0][0].real, _falls(moved), trace, fall)

    def _tangents(self, state: State) -> list[Complex]:
        """The derivatives of the map along z, and along what the steps go along if that is another."""
        return [self.system.shift_tangent(state, self.system.direction)]

    def _solved(self, state: State, right: list[Complex]) -> list[FloatArray]:
        """The solutions of (1 - D) x = right, (1, unknowns) each, D the derivative of the map."""
        if self.system.unknowns > self.dense:
            return [np.asarray(krylov_solve(self.system, state, one).real) for one in right]
        matrix = np.eye(self.system.unknowns) - self.system.jacobian(state.real)
        columns = np.stack([one.real for one in right], axis=-1)
        try:
            return list(np.moveaxis(np.linalg.solve(matrix, columns), -1, 0))
        except np.linalg.LinAlgError:
            return [np.full(one.shape, np.nan) for one in right]


class _AlphaApproach(_Approach):
    """Steps along alpha at the fixed point z = `edge`, with ratios up to `stride`."""

    def __init__(self, system: BatchSystem, place: float, edge: float, stride: float, last: float):
        super().__init__(system, place, dense=_DENSE_AT_THRESHOLDS)
        self.edge, self.stride, self.last, self.most = edge, stride, last, 10 * _STEPS

    def base(self, z: float) -> Complex:
        """The base of the system at `edge`; the system passes to alpha = z."""
        self.system.set_alpha(z)
        self.longest = (self.stride - 1) * z
        return super().base(self.edge)

    def _continues(self, found: "_Solved", place: float, across: bool) -> bool:
        # The trace has the sign of the side on which the whole spectrum is.
        assert self.at is not None
        return found.trace * self.at.trace > 0

    def _tangents(self, state: State) -> list[Complex]:
        return [*super()._tangents(state), self.system.alpha_tangent(state)]
