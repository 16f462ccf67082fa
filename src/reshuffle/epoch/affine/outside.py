"""What a run has beside its state: noise, given responses, the force of a penalty, and what is outside."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle.epoch.affine.affine_map import AffineMap, Powers
from reshuffle.epoch.affine.visits import Visits
from reshuffle.problem.row_space import RowSpace
from reshuffle.recipe import Hyperparameters
from reshuffle.recipe.recipe import Recipe


@dataclass(frozen=True, eq=False)
class Inputs:
    """White inputs zeta, E zeta zeta' = I, of which the first is the constant 1.

    Parameters
    ----------
    truth : (r,)
        u_star = scale V'beta_star, which a penalty pulls away from.
    noise : float
        The standard deviation of independent noise in the responses: one input per row of the blocks; or
    given : (rows,), optional
        the noise itself, y - X beta_star, if only the orders are random: then the constant is the only input.
    """

    truth: FloatArray
    noise: float = 0.0
    given: FloatArray | None = None

    def count(self, visits: Visits) -> int:
        """How many inputs there are."""
        return 1 if self.given is not None else 1 + len(visits.blocks.rows)

    def entry(self, visits: Visits, batch: int, slot: int) -> tuple[IntArray, FloatArray]:
        """Which inputs (c,) enter at a visit, and how: H (d, c)."""
        force = visits.force(self.truth, slot)[:, np.newaxis]
        if self.given is not None:
            pushed = visits.entry(batch, slot) @ self.given[visits.columns(batch)]
            return np.zeros(1, dtype=np.int64), force + pushed[:, np.newaxis]
        columns = np.concatenate([[0], 1 + visits.columns(batch)])
        return columns, np.hstack([force, self.noise * visits.entry(batch, slot)])

    def residual_squares(self, rows: FloatArray, second: FloatArray, cross: FloatArray) -> FloatArray:
        """E (x_i'e - eta_i)^2 for each row (n,), from E e e' (r, r) and E e zeta' (r, z)."""
        own = np.einsum("ij,ij->i", rows @ second, rows)
        if self.given is not None:
            return np.asarray(own - 2 * self.given * (rows @ cross[:, 0]) + self.given**2)
        with_noise = np.einsum("ij,ji->i", rows, cross[:, 1:])
        return np.asarray(own - 2 * self.noise * with_noise + self.noise**2)


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

    def visit(self, epoch: int, slot: int = 0) -> AffineMap:
        """On a coordinate and its momentum buffer, after `epoch` epochs: what `Visits` does without rows."""
        scaled: Hyperparameters = self.recipe.at(epoch).scaled(self.space)
        size, of_gradient, of_buffer = (
            math.sqrt(scaled.penalty),
            scaled.of_gradient(slot),
            scaled.of_buffer(slot),
        )
        return AffineMap(
            left=np.array([scaled.step * size, 1.0]),
            right=np.array([size, 1.0]),
            kernel=np.array([[of_gradient, of_buffer], [-1.0, 1 - scaled.momentum]]),
            entries=np.zeros((2, 1)),
            weight=1.0,
            entry_sizes=np.zeros(1),
        )

    @property
    def rate(self) -> float:
        """The spectral radius of an epoch."""
        with np.errstate(over="ignore"):
            return float(np.power(self.visit(0).radius, self.steps))

    @property
    def settles(self) -> bool:
        """Whether what is outside fades, or nothing acts on it."""
        hyper = self.recipe.at(0)
        return hyper.step * hyper.penalty == 0 or self.visit(0).settles

    def fades(self, epochs: FloatArray) -> FloatArray:
        """What is left of the start after each of the ascending epochs."""
        if self.recipe.penalty == 0:
            return np.ones(len(epochs))
        done, state, fades = 0, self.state(0), []
        for epoch in epochs:
            if np.isinf(epoch):
                fades.append(self.end)
                continue
            state, done = self.onward(state, done, int(epoch)), int(epoch)
            fades.append(float(state[0, 0]) if np.isfinite(state).all() else math.inf)
        return np.array(fades)

    def state(self, epoch: int) -> FloatArray:
        """A coordinate that was one at the start, and its momentum buffer, (2, 1), after an epoch."""
        return self.onward(np.array([[1.0], [0.0]]), 0, epoch)

    @cached_property
    def _powers(self) -> Powers:
        """Those of a visit, where all visits are alike."""
        return Powers(self.visit(0))

    def onward(self, state: FloatArray, done: int, epoch: int) -> FloatArray:
        """A state (2, 1) that is known after `done` epochs, after a later one."""
        if self.recipe.is_constant:
            return self._powers.after(self.steps * (epoch - done), state)
        for passed in range(done, epoch):
            state = self._through(passed, state)
        return state

    def _through(self, epoch: int, state: FloatArray) -> FloatArray:
        """The state after the epoch that follows `epoch` others."""
        if not self.recipe.at(epoch).shares:
            return Powers(self.visit(epoch)).after(self.steps, state)
        with np.errstate(over="ignore", invalid="ignore"):
            for slot in range(self.steps):
                state = self.visit(epoch, slot)(state)
        return state

    def last(self, state: FloatArray) -> FloatArray:
        """A state (2, 1) in the end, from which it has come on for ever."""
        hyper = self.recipe.at(0)
        if hyper.step * hyper.penalty == 0:
            return state
        return np.zeros((2, 1)) if self.visit(0).settles else np.full((2, 1), np.inf)

    @property
    def end(self) -> float:
        """What is left of the start in the end."""
        hyper = self.recipe.at(0)
        if hyper.step * hyper.penalty == 0:
            return 1.0
        return 0.0 if self.visit(0).settles else math.inf
