"""Free convolutions of laws as scalar fixed points: sums and products, each law with a multiplicity of its own."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reshuffle.free.checks import Complex
from reshuffle.free.laws import Law


@dataclass(frozen=True)
class Moved:
    """One evaluation of the map: what is subtracted from z, the resolvent, the next unknowns and their slopes."""

    subtracted: Complex
    resolvent: Complex
    image: Complex
    points: Complex
    slopes: Complex


class WeightedLaws:
    """The joint fixed point of laws mu_j that enter t_j times, t_j real and at least one.

    Every law is known through ``K_j(z) = z - 1/G_j(z)``, and so is what they make together: ``G = 1/(z - K)``. The
    subordinated points zeta_j are where ``K_j(zeta_j)`` is asked for. A `FixedPoint` of the solver, of size one.

    Parameters
    ----------
    laws : the mu_j; weights : the t_j, as many; norm : of what they make together, in the units of z.
    """

    size = 1
    direct = True

    def __init__(self, laws: Sequence[Law], weights: Sequence[float], norm: float):
        self.laws, self.weights, self.norm = tuple(laws), np.asarray(weights, dtype=float), norm
        self.unknowns = len(self.laws)

    def base(self, z: Complex, height: Complex) -> Complex:
        """Return ``z + i height``, shape (points, 1, 1)."""
        return np.asarray((z + 1j * height)[:, None, None])

    @abstractmethod
    def start(self, points: int) -> Complex:
        """Return the unknowns at infinity: what K_j is there, the mean."""

    @abstractmethod
    def combined(self, unknowns: Complex) -> Complex:
        """Return K (points,) from the unknowns (points, laws)."""

    @abstractmethod
    def places(self, z: Complex, unknowns: Complex) -> Complex:
        """Return the subordinated points zeta_j (points, laws)."""

    @abstractmethod
    def unknown(self, k: Complex) -> Complex:
        """Return the unknown that stands for a value of K_j."""

    @abstractmethod
    def speed(self, state: Moved) -> Complex:
        """Return how zeta_j moves with the unknowns, (points, laws, laws), times what the image moves with it."""

    @abstractmethod
    def drift(self, z: Complex, state: Moved) -> Complex:
        """Return how the image moves with z, (points, laws)."""

    @abstractmethod
    def pull(self, state: Moved, unknowns: Complex) -> Complex:
        """Return how K moves as the unknowns do, (points,)."""

    def evaluate(self, base: Complex, unknowns: Complex) -> Moved:
        """Return the map at ``unknowns`` (points, laws)."""
        z = base[:, 0, 0]
        k = self.combined(unknowns)
        points = self.places(z, unknowns)
        images, slopes = np.empty_like(points), np.empty_like(points)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            for j, law in enumerate(self.laws):
                g = law._cauchy(points[:, j])
                images[:, j] = points[:, j] - 1 / g
                slopes[:, j] = 1 + law._cauchy_derivative(points[:, j]) / g**2
            return Moved(k, (1 / (z - k))[:, None, None], self.unknown(images), points, slopes)

    def jacobian(self, state: Moved) -> Complex:
        """Return the derivative of the map, (points, laws, laws)."""
        return self.speed(state)

    def tangent(self, state: Moved, directions: Complex) -> Complex:
        """Return the derivative of the map along ``directions``, (points, count, laws)."""
        return np.asarray(directions @ self.speed(state).transpose(0, 2, 1))

    def shift_tangent(self, state: Moved, direction: Complex) -> Complex:
        """Return the derivative of the map as ``base`` moves along ``direction``, (points, laws)."""
        z = state.subtracted + 1 / state.resolvent[:, 0, 0]
        moved = np.broadcast_to(np.asarray(direction).reshape(-1, 1), (len(z), 1))
        return np.asarray(moved * self.drift(z, state))

    def resolvent_tangent(self, state: Moved, direction: Any, unknowns: Complex) -> Complex:
        """Return the derivative of G as ``base`` moves along ``direction`` and the unknowns along theirs."""
        change = np.zeros_like(state.resolvent) + direction
        return np.asarray(-(state.resolvent**2) * (change - self.pull(state, unknowns)[:, None, None]))


class Sums(WeightedLaws):
    """``K = sum_j t_j K_j(zeta_j)`` with ``zeta_j = z - K + K_j``; the unknowns are the K_j.

    For two laws these are the subordination functions of Biane (1998) and of Belinschi and Bercovici
    (2007); for one
    law of multiplicity t the power of Nica and Speicher (1996).
    """

    def start(self, points: int) -> Complex:
        """Return the means."""
        means = np.array([law.moments(1)[0] for law in self.laws], dtype=complex)
        return np.tile(means, (points, 1))

    def combined(self, unknowns: Complex) -> Complex:
        """Return ``sum_j t_j K_j``."""
        return np.asarray(unknowns @ self.weights)

    def places(self, z: Complex, unknowns: Complex) -> Complex:
        """Return ``z - K + K_j``."""
        return np.asarray((z - self.combined(unknowns))[:, None] + unknowns)

    def unknown(self, k: Complex) -> Complex:
        """Return K_j itself."""
        return k

    def speed(self, state: Moved) -> Complex:
        """Return ``K_j'(zeta_j) (delta_ij - t_i)``."""
        return np.asarray(state.slopes[:, :, None] * (np.eye(self.unknowns) - self.weights))

    def drift(self, z: Complex, state: Moved) -> Complex:
        """Return ``K_j'(zeta_j)``."""
        return state.slopes

    def pull(self, state: Moved, unknowns: Complex) -> Complex:
        """Return ``sum_j t_j dK_j``."""
        return np.asarray(unknowns @ self.weights)


class Products(WeightedLaws):
    """``K = prod_j K_j(zeta_j)^t_j`` with ``zeta_j = z K_j / K``, on the half-line; the unknowns are ``log K_j``.

    With ``eta(1/z) = K(z)/z`` this is ``eta^-1(m)/m = prod_j (eta_j^-1(m)/m)^t_j``, S-transforms that multiply
    (Voiculescu, 1987). For two laws the plain iteration of the map is that of Belinschi and Bercovici (2007).
    """

    def start(self, points: int) -> Complex:
        """Return the logarithms of the means."""
        means = np.array([law.moments(1)[0] for law in self.laws], dtype=complex)
        return np.tile(np.log(means), (points, 1))

    def combined(self, unknowns: Complex) -> Complex:
        """Return ``exp(sum_j t_j log K_j)``."""
        return np.asarray(np.exp(unknowns @ self.weights))

    def places(self, z: Complex, unknowns: Complex) -> Complex:
        """Return ``z K_j / K``."""
        return np.asarray(z[:, None] * np.exp(unknowns - (unknowns @ self.weights)[:, None]))

    def unknown(self, k: Complex) -> Complex:
        """Return ``log K_j`` with a cut in the upper half-plane, where no K_j is."""
        return np.asarray(np.log(1j * k) - 0.5j * np.pi)

    def speed(self, state: Moved) -> Complex:
        """Return ``zeta_j K_j'/K_j (delta_ij - t_i)``."""
        return np.asarray(self._elasticity(state)[:, :, None] * (np.eye(self.unknowns) - self.weights))

    def _elasticity(self, state: Moved) -> Complex:
        return np.asarray(state.points * state.slopes * np.exp(-state.image))

    def drift(self, z: Complex, state: Moved) -> Complex:
        """Return ``zeta_j K_j'/K_j / z``."""
        return np.asarray(self._elasticity(state) / z[:, None])

    def pull(self, state: Moved, unknowns: Complex) -> Complex:
        """Return ``K sum_j t_j dlog K_j``."""
        return np.asarray(state.subtracted * (unknowns @ self.weights))
