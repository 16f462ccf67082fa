"""Many courses of small states followed at once: as many products in one call."""

from collections.abc import Iterator, Sequence

import numpy as np

from reshuffle._core.arrays import FloatArray
from reshuffle._core.threads import few_threads
from reshuffle.epoch.affine.affine_map import Power, Powers, has_faded
from reshuffle.epoch.affine.course import Course

_SMALL = 64
"""Length of a state up to which a call costs more than its product."""


def serves(courses: Sequence[Course]) -> bool:
    """Whether there are several courses, of one map each, with small states."""
    first = courses[0]
    return len(courses) > 1 and first.recipe.is_constant and first.visits(0).dimension <= _SMALL


def states(
    courses: Sequence[Course], start: FloatArray, epochs: FloatArray, inputs: FloatArray | None
) -> Iterator[FloatArray]:
    """The states (courses, d, z) after each of the ascending epochs, as `Course.states` has them one by one."""
    begin = courses[0].begin(start, inputs)
    repeated = [course.repeated(inputs) for course in courses]
    powers = _Powers([once.powers for once in repeated])
    current, done = np.repeat(begin[np.newaxis], len(courses), axis=0), 0.0
    for epoch in epochs:
        if np.isinf(epoch):
            current = np.array([once.end(begin) for once in repeated])
        else:
            current = powers.after(epoch - done, current)
            for number in np.flatnonzero(~np.isfinite(current).all(axis=(1, 2))):
                current[number] = repeated[number].overflown(epoch, begin)
        done = epoch
        yield current


class _Powers:
    """Maps with the same L and R, each repeated the same number of times."""

    def __init__(self, each: Sequence[Powers]):
        self._each, self._last, self._units = each, 0.0, each[0].units

    def after(self, count: float, states: FloatArray) -> FloatArray:
        """The states (courses, d, z) after `count` more applications; nan where they leave the range of numbers."""
        if not count:
            return states
        with few_threads(states.shape[1]), np.errstate(over="ignore", invalid="ignore"):
            if count != self._last:
                self._last = count
                self._stack([powers.power(int(count)) for powers in self._each])
            moved = self._kernels @ (self._right * states) - self._entries
            after = states - self._left * moved
            if self._units is not None and self._faded.any():
                left_over = self._left_over @ (self._units * states[self._faded]) / self._units
                after[self._faded] = left_over + self._left * self._entries[self._faded]
            return np.asarray(after)

    def _stack(self, made: Sequence[Power]) -> None:
        self._left, self._right = made[0].map.left[:, np.newaxis], made[0].map.right[:, np.newaxis]
        self._kernels = np.array([power.map.kernel for power in made])
        self._entries = np.array([power.map.entries for power in made])
        self._faded = np.array([has_faded(power.left_over) for power in made])
        self._left_over = np.array([power.left_over for power in made])[self._faded]
