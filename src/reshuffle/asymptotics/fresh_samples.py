"""The mean square of one pass over fresh Gaussian samples, mode by mode: trajectory, limit, largest step.

One pass needs two measures on the eigenvalues of Sigma: where the risk of the start is, and where the noise of the
gradients goes. The sums of both are preserved when the eigenvalues of a cell move to common nodes.
"""

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy.optimize
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray, IntArray
from reshuffle._linalg import power_and_sum
from reshuffle.asymptotics.spectra import PowerLaw, power_sums

_SINGLE = 64
"""The largest eigenvalues of a power law that have one cell each."""
_FADED = 1e-16
"""Eigenvalues of an infinite power law below this part of the largest share one cell, which begins at zero."""
_GAUSS = 1 / math.sqrt(3)
"""Distance of the two nodes of a cell from its middle, in halves of its width: Gauss and Legendre's."""


@dataclass(frozen=True, eq=False)
class ModeNodes:
    """Nodes with what they carry, all (k,).

    `start` has the sums of lambda d_0, the risk of the start; `gain` those of lambda^2, what the noise of a
    gradient adds to the risk, up to s^2 / m.
    """

    eigenvalues: FloatArray
    start: FloatArray
    gain: FloatArray


@dataclass(frozen=True, eq=False)
class Cells:
    """Eigenvalues in cells, from which the groupings are made.

    `low` and `high` (k,) are the smallest and the largest of each cell, and `moments` (2, 2, k) has for each of
    the measures (start, gain) its sums over the cell of 1 and of lambda; `trace`, `largest` and `size` are those
    of all.
    """

    low: FloatArray
    high: FloatArray
    moments: FloatArray
    trace: float
    largest: float
    size: float

    @property
    def exact(self) -> bool:
        """True if every cell contains copies of a single eigenvalue."""
        return bool((self.low == self.high).all())

    @property
    def means(self) -> FloatArray:
        """The mean eigenvalue of each cell under each of the two measures, (2, k)."""
        totals, firsts = self.moments[:, 0], self.moments[:, 1]
        middle = np.broadcast_to((self.low + self.high) / 2, totals.shape)
        found = np.divide(firsts, totals, out=middle.copy(), where=totals > 0)
        return np.clip(found, self.low, self.high)

    def between(self, position: float) -> ModeNodes:
        """Two nodes per cell at its middle -+ position * width / 2, which keep sum and mean of both measures.

        At position 1 these are the ends of the cells, and no convex function has a smaller sum than it had.
        """
        middle, half = (self.low + self.high) / 2, position * (self.high - self.low) / 2
        wide = half > 0
        share = np.divide(self.means - middle, 2 * half, out=np.zeros_like(self.means), where=wide) + 0.5
        # A cell whose mean lies outside its two nodes keeps all in the nearer one.
        share = np.where(wide, np.clip(share, 0.0, 1.0), 1.0)
        above, below = share * self.moments[:, 0], (1 - share) * self.moments[:, 0]
        nodes = np.concatenate([middle + half, (middle - half)[wide]])
        start, gain = np.concatenate([above, below[:, wide]], axis=1)
        return ModeNodes(nodes, start, gain)

    def closest(self) -> ModeNodes:
        """Two nodes per cell: a sum over it is off in the fourth order of its width."""
        return self.between(_GAUSS)

    def above(self) -> ModeNodes:
        """The ends of the cells: sums of convex functions are too large."""
        return self.between(1.0)

    def below(self, bend: float) -> ModeNodes:
        """One node per cell: sums of powers of a convex parabola with its vertex at `bend` are too small.

        By Jensen the mean of a^k over a cell is at least a^k at the mean eigenvalue; of the two means, one per
        measure, the one where a is smaller is at the same time below for both.
        """
        means = self.means
        nearest = np.argmin(np.abs(means - bend), axis=0)
        nodes = np.take_along_axis(means, nearest[np.newaxis], axis=0)[0]
        return ModeNodes(nodes, self.moments[0, 0], self.moments[1, 0])


def cells_of_values(spectrum: FloatArray, source: FloatArray, cells: int) -> Cells:
    """Sort eigenvalues (p,) with their sources (p,) into at most about `cells` cells of equal ratios.

    Equal eigenvalues always share a cell; where there are no more distinct ones than cells, nothing moves.
    """
    order = np.argsort(spectrum, kind="stable")
    values, weights = spectrum[order], source[order]
    first: IntArray = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
    if len(first) > cells:
        first = _first_of_cells(values, cells)
    measures = np.array([values * weights, values**2])
    moments = np.array([[np.add.reduceat(m, first), np.add.reduceat(m * values, first)] for m in measures])
    last = np.concatenate([first[1:], [len(values)]]) - 1
    return Cells(values[first], values[last], moments, float(values.sum()), float(values[-1]), len(values))


def _first_of_cells(values: FloatArray, cells: int) -> IntArray:
    """First indices of the cells of ascending values: zero alone, then equal ratios."""
    positive = values[values > 0]
    floor = max(positive[0], positive[-1] * _FADED)
    edges = np.geomspace(floor, positive[-1], cells + 1)[1:-1]
    cut = np.searchsorted(values, np.concatenate([[np.nextafter(0, 1)], edges]))
    return np.unique(np.concatenate([[0], cut[cut < len(values)]]))


def cells_of_power_laws(spectrum: PowerLaw, source: PowerLaw, cells: int) -> Cells:
    """Cells of two power laws of one size, by sums that never list the eigenvalues."""
    a, b = spectrum.exponent, source.exponent
    starts = _first_indices(spectrum, cells)
    ends = np.concatenate([starts[1:], [spectrum.size + 1.0]])
    high = spectrum.scale * starts**-a
    low = np.where(np.isinf(ends), 0.0, spectrum.scale * (ends - 1) ** -a)
    low = np.where(ends - starts == 1, high, low)
    scales = (source.scale * spectrum.scale, spectrum.scale**2)
    exponents = (a + b, 2 * a)
    moments = np.array(
        [
            [scale * power_sums(e, starts, ends), scale * spectrum.scale * power_sums(e + a, starts, ends)]
            for scale, e in zip(scales, exponents, strict=True)
        ]
    )
    return Cells(low, high, moments, spectrum.total(), spectrum.scale, spectrum.size)


def _first_indices(spectrum: PowerLaw, cells: int) -> FloatArray:
    size = spectrum.size
    if size <= cells:
        return np.arange(1.0, size + 1)
    single = min(_SINGLE, cells // 2)
    last = min(size + 1.0, max(_FADED ** (-1 / spectrum.exponent), 1e6))
    grown = np.round(np.geomspace(single + 1, last, cells - single + 1))
    indices = np.unique(np.concatenate([np.arange(1.0, single + 1), grown]))
    return indices[indices <= size]


Values: TypeAlias = ArrayLike | PowerLaw
"""Eigenvalues of Sigma, or squares of the start along its eigenvectors: a vector (p,) or a power law."""
MOST_STEPS = 2**24
"""Largest number of steps that are followed one by one, with momentum or where the step changes."""


def grouped(spectrum: Values, source: Values, cells: int) -> Cells:
    """Eigenvalues (p,) and their source in cells, or two power laws; what cannot be added up is refused."""
    cells = _arrays.whole_number("cells", cells, 16, 1024)
    if isinstance(spectrum, PowerLaw) and isinstance(source, PowerLaw):
        return cells_of_power_laws(_checked_laws(spectrum, source), source, cells)
    values = spectrum.values() if isinstance(spectrum, PowerLaw) else _vector("spectrum", spectrum)
    start = source.values() if isinstance(source, PowerLaw) else _vector("source", source)
    if values.shape != start.shape:
        raise ValueError(
            f"source must have shape {values.shape}, one entry per eigenvalue of spectrum, but its shape is"
            f" {start.shape}."
        )
    if values.min() < 0 or values.max() == 0:
        raise ValueError(
            f"spectrum must have eigenvalues >= 0, not all zero, but they go from {values.min():g} to"
            f" {values.max():g}."
        )
    if start.min() < 0:
        place = int(np.argmin(start))
        raise ValueError(f"source must have entries >= 0, squares, but source[{place}] is {start[place]:g}.")
    return cells_of_values(values, start, cells)


def _vector(name: str, value: ArrayLike) -> FloatArray:
    vector = np.atleast_1d(_arrays.real_array(name, value))
    if vector.ndim != 1 or not vector.size:
        raise ValueError(f"{name} must be a vector of at least one entry, but its shape is {vector.shape}.")
    return vector


def _checked_laws(spectrum: PowerLaw, source: PowerLaw) -> PowerLaw:
    if spectrum.size != source.size:
        raise ValueError(
            f"source must have the size of spectrum, {spectrum.size:g}, but its size is {source.size:g}."
        )
    if spectrum.exponent <= 0:
        raise ValueError(f"spectrum must fall, with an exponent > 0, but it is {spectrum.exponent:g}.")
    if math.isinf(spectrum.size):
        if spectrum.exponent <= 1:
            raise ValueError(
                "spectrum must have an exponent > 1 where size is infinite, or its trace and the noise of every"
                f" gradient diverge, but it is {spectrum.exponent:g}; give it a finite size."
            )
        if spectrum.exponent + source.exponent <= 1:
            raise ValueError(
                "the exponents of spectrum and source must add up to more than 1 where size is infinite, or the"
                f" risk of the start diverges, but they are {spectrum.exponent:g} and {source.exponent:g}."
            )
    return spectrum


def schedule(step: ArrayLike, clock: FloatArray, momentum: float) -> FloatArray:
    """Return the steps as a vector: of one entry where all are the same."""
    schedule = np.atleast_1d(_arrays.real_array("step", step))
    if schedule.ndim != 1 or not schedule.size or not (schedule > 0).all():
        raise ValueError(f"step must be a number > 0, or a vector of them, but it is {step!r}.")
    last = float(np.max(clock, initial=0))
    if momentum and float(np.max(clock[np.isfinite(clock)], initial=0)) > MOST_STEPS:
        raise ValueError(
            f"steps must be at most {MOST_STEPS} with momentum, where they are walked one by one, but one is"
            f" {last:g}; ask for math.inf, the limit."
        )
    if np.ndim(step) == 0:
        return schedule
    if not math.isinf(last) and last > len(schedule):
        raise ValueError(f"step must have an entry for each of {last:g} steps, but it has {len(schedule)}.")
    if math.isinf(last):
        raise ValueError("steps must be finite where step is a vector, but one is math.inf.")
    return schedule


_HALVINGS = 64
"""Bisections of the interval of a root, in the logarithm of its distance from the nearest pole."""
_FARTHEST = 1e-40
"""A root closer to its pole than this part of the gap is that of an uncoupled mode."""


def coupled_rates(rates: FloatArray, gains: FloatArray, start: FloatArray) -> tuple[FloatArray, ...]:
    """The eigenvalues x (k,) of diag(rates) - g g', g = sqrt(gains), and the weights of start and noise.

    For r' = r - rates r + gains (sum r + q) the sum of r after t steps is sum_i (1 - x_i)^t u_i, plus q times
    sum_i w_i (1 + (1 - x_i) + ... ), over the roots of sum_j gains_j/(rates_j - x) = 1, with

        w_i = 1 / sum_j gains_j/(rates_j - x_i)^2,      u_i = w_i sum_j start_j/(rates_j - x_i).

    One root lies below each pole, between it and the one before: distances from the nearest pole are found by
    halving, so that they have all digits however small, and no vectors are needed.

    >>> x, u, w = coupled_rates(np.array([0.5, 1.0]), np.array([0.1, 0.2]), np.array([3.0, 4.0]))
    >>> matrix = np.diag([0.5, 1.0]) - np.outer([0.1, 0.2], [1.0, 1.0])
    >>> bool(np.allclose(np.sort(np.linalg.eigvals(matrix)), x) and np.isclose(u.sum(), 7.0))
    True
    """
    poles, place = np.unique(rates, return_inverse=True)
    together: FloatArray = np.bincount(place, gains).astype(np.float64)
    started: FloatArray = np.bincount(place, start).astype(np.float64)
    origin, offset = _roots(poles, together)
    distances = (poles - origin[:, np.newaxis]) - offset[:, np.newaxis]
    noise = 1 / (together / distances / distances).sum(axis=1)
    return origin + offset, noise * (started / distances).sum(axis=1), noise


def _roots(poles: FloatArray, gains: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The nearest pole of each root, and the offset of the root from it."""
    lower = np.concatenate([[poles[0] - 2 * gains.sum()], poles[:-1]])
    half = (poles - lower) / 2
    # It falls from one pole to the next: where it is positive in the middle, the root is in the upper half.
    above = _excess(poles, gains, poles, -half) > 0
    above[0] = True
    origin, sign = np.where(above, poles, lower), np.where(above, -1.0, 1.0)
    near, far = half * _FARTHEST, half.copy()
    far[0] *= 2
    for _ in range(_HALVINGS):
        middle = np.sqrt(near) * np.sqrt(far)
        too_near = (_excess(poles, gains, origin, sign * middle) > 0) != above
        near, far = np.where(too_near, middle, near), np.where(too_near, far, middle)
    return origin, sign * np.sqrt(near) * np.sqrt(far)


def _excess(poles: FloatArray, gains: FloatArray, origin: FloatArray, offset: FloatArray) -> FloatArray:
    """1 - sum_j gains_j/(poles_j - x) at x = origin + offset: falls from one pole to the next."""
    distances = (poles - origin[:, np.newaxis]) - offset[:, np.newaxis]
    return np.asarray(1 - (gains / distances).sum(axis=1))


_CHUNK = 1 << 20
"""Entries of (steps, modes) arrays that are worked on at a time."""


@dataclass(frozen=True, eq=False)
class FreshSamples:
    """r_j, the risk in each node, after steps of a constant size on batches of m fresh samples.

    With a_j = 1 - 2 s l_j + s^2 (1 + 1/m) l_j^2 for a node at l_j, and g_j its gain s^2/m sum lambda^2,

        r_j' = a_j r_j + g_j (R + noise^2),    R = sum_j r_j.

    In the variables r_j / sqrt(g_j) the map is symmetric, a diagonal plus one square, so that the roots of one
    secular equation answer for every number of steps.
    """

    modes: ModeNodes
    batch_size: float
    step: float
    noise: float

    def risk(self, steps: FloatArray) -> FloatArray:
        """The expected risk after each of the given finite steps (t,)."""
        scaled, gains = self.step * self.modes.eigenvalues, self.step**2 / self.batch_size * self.modes.gain
        decay, moving = scaled * (2 - (1 + 1 / self.batch_size) * scaled), gains > 0
        rates, start, noise = coupled_rates(decay[moving], gains[moving], self.modes.start[moving])
        risk = np.empty(len(steps))
        height = max(1, _CHUNK // len(rates))
        with np.errstate(over="ignore", invalid="ignore"):
            for begin in range(0, len(steps), height):
                part = slice(begin, begin + height)
                power, total = power_and_sum(rates, steps[part])
                risk[part] = power @ start + self.noise**2 * (total @ noise)
        return np.where(np.isnan(risk), np.inf, np.maximum(risk, 0.0))


def walked_risk(
    modes: ModeNodes, batch_size: float, steps: FloatArray, momentum: float, noise: float, wanted: FloatArray
) -> FloatArray:
    """The risk after `wanted` (t,) of the `steps`, by the recursion step by step: they may change, with momentum.

    With momentum mu a visit is v' = mu v + g, e' = e - s v', with g the mean gradient of the batch, and the moments
    E e^2, E e v and E v^2 of every mode close. In risk units, multiplied by lambda, with q = R + noise^2,

        w' = mu^2 w + 2 mu l c + (1 + 1/m) l^2 r + (sum lambda^2 / m) q      (v' v')
        e v' = mu c + l r,      c' = e v' - s w',      r' = r - 2 s e v' + s^2 w'.
    """
    last = int(wanted.max(initial=0))
    values, share = modes.eigenvalues, 1 / batch_size
    twice, injected = (1 + share) * values**2, share * modes.gain
    risks, crosses, squares = modes.start.copy(), np.zeros(len(values)), np.zeros(len(values))
    path = np.empty(last + 1)
    path[0] = risks.sum()
    with np.errstate(over="ignore", invalid="ignore"):
        for index in range(last):
            step = steps[index]
            if momentum:
                squares *= momentum**2
                squares += 2 * momentum * values * crosses
                squares += twice * risks
                squares += (path[index] + noise**2) * injected
                crosses = momentum * crosses + values * risks
            else:
                squares = twice * risks + (path[index] + noise**2) * injected
                crosses = values * risks
            risks = risks - 2 * step * crosses + step**2 * squares
            crosses -= step * squares
            path[index + 1] = risks.sum()
            if not math.isfinite(path[index + 1]):
                path[index + 1 :] = math.inf
                break
    return np.asarray(path[wanted.astype(int)])


@dataclass(frozen=True)
class OnePassStability:
    """Stability of the mean square of one pass.

    Attributes
    ----------
    converges : bool
        True if kappa < 1 and no single mode grows.
    kappa : float
        The gain of the feedback of the risk through the gradients' noise: R_inf = noise^2 kappa / (1 - kappa).
        inf where a single mode grows.
    critical_step : float
        The supremum of the steps that converge.
    diverges : str or None
        The cause: "the largest eigenvalue", by itself, or "the noise of the gradients", all modes together.
    """

    converges: bool
    kappa: float
    critical_step: float
    diverges: str | None


@dataclass(frozen=True, eq=False)
class LongRunVariance:
    """kappa as a function of the step, for eigenvalues in cells.

    A mode whose gradients have noise of variance lambda q / m has in the long run

        E e^2 = s (1 + mu) q / ( m (1 - mu) (2 (1 + mu) - s lambda) - s (1 + mu) lambda ),

    for torch's momentum mu, and kappa is the sum of lambda E e^2 / q.
    """

    cells: Cells
    batch_size: float
    momentum: float

    @property
    def largest_step(self) -> float:
        """The step from which on the mode of the largest eigenvalue grows by itself."""
        inertia, grown = self.batch_size * (1 - self.momentum), 1 + self.momentum
        return 2 * grown * inertia / ((inertia + grown) * self.cells.largest)

    def kappa(self, step: float, modes: ModeNodes | None = None) -> float:
        """The sum of lambda E e^2 / q, by the closest grouping or another; inf at and beyond `largest_step`."""
        if step >= self.largest_step:
            return math.inf
        inertia, grown = self.batch_size * (1 - self.momentum), 1 + self.momentum
        # 1/(c - d l) = 1/c + (d/c) l/(c - d l): the trace is exact, and the rest is a sum of lambda^2.
        constant, slope = 2 * inertia * grown, step * (inertia + grown)
        nodes = self.cells.closest() if modes is None else modes
        room = constant - slope * nodes.eigenvalues
        if room.min() <= 0:
            return math.inf
        rest = float(nodes.gain @ (1 / room))
        return step * grown / constant * (self.cells.trace + slope * rest)

    def critical_step(self) -> float:
        """The step at which kappa is one; kappa increases with the step, to infinity at `largest_step`."""
        if not math.isfinite(self.cells.trace):
            return 0.0
        end, modes = self.largest_step, self.cells.closest()

        def excess(share: float) -> float:
            return min(self.kappa(share * end, modes), 1e300) - 1

        return float(scipy.optimize.brentq(excess, 0.0, 1.0, xtol=1e-300, rtol=1e-15)) * end

    def stability(self, step: float) -> OnePassStability:
        """Stability of a step, with the cause if it diverges."""
        kappa = self.kappa(step)
        grows = None if kappa < 1 else "the noise of the gradients"
        grows = "the largest eigenvalue" if math.isinf(kappa) and math.isfinite(self.cells.trace) else grows
        return OnePassStability(kappa < 1, kappa, self.critical_step(), grows)

    def limit(self, step: float, noise: float) -> tuple[float, float]:
        """R_inf = noise^2 kappa / (1 - kappa), inf where it diverges, and its error.

        A summand is convex in lambda, so that the groupings on either side enclose the sum.
        """
        kappa = self.kappa(step)
        if kappa >= 1:
            return math.inf, 0.0
        limit = noise * noise * kappa / (1 - kappa)
        if self.cells.exact:
            return limit, 0.0
        # The summand grows with lambda: the smaller mean is below for both measures.
        ends = [self.kappa(step, modes) for modes in (self.cells.below(0.0), self.cells.above())]
        if max(ends) >= 1:
            return limit, math.inf
        return limit, max(abs(noise * noise * end / (1 - end) - limit) for end in ends)
