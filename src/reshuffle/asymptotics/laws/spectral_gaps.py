"""Where a spectrum on the positive axis has gaps: dips seen from above, and what becomes of them on the axis."""

import math

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle.asymptotics.laws.batch_system import BatchSystem
from reshuffle.asymptotics.laws.contraction import contracted
from reshuffle.asymptotics.laws.turning_ends import gap
from reshuffle.free.checks import Real

_ANGLE = 0.04
"""Argument of the points that look at the axis, and their relative distance."""
_MOST = 500
"""Points that look."""
_DEEP = 0.7
"""Of the smaller one of the two heights beside it, below which a low is a dip."""


def dips(system: BatchSystem, low: float, high: float) -> list[tuple[float, float, float]]:
    """Places where the spectrum between `low` and `high` may have a gap, and the peaks on either side.

    They are lows of the density of log x, smoothed by as much as the points are above the axis.

    >>> system = BatchSystem(0.02, 0.1, 1, np.array([1.0, 5.0]), np.full(2, 0.5))
    >>> [[round(place, 2) for place in dip] for dip in dips(system, 0.08, 0.6)]
    [[0.22, 0.1, 0.51]]
    """
    count = min(_MOST, max(8, math.ceil(math.log(high / low) / _ANGLE)))
    x = np.geomspace(low, high, count)
    z = x * np.exp(1j * _ANGLE) / system.unit
    unknowns, _ = contracted(system, z)
    state = system.evaluate(system.base(z, np.zeros(count)), unknowns)
    return _lows(x, -(z * state.resolvent[:, 0, 0]).imag)


def _lows(x: FloatArray, height: Real) -> list[tuple[float, float, float]]:
    """Lows of `height` (n,) that are deep, each with the highest places up to the next ones."""
    inner = height[1:-1]
    places = np.flatnonzero((inner < height[:-2]) & (inner <= height[2:])) + 1
    found: list[tuple[float, float, float]] = []
    start = 0
    for number, place in enumerate(places):
        last = places[number + 1] if number + 1 < len(places) else len(x)
        left = start + int(np.argmax(height[start : place + 1]))
        right = place + int(np.argmax(height[place:last]))
        if height[place] < _DEEP * min(height[left], height[right]):
            found.append((float(x[place]), float(x[left]), float(x[right])))
            start = int(place)
    return found


def intervals(
    system: BatchSystem, looking: BatchSystem, low: float, high: float
) -> tuple[tuple[float, float], ...]:
    """The intervals of a spectrum between its ends low > 0 and high, but for gaps too narrow to be seen.

    Parameters
    ----------
    system : BatchSystem
    looking : BatchSystem
        One that costs less and has its gaps at the same places, nearly: they are looked for there, and their ends
        are those of `system`.
    low, high : float
    """
    found = [gap(system, *dip) for dip in dips(looking, low, high)]
    ends = [low, *(end for ends in found if ends is not None for end in ends), high]
    return tuple(zip(ends[::2], ends[1::2], strict=True))
