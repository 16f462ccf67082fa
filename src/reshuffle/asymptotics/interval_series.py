"""A law on few intervals as a series around each: values off the axis, where they are found at once, tell all."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import polynomial

from reshuffle._arrays import FloatArray
from reshuffle.free.checks import Complex

_CIRCLES = ((1.3, 64), (1.15, 128), (1.06, 384), (1.03, 700))
"""Radii of circles around an interval, mapped to the unit circle, and the points on their upper halves."""
_DIGITS = 35.0
"""Decrease of the logarithm of powers of w between the circle and the neighbours of the interval."""
_HALF_PLANE = 3.0
"""Largest argument of a point of a circle: below pi, so that its upper half is above the axis."""
_ABOVE_NOISE = 10.0
"""Least ratio of coefficients on the circle to those of the highest degrees, which are noise."""
_RESOLVED = 1e-9
"""Size, relative to the largest coefficient, to which the series must decay before the noise."""
_FALLING = 0.3
"""Largest ratio of coefficients in the second half of their degrees to those in the second quarter."""
_BELOW_ZERO = 1e-7
"""Share of its largest value by which a density may be negative close to an end."""

Transforms = Callable[[Complex], Complex]
"""Points (n,) above the axis -> the Cauchy transforms of all measures there, (rows, n)."""


@dataclass(frozen=True, eq=False)
class IntervalSeries:
    """Cauchy transforms on and around the interval [low, high], which may be one of several.

    With t = log z = middle + half (w + 1/w)/2 the products of z and a transform are series in w and 1/w between the
    unit circle, which is the interval itself, and what is next to it; if the densities are square roots at the
    ends times something analytic, the series in 1/w converges on the circle too: a gap, or another singularity,
    lies there if its coefficients do not fall. They are Fourier coefficients of values on a circle outside. The
    logarithm gives every part of a spectrum its own scale. An interval that starts at zero has none: t is z there,
    and the densities may be infinite at zero, like an inverse square root.

    `coefficients` (rows, 2 degrees - 1) are those of powers of 1/w, from 1 - degrees on, of the transforms times z
    (times 1 + 1/w if low is 0), found on a circle of this `radius`; `errors` (rows,) are the neglected terms,
    relative to the largest coefficient.
    """

    low: float
    high: float
    radius: float
    coefficients: FloatArray
    errors: FloatArray

    @classmethod
    def around(
        cls, transforms: Transforms, low: float, high: float, neighbours: Sequence[float]
    ) -> "IntervalSeries | None":
        """The series from transforms without atoms; None if it has not nine digits.

        `neighbours` are the ends of other intervals that are next to this one.
        """
        for radius, count in _CIRCLES:
            angles = (np.arange(count) + 0.5) * np.pi / count
            empty = cls(low, high, radius, np.zeros((0, 1)), np.zeros(0))
            # The circle must stay above the axis, and the powers decay before the nearest neighbour.
            beyond = np.abs(empty.mapped(np.array(neighbours) + 0j)).min(initial=np.inf)
            if (low and empty._width * (radius - 1 / radius) / 4 > _HALF_PLANE) or (
                math.log(beyond / radius) < _DIGITS / count
            ):
                continue
            w = radius * np.exp(1j * angles)
            z = empty.points(w)
            values = transforms(z)
            if not np.isfinite(values).all():
                return None
            waves = np.exp(1j * np.outer(angles, np.arange(1 - count, count)))
            on_circle = (values * (z if low else 1 + 1 / w) @ waves).real / count
            found = cls(low, high, radius, *_without_noise(on_circle, radius))
            if found.is_resolved:
                return found
            # Of coefficients that hardly decay no closer circle will make more.
            size = np.abs(found.coefficients[0, found.coefficients.shape[1] // 2 :])
            quarter = len(size) // 4
            if quarter < 2 or size[2 * quarter :].max() >= _FALLING * size[quarter : 2 * quarter].max():
                return None
        return None

    @property
    def _width(self) -> float:
        return math.log(self.high / self.low) if self.low else self.high

    def points(self, w: Complex) -> Complex:
        """The points z (n,) at w (n,)."""
        # Sums of squares: (1 + w)^2 / w is small at the lower end, with all its digits.
        t = self._width / 4 * (1 + w) ** 2 / w
        return np.asarray(self.low * np.exp(t) if self.low else t)

    def _roots(self, z: Complex) -> tuple[Complex, Complex]:
        """Roots of the distances t to both ends, for z (n,) with Im z >= 0."""
        low, high = self.low, self.high
        # From the distances themselves, which have their digits close to the ends.
        below = np.log1p((z - low) / low) if low else z
        above = np.log1p((z - high) / high) if low else z - high
        return np.sqrt(2 * below / self._width), np.sqrt(2 * above / self._width)

    def mapped(self, z: Complex) -> Complex:
        """The points w (n,) outside of the unit disc, or on it, at z (n,) with Im z >= 0."""
        below, above = self._roots(z)
        return np.asarray((below + above) ** 2 / 2)

    def transforms(self, z: Complex) -> Complex:
        """The transforms without atoms (rows, n) at points z (n,) within the circle; on the axis, from above."""
        w = self.mapped(z)
        degrees = (self.coefficients.shape[1] + 1) // 2
        falling, rising = self.coefficients[:, degrees - 1 :], self.coefficients[:, degrees - 1 :: -1].copy()
        rising[:, 0] = 0.0
        series = polynomial.polyval(1 / w, falling.T) + polynomial.polyval(w, rising.T)
        below, above = self._roots(z)
        with np.errstate(divide="ignore", invalid="ignore"):
            # 1 + 1/w from its root, with all digits close to zero.
            return np.asarray(series / z if self.low else series * w / (below * (below + above)))

    def rule(self) -> tuple[FloatArray, FloatArray]:
        """Points x (n,) and the masses of each measure there (rows, n): Gauss's rule in w."""
        count = dict(_CIRCLES)[self.radius]
        w = np.exp(1j * (np.arange(count) + 0.5) * np.pi / count)
        x = self.points(w).real
        speed = self._width / 2 * w.imag * (x if self.low else 1.0)
        return x, -self.transforms(x + 0j).imag / np.pi * speed * (np.pi / count)

    @property
    def is_resolved(self) -> bool:
        """True if the coefficients decay and the first density is not negative."""
        if not (self.errors < _RESOLVED).all():
            return False
        inside = self.points(np.exp(1j * np.linspace(0, np.pi, 1001)[1:-1])).real
        density = -self.transforms(inside + 0j)[0].imag * (inside if self.low else 1.0)
        return bool(density.min() > -_BELOW_ZERO * density.max())


@dataclass(frozen=True, eq=False)
class Intervals:
    """Cauchy transforms of measures on few intervals, from left to right, with masses `atoms` (rows,) at zero."""

    pieces: tuple[IntervalSeries, ...]
    atoms: FloatArray

    @classmethod
    def around(
        cls, transforms: Transforms, support: Sequence[tuple[float, float]], atoms: FloatArray
    ) -> "Intervals | None":
        """The series from transforms, those of the `atoms` included; None if one has not nine digits."""
        pieces = []
        for low, high in support:
            neighbours = [end for end in itertools.chain(*support) if end not in (0, low, high)]
            piece = IntervalSeries.around(
                lambda z: transforms(z) - atoms[:, np.newaxis] / z, low, high, neighbours
            )
            if piece is None:
                return None
            pieces.append(piece)
        return cls(tuple(pieces), atoms)

    def transforms(self, z: Complex) -> Complex:
        """The transforms (rows, n) at points z (n,) with Im z >= 0; on the axis, the limit from above."""
        total = np.zeros((len(self.atoms), len(z)), dtype=complex)
        near = [np.abs(piece.mapped(z)) <= piece.radius for piece in self.pieces]
        far = ~np.any(near, axis=0)
        for piece, within in zip(self.pieces, near, strict=True):
            total[:, within] = piece.transforms(z[within])
            x, masses = piece.rule()
            total[:, far] += masses @ (1 / (z[far] - x[:, np.newaxis]))
        with np.errstate(divide="ignore", invalid="ignore"):
            return total + np.where(self.atoms[:, np.newaxis] > 0, self.atoms[:, np.newaxis] / z, 0.0)


def _without_noise(on_circle: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
    """From Fourier coefficients those of 1/w up to where rounding begins, (rows, 2 degrees - 1), and the rest."""
    size, most = np.abs(on_circle), on_circle.shape[1] // 2
    powers = np.arange(-most, most + 1)
    tails = [np.median(part, axis=1) for part in (size[:, : most // 4], size[:, -(most // 4) :])]
    noise = _ABOVE_NOISE * np.maximum(*tails)
    last = np.array(
        [int(np.abs(powers[row > level]).max(initial=0)) for row, level in zip(size, noise, strict=True)]
    )
    retained = np.where(np.abs(powers) <= last[:, np.newaxis], on_circle * radius**powers, 0.0)
    errors = noise * radius**last / np.abs(retained).max(axis=1)
    degrees = last.max() + 1
    return retained[:, most - degrees + 1 : most + degrees], errors
