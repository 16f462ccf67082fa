"""tau(R(z) Sigma R(z') M) in the limit: two resolvents with Sigma between them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

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

    def pairs(self, first: Any, second: Any) -> Complex:
        """T at pairs of points, given by two index arrays (pairs,)."""
        system, state = self.system, self.state
        left, right = ([block[index] for block in state.blocks] for index in (first, second))
        one = [np.zeros((1, 1, len(sizes), len(sizes))) for sizes in system.symmetry.sizes]
        one[0][..., 0, 0] = 1.0
        source = self._between(left, one, right)
        factors = [(block[first], block[second]) for block in state.factors]
        target = self._weigh(factors, source)
        directions = system.unpack_all(np.eye(system.entries)[np.newaxis])
        images = self._weigh(factors, self._between(left, system.spread(directions), right))
        matrix = np.eye(system.entries) - system.pack_all(images).transpose(0, 2, 1)
        solved = np.linalg.solve(matrix, -system.pack_all(target).transpose(0, 2, 1)).transpose(0, 2, 1)
        corner = source[0] - self._between(left, system.spread(system.unpack_all(solved)), right)[0]
        vectors = system.noise_vectors(state)
        return np.asarray(np.einsum("pi,pij,pj->p", vectors[first], corner[:, 0], vectors[second]))

    def _between(self, left: Any, moves: Any, right: Any) -> Any:
        """The mean of lambda^2 G(lambda) move G'(lambda), on the subsets without a batch."""
        weights = self.system.weights * self.system.eigenvalues**2
        outer = []
        for a, move, b in zip(left, moves, right, strict=True):
            outer.append(
                sum(
                    weight * (a[:, number, np.newaxis] @ move @ b[:, number, np.newaxis])
                    for number, weight in enumerate(weights)
                )
            )
        return self.system.restrict(outer)

    def _weigh(self, factors: Any, inner: Any) -> Any:
        """The corner v c X g X' of the R-transform's derivative."""
        slope = self.system.transforms[0].b
        return [
            slope * (a[:, np.newaxis] @ g @ b[:, np.newaxis])
            for (a, b), g in zip(factors, inner, strict=True)
        ]
