"""Affine images of laws."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reshuffle.free.checks import (
    LARGEST,
    SMALLEST,
    Complex,
    Real,
    complex_points,
    location,
    number,
    probabilities,
    require_width,
    size,
)
from reshuffle.free.laws.base import Law, Pairs


class Affine(Law):
    """The law of ``scale x + shift`` for x with law ``base``: ``G(z) = G_base((z - shift)/scale)/scale``.

    >>> from reshuffle.free import Projection
    >>> (2 * Projection(0.5) - 1).atoms
    ((-1.0, 0.5), (1.0, 0.5))
    """

    def __init__(self, base: Law, scale: float, shift: float = 0.0):
        a, c = number("scale", scale), location("shift", shift)
        if a == 0:
            raise ValueError(
                "scale must be a non-zero real number, got 0; a constant is a Discrete law of one point"
            )
        size("abs(scale)", abs(a), SMALLEST**2, LARGEST**2)
        # Images of images collapse, so that a law normalised many times keeps one rounding.
        inner = base if isinstance(base, Affine) else None
        self.base: Law = inner.base if inner else base
        self.factor: float = a * inner.factor if inner else a
        self.shift: float = a * inner.shift + c if inner else c
        for low, high in self.support:
            require_width(repr(self), low, high)

    @property
    def support(self) -> Pairs:
        """The images of the intervals, from left to right."""
        ends = [sorted((self._image(low), self._image(high))) for low, high in self.base.support]
        return tuple(sorted((low, high) for low, high in ends))

    @property
    def atoms(self) -> Pairs:
        """The images of the atoms, from left to right."""
        return tuple(sorted((self._image(place), mass) for place, mass in self.base.atoms))

    def _image(self, x: Any) -> Any:
        return self.factor * x + self.shift

    def _preimage(self, x: Any) -> Any:
        return (x - self.shift) / self.factor

    def _cauchy(self, z: Complex) -> Complex:
        return self._reflected(self.base._cauchy, z) / self.factor

    def _cauchy_derivative(self, z: Complex) -> Complex:
        return self._reflected(self.base._cauchy_derivative, z) / self.factor**2

    def _reflected(self, function: Any, z: Complex) -> Complex:
        # A negative factor swaps the half-planes: on the cut the limit from above must be asked for as such.
        inner = self._preimage(z)
        if self.factor > 0:
            return np.asarray(function(inner))
        return np.asarray(np.conj(function(np.conj(inner) + 0j)))

    def _density(self, t: Real) -> Real:
        return np.asarray(self.base._density(self._preimage(t)) / abs(self.factor))

    def quantile(self, q: ArrayLike) -> Real:
        """Return the smallest x with ``cdf(x) >= q``, with the shape of ``q``."""
        levels = probabilities("q", q)
        return np.asarray(self._image(self.base.quantile(levels if self.factor > 0 else 1 - levels)))

    def recurrence(self, depth: int) -> tuple[list[Any], list[Any]]:
        """Return the base's recurrence, shifted and scaled."""
        alpha, beta = self.base.recurrence(depth)
        return [self._image(a) for a in alpha], [self.factor**2 * b for b in beta]

    def r_transform(self, g: ArrayLike) -> Complex:
        """Return ``scale R_base(scale g) + shift``."""
        return np.asarray(self._image(self.base.r_transform(self.factor * complex_points("g", g))))

    @property
    def rational_r(self) -> tuple[float, float, float] | None:
        """``(a, b, c)`` when ``R(g) = a + b g / (1 + c g)``, else None."""
        inner = self.base.rational_r
        if inner is None:
            return None
        a, b, c = inner
        return self._image(a), self.factor**2 * b, self.factor * c

    def __repr__(self) -> str:
        tail = f" {'+' if self.shift > 0 else '-'} {abs(self.shift):g}" if self.shift else ""
        return f"{self.factor:g}*{self.base!r}{tail}"
