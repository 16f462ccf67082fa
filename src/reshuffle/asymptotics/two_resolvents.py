"""tau(R(z) Sigma R(z') M) in the limit: two resolvents with Sigma between them."""

from dataclasses import dataclass

import numpy as np

from reshuffle._core.arrays import IntArray
from reshuffle.asymptotics.batch_system import BatchSystem, State
from reshuffle.free.checks import Complex


@dataclass(frozen=True, eq=False)
class TwoResolvents:
    """The pair transform T(z, z') = tau((z - alpha Z)^-1 Sigma (z' - alpha Z)^-1 M) at solved points.

    The block matrix [[A(z), -E (x) Sigma], [0, A(z')]] has A(z)^-1 E Sigma A(z')^-1 as the corner of its inverse,
    and is a linearization like A itself. Its fixed point is triangular: given the solutions at z and z', the corner
    solves one small linear system.

    Parameters
    ----------
    system : BatchSystem
    state : State
        Evaluated at the solutions of all points.
    """

    system: BatchSystem
    state: State

    def pairs(self, first: IntArray, second: IntArray) -> Complex:
        """T at pairs of points, given by two index arrays (pairs,)."""
        system, state = self.system, self.state
        left, right = ([block[index] for block in state.blocks] for index in (first, second))
        before, after = ([block[index] for block in state.factors] for index in (first, second))
        maps = system.between(left, right, 2)
        source, through = system.from_corner(maps), system.through(maps)
        matrix = np.eye(system.entries) - system.weigh(before, after, through)
        solved = np.linalg.solve(matrix, -system.weigh(before, after, source))
        corner = (source - through @ solved)[..., 0]
        vectors = system.noise_vectors(state)
        size = vectors.shape[1]
        inner = corner[:, : size * size].reshape(-1, size, size)
        return np.asarray(np.einsum("pi,pij,pj->p", vectors[first], inner, vectors[second]) / system.unit)
