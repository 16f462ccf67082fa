"""Descent in the coordinates of the row space, as those see it who leave out rows."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from reshuffle._arrays import BoolArray, FloatArray, IntArray
from reshuffle.problem.batches import Blocks
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.recipe import Hyperparameters
from reshuffle.schemes.base import Scheme


@dataclass(frozen=True, eq=False)
class Descent:
    """A problem in the coordinates of its row space, seen from the start, with features of size one.

    Attributes
    ----------
    problem : LeastSquares
    scheme : Scheme
    hyperparameters : Hyperparameters
        A step and a penalty, for the features as they are.
    start : (p,) or (p, t)
    factors : (n,)
        What leaving out each row is multiplied by: more than one where it is left out of the mean too by which all
        were centred.
    """

    problem: LeastSquares
    scheme: Scheme
    hyperparameters: Hyperparameters
    start: FloatArray
    factors: FloatArray

    @property
    def step(self) -> float:
        """That of features of size one."""
        return self.hyperparameters.scaled(self.problem.row_space).step

    @property
    def shrinkage(self) -> float:
        """What the penalty takes of the parameters in a visit."""
        return self.hyperparameters.step * self.hyperparameters.penalty

    @cached_property
    def origin(self) -> FloatArray:
        """The start (r, t)."""
        space = self.problem.row_space
        inside = space.scale * space.coordinates(self.start)
        return np.asarray(np.broadcast_to(columns(inside), (space.dimension, self.outputs)))

    @property
    def outputs(self) -> int:
        """How many responses a row has."""
        return 1 if self.problem.y.ndim == 1 else self.problem.y.shape[1]

    @cached_property
    def blocks(self) -> Blocks:
        """The statistics of the batches."""
        n = self.problem.n
        return self.problem.blocks(self.scheme.partition(n), self.scheme.divisors(n))

    def rows(self, members: IntArray) -> FloatArray:
        """The rows (m, r)."""
        return self.problem.rows_inside(members)

    def responses(self, members: IntArray, rows: FloatArray) -> FloatArray:
        """What is left of the responses (m, t) at the start."""
        return np.asarray(columns(self.problem.y[members]) - rows @ self.origin)

    @cached_property
    def divisors(self) -> FloatArray:
        """What the gradient of each row is divided by in its visit; infinity if it is not visited."""
        found = np.full(self.problem.n, np.inf)
        n = self.problem.n
        for members, divisor in zip(self.scheme.partition(n), self.scheme.divisors(n), strict=True):
            found[members] = divisor
        return found

    @property
    def leaves_means(self) -> bool:
        """Whether rows are left out of the mean by which all were centred, which batches feel on average alone."""
        return bool((self.factors != 1).any())

    @cached_property
    def alone(self) -> BoolArray:
        """Which of the rows alone see some direction (n,)."""
        return self.problem.rows_alone(besides_mean=self.leaves_means)

    def visit(self, batch: int, matrix: FloatArray) -> FloatArray:
        """What a visit takes of the columns (r, m): (penalty + W_b) M, times the step."""
        rows = self.blocks.rows[self.blocks.of(batch)]
        gradient = rows.T @ (rows @ matrix) / self.blocks.divisors[batch]
        return np.asarray(self.step * gradient + self.shrinkage * matrix)

    @property
    def parts(self) -> int:
        """How many vectors the state has: the parameters, and the buffer if there is momentum."""
        return 2 if self.hyperparameters.momentum else 1

    def taken(self, batch: int, states: FloatArray) -> FloatArray:
        """What a visit takes of states (d, m)."""
        if self.parts == 1:
            return self.visit(batch, states)
        parameters, buffer = np.split(states, 2)
        gradient, by = self.visit(batch, parameters) / self.step, self.hyperparameters
        moved = self.step * (by.of_gradient(0) * gradient + by.of_buffer(0) * buffer)
        return np.vstack([moved, (1 - by.momentum) * buffer - gradient])

    def visited_before(self, batch: int, matrix: FloatArray) -> FloatArray:
        """M A_b (m, d), for a matrix M that acts after a visit A_b."""
        if self.parts == 1:
            return np.asarray(matrix - self.visit(batch, matrix.T).T)
        of_parameters, of_buffer = np.split(matrix, 2, axis=1)
        by = self.hyperparameters
        entering = of_buffer - self.step * by.of_gradient(0) * of_parameters
        before = of_parameters + self.visit(batch, entering.T).T / self.step
        return np.hstack([before, by.momentum * of_buffer - self.step * by.of_buffer(0) * of_parameters])

    def entered(self, force: FloatArray) -> FloatArray:
        """How minus a gradient (r, m) enters the state, (d, m)."""
        moved = self.step * self.hyperparameters.of_gradient(0) * force
        return moved if self.parts == 1 else np.vstack([moved, -force])

    def gain(self, batch: int) -> FloatArray:
        """What a visit adds from the start, (r, t)."""
        place = self.blocks.of(batch)
        rows = self.blocks.rows[place]
        missing = columns(self.blocks.response[place]) - rows @ self.origin
        return np.asarray(
            self.step * rows.T @ missing / self.blocks.divisors[batch] - self.shrinkage * self.origin
        )


def columns(array: FloatArray) -> FloatArray:
    """The array (m, t), where a vector is one column."""
    return array if array.ndim == 2 else array[:, np.newaxis]
