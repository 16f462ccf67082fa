"""What an average of the iterates is outside the row space, where only a penalty acts."""

from functools import reduce

import numpy as np

from reshuffle._core import FloatArray
from reshuffle.epoch.affine.affine_map import AffineMap, Powers
from reshuffle.epoch.affine.averaged_visits import averaged_map
from reshuffle.epoch.affine.outside import Outside
from reshuffle.recipe import Average


class AveragedOutside:
    """What is left of the start, outside the row space, in an average of the iterates.

    Parameters
    ----------
    plain : Outside
    average : Average
    """

    def __init__(self, plain: Outside, average: Average):
        self.plain, self.average = plain, average

    @property
    def rate(self) -> float:
        """The spectral radius of an epoch."""
        return self.plain.rate

    @property
    def settles(self) -> bool:
        """Whether what is outside fades, or nothing acts on it."""
        return self.plain.settles

    def _epoch(self, epoch: int) -> AffineMap:
        """On a coordinate, its momentum buffer and its average, after `epoch` epochs."""
        visit, steps = self.plain.visit(epoch), self.plain.steps
        if self.plain.recipe.at(epoch).shares:
            visits = [self.plain.visit(epoch, slot) for slot in range(steps)]
            if self.average.is_per_visit:
                return reduce(AffineMap.then, [averaged_map(each, 1, self.average) for each in visits])
            return averaged_map(reduce(AffineMap.then, visits), 1, self.average)
        if self.average.is_per_visit:
            return Powers(averaged_map(visit, 1, self.average)).power(steps).map
        return averaged_map(Powers(visit).power(steps).map, 1, self.average)

    def fades(self, epochs: FloatArray) -> FloatArray:
        """What is left of the start after each of the ascending epochs."""
        recipe, start = self.plain.recipe, self.average.start
        if recipe.penalty == 0 or not len(epochs):
            return np.ones(len(epochs))
        before = self.plain.state(start)
        state = np.concatenate([before, before[:1] if self.average.begins_with_iterate else np.zeros((1, 1))])
        once, done, fades = Powers(self._epoch(start)), start, []
        for epoch in epochs:
            if np.isinf(epoch):
                fades.append(self.plain.end)
                continue
            if recipe.is_constant:
                state = once.after(int(epoch) - done, state)
            else:
                for passed in range(done, int(epoch)):
                    state = Powers(self._epoch(passed)).after(1, state)
            done = int(epoch)
            left = float(state[2, 0]) / self.average.divisor(epoch, self.plain.steps)
            fades.append(left if np.isfinite(state).all() else np.inf)
        return np.array(fades)
