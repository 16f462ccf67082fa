"""Ends of a spectrum, and the alpha at which one of them reaches 0 or 2.

Fixed points off the real axis are found by contraction; on it the real solution is followed, in z or in alpha,
until the end is near, with a proof at every step that none of the spectrum was passed. The end itself, where the
solution turns, is a fold, which `find_folds` of `reshuffle.free.solver` finds: from this side of it as from inside.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from reshuffle._arrays import BoolArray, FloatArray
from reshuffle.asymptotics.batch_system import AlphaSystem, BatchSystem, Blocks, Evaluation
from reshuffle.free import progress
from reshuffle.free.checks import Complex, ConvergenceError
from reshuffle.free.solver import find_folds, solve

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
    with np.errstate(all="ignore"):
        for part in np.split(np.arange(len(z)), np.arange(height, len(z), height)):
            for close in _CLOSE:
                left = part[~settled[part]]
                if len(left):
                    base = system.base_blocks(z[left])
                    unknowns[left], done = _iterated(system, base, close, counted)
                    settled[left] = done & _above(system, base, unknowns[left])
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
_AT_ZERO = 1e-11
"""How far below zero rounding may put an end that is there."""
_NEAR, _AROUND = 0.01, 4.0
"""Relative distance at which the end has been seen well enough to be found, and how many times as far it may be.

In 309 searches with 2 to 12 batches distances of 0.03, 0.02 and 0.01 fail 70, 54 and 34 times; steps then go on."""
_NEARER = 0.1
"""Share of the distance at which the end was not found that is left when it is tried again."""
_FARTHEST = 1e12
"""The farthest starting point outside the spectrum, in units of the system."""
_STEPS = 100
_CORRECTIONS = 9
_EXACT = 1e-13
"""Relative step of Newton's method after which it ends: close to an end the slope has half of the digits left."""
_SHARE = 0.97
"""Share of the estimated distance that one step takes."""
_BESIDE = 1e-6
"""Distance from an atom at zero within which a step may cross it, relative to that of the starting point."""


def outer_ends(system: BatchSystem, atom: bool) -> tuple[float, float]:
    """The lowest and the highest point of the continuous spectrum of alpha Z.

    Outside the spectrum the unknowns H(z) are real. At the end e that is approached they turn like a square root,
    and far away they fall like 1/z: dH/dz is about (z - e)^(-1/2) (z - a)^(-3/2), with a the other end, and the
    change of its logarithm from step to step locates e. An `atom` at zero is no end: H has no pole there.
    """
    far = 2 * system.norm
    top = _from_outside(system, far, None, atom)
    return _from_outside(system, -far, top, atom) * system.unit, top * system.unit


def ends_below(system: BatchSystem, atom: bool, high: float) -> bool:
    """True if the spectrum, which ends at `high`, begins below zero by more than rounding."""
    end = _from_outside(system, -2 * system.norm, high / system.unit, atom, last=0.0)
    return end * system.unit < -_AT_ZERO


_LOOK = 0.25
"""Height above a possible gap at which it is examined, relative to the distance to its closer side."""
_WIDE = 2.0
"""Least ratio of a gap between sampled eigenvalues and those next to it, in the logarithm, that is examined."""


def gaps(system: BatchSystem, sampled: FloatArray, most: int) -> list[tuple[float, float]]:
    """Up to so many gaps of the spectrum: those about the widest between `sampled` eigenvalues, from left to right.

    The eigenvalues are positive and within its ends.
    Above a gap the unknowns are nearly real; what Newton's method makes of them on the axis is the solution outside
    of the spectrum if its resolvent falls, as that of no other does.
    """
    sampled = sampled / system.unit
    apart = np.diff(np.log(sampled))
    wide = 1 + np.flatnonzero(apart[1:-1] > _WIDE * np.maximum(apart[:-2], apart[2:]))
    found: list[tuple[float, float]] = []
    for k in np.sort(wide[np.argsort(-apart[wide])[:most]]):
        left, right = sampled[k : k + 2]
        place = math.sqrt(left * right)
        if found and place * system.unit < found[-1][1]:
            continue
        height = _LOOK * min(place - left, right - place)
        unknowns, settled = contracted(system, np.array([place + 1j * height]))
        down, up = _Approach(system, place), _Approach(system, place)
        if settled.all() and down.begin(unknowns.real) and up.begin(unknowns.real):
            found.append((down.end(-height / 4) * system.unit, up.end(height / 4) * system.unit))
    return found


_BEGINNING = 0.25
"""Where a continuation in alpha begins, relative to the critical alpha of full batch."""
_HEIGHT = 0.25
"""Height above the axis at which it is solved first, relative to the distance of the spectrum there."""
_BEYOND = 1.05


def leaving_alpha(system: AlphaSystem, full_batch: float, stride: float) -> float:
    """The alpha at which the spectrum of alpha Z reaches the system's edge; inf if it does not up to 2B/lambda.

    The real solution at the edge is followed in alpha instead of z, and turns where the spectrum arrives. At
    2B/lambda, lambda the largest eigenvalue of Sigma, it leaves (0, 2) with few parameters, and earlier with more.
    `full_batch` is the critical alpha of full batch, `stride` the largest ratio of steps.
    """
    begin, edge = _BEGINNING * full_batch, system.edge
    system.set_alpha(begin)
    # Full batch is the widest: at its critical alpha it ends at 2.
    ratio = (1 - math.sqrt(system.aspect)) ** 2 / (1 + math.sqrt(system.aspect)) ** 2
    ratio *= float(system.squares[0] / system.squares[-1])
    distance = 2.0 - 2 * _BEGINNING if edge else 2 * _BEGINNING * ratio
    unknowns, settled = contracted(system, np.array([edge + 1j * _HEIGHT * distance]))
    approach = _AlphaApproach(system, begin, stride, _BEYOND * system.last_alpha)
    if not (settled.all() and approach.begin(unknowns.real)):
        raise ConvergenceError(f"the spectrum was not found on one side of {edge:g} at alpha = {begin:.4g}")
    return approach.end(begin / 2)


def _from_outside(
    system: BatchSystem, start: float, other: float | None, atom: bool, last: float = math.inf
) -> float:
    """The end that is met first on the way from `start`, far outside, inf if it is beyond `last`.

    `other` is the end beyond it; if it is None, `lower_end` guesses it.
    """
    place, began = start, False
    # Far beyond convergence a product of steps is much larger than they are.
    while abs(place) < _FARTHEST * system.norm:
        approach = _Approach(system, place, other, atom)
        unknowns = system.start(1)
        for _ in range(4):
            unknowns = system.evaluate(approach.base(place), unknowns).image
        began = approach.begin(unknowns.real)
        if began:
            if other is None:
                approach.other = approach.lower_end()
            approach.last = last
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

    unknowns: FloatArray  # H, (1, unknowns)
    slope: FloatArray  # dH/dz, or dH/dalpha
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
    an `atom` at zero may be on the way.
    """

    at: _Solved

    def __init__(self, system: BatchSystem, place: float, other: float | None = None, atom: bool = False):
        self.system, self.place, self.other, self.atom = system, place, other, atom
        self.far, self.last, self.expected, self.most = abs(place), math.inf, math.nan, _STEPS
        self.stride = math.inf  # the largest relative step

    def begin(self, unknowns: FloatArray) -> bool:
        """Solve at the first place, from a guess; True if that is the solution outside of the spectrum."""
        found = self._corrected(self.place, unknowns)
        if found is not None:
            self.at = found
        return found is not None and found.falls

    def base(self, z: float) -> Complex:
        """The base of the system at one real point."""
        return self.system.base(np.array([z + 0j]), np.zeros(1))

    def end(self, step: float) -> float:
        """The end of the spectrum, where the solution turns; `step` is the first step."""
        near = _NEAR
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
            if abs(distance) < near * abs(end):
                fold = self._fold(distance)
                if math.isfinite(fold):
                    return fold
                near = _NEARER * abs(distance / end)
            if abs(end) < _PRECISION * self.far and abs(self.place) < 4 * _PRECISION * self.far:
                return 0.0
            step = math.copysign(min(_SHARE * abs(distance), self.stride * abs(self.place)), distance)
        raise ConvergenceError(
            f"an end of the spectrum near {self.place * self.system.unit:.6g} was not reached"
        )

    def lower_end(self) -> float:
        """A guess of the lower end: the mean less two standard deviations, or zero.

        Both are read off the transform at the first place. At steps near one over the curvature the spectrum is
        narrow and far from zero.
        """
        # With d the distance to the mean, G is (1 + variance/d^2)/d, and what follows is smaller.
        variance = max(-self.at.fall / self.at.trace**2 - 1, 0.0) / self.at.trace**2
        mean = self.place - 1 / self.at.trace - variance * self.at.trace
        return max(mean - 2 * math.sqrt(variance), 0.0)

    @property
    def _steepness(self) -> float:
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
        found = self._corrected(place, self.at.unknowns + self._reach(place) * self.at.slope)
        # Beyond the end Newton's method may land on the other sheet, where the resolvent rises, or in a gap.
        if found is None or not found.falls or not self._continues(found, place, across):
            return False
        self.place, self.at = place, found
        return True

    def _fold(self, distance: float) -> float:
        """The end if `find_folds` finds it from here, at about this distance, and nan otherwise."""
        start, beyond = self.place, self.place + _AROUND * distance
        with np.errstate(all="ignore"):
            found = find_folds(self.system, np.array([start]), np.array([beyond]), self.at.unknowns)
        end = float(found.places[0])
        if math.isnan(end):
            return end
        state = self.system.evaluate(self.base(end), found.unknowns)
        there = replace(self.at, first=state.blocks[0][0], trace=float(state.corner[0]))
        return end if self._continues(there, end, across=False) else math.nan

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
        before, after = self.at.first, found.first
        if across:
            # The atom is a pole of G between the two, and none of z G_00, which falls as well above zero.
            before, after = self.place * before[:, :1, :1], place * after[:, :1, :1]
        return _falls((after - before) / (place - self.place))

    def _corrected(self, place: float, unknowns: FloatArray) -> "_Solved | None":
        """Newton's method from a prediction; None if it does not converge."""
        base, last = self.base(place), math.inf
        with np.errstate(all="ignore"):
            for _ in range(_CORRECTIONS):
                progress.step()
                state = self.system.evaluate(base, unknowns)
                move = solve(self.system, state, (state.image - unknowns)[:, np.newaxis])[:, 0]
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

    def _described(self, state: Evaluation, unknowns: FloatArray) -> "_Solved":
        direction = self.system.direction
        solved = solve(self.system, state, np.stack(self._tangents(state), axis=1))
        moved = self.system.resolvent_tangent(state, direction, solved[:, 0])[0].real
        trace, fall = float(state.corner[0]), float(moved[0, 0])
        return _Solved(unknowns, solved[:, -1], state.blocks[0][0], _falls(moved), trace, fall)

    def _tangents(self, state: Evaluation) -> list[FloatArray]:
        """The derivatives of the map along z, and along alpha if the steps go there."""
        return [self.system.shift_tangent(state, self.system.direction)]


class _AlphaApproach(_Approach):
    """Steps along alpha at the fixed point z = `edge`, with ratios up to `stride`."""

    def __init__(self, system: AlphaSystem, place: float, stride: float, last: float):
        super().__init__(system, place)
        self.stride, self.last, self.most = stride - 1, last, 10 * _STEPS

    def _continues(self, found: "_Solved", place: float, across: bool) -> bool:
        # The trace has the sign of the side on which the whole spectrum is.
        return found.trace * self.at.trace > 0

    def _tangents(self, state: Evaluation) -> list[FloatArray]:
        along_z = BatchSystem.shift_tangent(self.system, state, self.system.direction)
        return [along_z, *super()._tangents(state)]
