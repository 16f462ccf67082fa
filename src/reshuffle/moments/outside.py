"""What a penalty does outside the row space, where no visit sees anything else."""

import math

import numpy as np

from reshuffle.arrays import FloatArray
from reshuffle.moments.visits import Hyperparameters
from reshuffle.recipe import Recipe
from reshuffle.row_space import RowSpace


class Outside:
    """Every coordinate outside the row space is multiplied by the same number in an epoch: 1 without a penalty.

    Parameters
    ----------
    recipe : Recipe
    steps : int
        Visits in an epoch.
    space : RowSpace
    """

    def __init__(self, recipe: Recipe, steps: int, space: RowSpace):
        self.recipe, self.steps, self.space = recipe, steps, space

    def _visit(self, epoch: int) -> FloatArray:
        """(2, 2), on a coordinate and its momentum buffer, in the epoch after `epoch` others."""
        scaled: Hyperparameters = self.recipe.at(epoch).scaled(self.space)
        decay = scaled.step * scaled.penalty
        return np.array([[1 - decay, -scaled.step * scaled.momentum], [scaled.penalty, scaled.momentum]])

    @property
    def rate(self) -> float:
        """The spectral radius of an epoch."""
        with np.errstate(over="ignore"):
            return float(np.power(np.abs(np.linalg.eigvals(self._visit(0))).max(), self.steps))

    def fades(self, epochs: FloatArray) -> FloatArray:
        """What is left of the start after each of the ascending epochs."""
        if self.recipe.penalty == 0:
            return np.ones(len(epochs))
        state, done, fades = np.array([1.0, 0.0]), 0, []
        for epoch in epochs:
            if np.isinf(epoch):
                fades.append(self._end())
                continue
            with np.errstate(over="ignore", invalid="ignore"):
                if self.recipe.is_constant:
                    state = np.linalg.matrix_power(self._visit(0), self.steps * int(epoch - done)) @ state
                else:
                    for passed in range(done, int(epoch)):
                        state = np.linalg.matrix_power(self._visit(passed), self.steps) @ state
            done = int(epoch)
            fades.append(float(state[0]) if np.isfinite(state[0]) else math.inf)
        return np.array(fades)

    def _end(self) -> float:
        hyper = self.recipe.at(0)
        if hyper.step * hyper.penalty == 0:
            return 1.0
        return 0.0 if self.rate < 1 else math.inf
