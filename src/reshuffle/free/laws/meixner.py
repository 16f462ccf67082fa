"""The laws whose recurrence is constant after its first step: one formula for six classical laws."""

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from reshuffle.free.checks import Complex, Real, complex_points, require_width
from reshuffle.free.laws.law import Law, Pairs
from reshuffle.free.measure import Measure

ROUNDING = float(np.finfo(float).eps)


class FreeMeixner(Law):
    """A law with recurrence ``alpha_0, alpha, alpha, ...`` and ``beta_1, beta, beta, ...``.

    With ``S = sqrt(z - low) sqrt(z - high)`` and ``B(z) = (2 beta - beta_1) z - 2 beta alpha_0 + beta_1
    alpha``,

        G(z) = 2 beta / (B + beta_1 S) = (B - beta_1 S) / (2 q(z)),   q = (B^2 - beta_1^2 S^2) / (4 beta).

    The product of two square roots, and not the square root of the product, is analytic off ``[low, high]``.
    The roots of q are where atoms can be. Source: Anshelevich, Free Meixner states (2007).

    Parameters
    ----------
    first : (alpha_0, beta_1); tail : (alpha, beta).
    edges : (low, high); roots : leading coefficient and roots of q.
    atoms : pairs (location, mass), of which those without mass are dropped.
    """

    def __init__(
        self,
        first: tuple[float, float],
        tail: tuple[float, float],
        edges: tuple[float, float],
        roots: tuple[float, tuple[float, ...]],
        atoms: Pairs = (),
    ):
        self._first = first
        self._tail = tail
        # Edges and roots come from the law's own formula: a hard edge at 0 must be 0 exactly, not
        # a rounding of it.
        self._edges = (float(edges[0]), float(edges[1]))
        require_width(f"this {type(self).__name__} law", *self._edges)
        self._roots = roots
        self._atoms = tuple((place, mass) for place, mass in sorted(atoms) if mass > 0)

    @property
    def support(self) -> Pairs:
        """The one interval of the continuous part."""
        return (self._edges,)

    @property
    def atoms(self) -> Pairs:
        """Pairs (location, mass), from left to right."""
        return self._atoms

    def _parts(self, z: Complex) -> tuple[Complex, Complex]:
        (alpha_0, beta_1), (alpha, beta) = self._first, self._tail
        root = np.sqrt(z - self._edges[0]) * np.sqrt(z - self._edges[1])
        line = (2 * beta - beta_1) * z - 2 * beta * alpha_0 + beta_1 * alpha
        return line, beta_1 * root

    def _quadratic(self, z: Complex) -> Complex:
        leading, roots = self._roots
        result = np.full(np.shape(z), leading, dtype=complex)
        for root in roots:
            result = result * (z - root)
        return result

    def _cauchy(self, z: Complex) -> Complex:
        line, root = self._parts(z)
        # Of two equal fractions take the one whose terms do not cancel.
        direct = np.abs(line + root) >= np.abs(line - root)
        with np.errstate(divide="ignore", invalid="ignore"):
            first = 2 * self._tail[1] / np.where(direct, line + root, 1)
            second = (line - root) / (2 * np.where(direct, 1, self._quadratic(z)))
        return np.where(direct, first, second)

    def _cauchy_derivative(self, z: Complex) -> Complex:
        (_, beta_1), (_, beta) = self._first, self._tail
        low, high = self._edges
        value = self._cauchy(z)
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = (2 * z - low - high) / (2 * np.sqrt(z - low) * np.sqrt(z - high))
            return np.asarray(-(value**2) / (2 * beta) * (2 * beta - beta_1 + beta_1 * slope))

    def _density(self, t: Real) -> Real:
        low, high = self._edges
        inside = (t > low) & (t < high)
        x = np.where(inside, t, (low + high) / 2)
        root = self._first[1] * np.sqrt(x - low) * np.sqrt(high - x)
        return np.where(inside, root / (2 * np.pi * np.abs(self._quadratic(x + 0j).real)), 0.0)

    @cached_property
    def measure(self) -> Measure:
        """The law as quadrature panels, which know what rounding a point beside an edge does to the density."""
        return Measure(self._density_and_error, self.support, self.atoms)

    def _density_and_error(self, t: Real) -> tuple[Real, Real]:
        density = self._density(t)
        low, high = self._edges
        nearest = np.maximum(np.minimum(np.abs(t - low), np.abs(high - t)), np.finfo(float).tiny)
        # A point that was rounded onto the edge itself has lost its density.
        lost = ROUNDING * np.abs(t) / nearest
        return density, np.where((t == low) | (t == high), np.inf, density * np.minimum(lost, 1.0))

    def recurrence(self, depth: int) -> tuple[list[float], list[float]]:
        """Return ``(alpha, beta)`` down to ``depth``."""
        (alpha_0, beta_1), (alpha, beta) = self._first, self._tail
        return [alpha_0] + [alpha] * (depth - 1), [0.0, beta_1] + [beta] * (depth - 1)

    def r_transform(self, g: ArrayLike) -> Complex:
        """Return ``R(g) = alpha_0 + 2 beta_1 g / (1 + d g + sqrt((1 + d g)^2 + 4 (beta_1 - beta) g^2))``.

        Here ``d = alpha_0 - alpha``; ``g`` has any shape. From ``G = 1/(z - alpha_0 - beta_1 G_tail)``.
        """
        (alpha_0, beta_1), (alpha, beta) = self._first, self._tail
        points = complex_points("g", g)
        line = 1 + (alpha_0 - alpha) * points
        # Two factors keep the branch at g = 0 out of the law's whole domain, as in the Cauchy transform.
        gap = 2 * np.sqrt(complex(beta - beta_1)) * points
        return np.asarray(alpha_0 + 2 * beta_1 * points / (line + np.sqrt(line - gap) * np.sqrt(line + gap)))

    @property
    def rational_r(self) -> tuple[float, float, float] | None:
        """``(a, b, c)`` when ``R(g) = a + b g / (1 + c g)``, which is when ``beta_1 = beta``."""
        (alpha_0, beta_1), (alpha, beta) = self._first, self._tail
        return (alpha_0, beta_1, alpha_0 - alpha) if beta_1 == beta else None
