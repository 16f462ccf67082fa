"""A law on one interval as a series around it: values off the axis, where they are found at once, tell all."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reshuffle._core import FloatArray
from reshuffle.free.checks import Complex

_CIRCLES = ((1.15, 128), (1.06, 384), (1.03, 700))
"""Radii of circles around the interval, mapped to the unit circle, and the points on their upper halves."""
_ABOVE_NOISE = 10.0
"""How much larger than those of the highest degrees, which are noise, coefficients on the circle must be."""
_RESOLVED = 1e-9
"""Of the largest coefficient, to which the series must fall before the noise."""
_FALLING = 0.3
"""What coefficients may have left in the second half of their degrees, of the second quarter."""
_BELOW_ZERO = 1e-7
"""Of its largest value, by which a density may be negative close to an end."""


@dataclass(frozen=True, eq=False)
class OneInterval:
    """Cauchy transforms of measures on [low, high] and atoms at zero.

    With z = middle + half (w + 1/w)/2 they are series in 1/w that converge for |w| > 1, and, if the densities are
    square roots at the ends times something analytic, on |w| = 1, the interval itself: there lies a gap, or another
    singularity, if the coefficients do not fall. They are Fourier coefficients of values on a circle outside.

    Attributes
    ----------
    low, high : float
        With low = 0 the densities may be infinite there, like an inverse square root.
    atoms : (rows,)
        The masses at zero.
    coefficients : (rows, degrees)
        Of the transforms without atoms, times 1 + 1/w if low is 0.
    errors : (rows,)
        What is neglected, relative to the largest coefficient.
    """

    low: float
    high: float
    atoms: FloatArray
    coefficients: FloatArray
    errors: FloatArray

    @classmethod
    def around(
        cls, transforms: Callable[[Complex], Complex], low: float, high: float, atoms: FloatArray
    ) -> "OneInterval | None":
        """The series from the transforms (rows, n) at points z (n,) above the axis; None if it has not nine digits.

        >>> from reshuffle.asymptotics import FullBatchLaw
        >>> law = FullBatchLaw(0.25, 0.4)
        >>> series = OneInterval.around(law.outside, 0.1, 0.9, np.zeros(3))
        >>> bool(abs(series.transforms(np.array([0.5 + 0j]))[0, 0] - law.cauchy(0.5)) < 1e-9)
        True
        """
        for radius, count in _CIRCLES:
            angles = (np.arange(count) + 0.5) * np.pi / count
            w = radius * np.exp(1j * angles)
            z = (low + high) / 2 + (high - low) / 4 * (w + 1 / w)
            values = transforms(z) - atoms[:, np.newaxis] / z
            if not np.isfinite(values).all():
                return None
            on_circle = _cosines(values if low else values * (1 + 1 / w), angles)
            found = cls(low, high, atoms, *_without_noise(on_circle, radius))
            if found.is_resolved:
                return found
            if not found.falls:
                return None
        return None

    @property
    def is_resolved(self) -> bool:
        """Whether the coefficients fall, and the first density is not negative."""
        if not (self.errors < _RESOLVED).all():
            return False
        angles = np.linspace(0, np.pi, 1001)[1:-1]
        inside = (self.low + self.high) / 2 - (self.high - self.low) / 2 * np.cos(angles)
        density = -self.transforms(inside + 0j)[0].imag
        return bool(density.min() > -_BELOW_ZERO * density.max())

    @property
    def falls(self) -> bool:
        """Whether the coefficients fall at a pace at which a closer circle may resolve them."""
        size = np.abs(self.coefficients[0])
        quarter = len(size) // 4
        if quarter < 2:
            return False
        first, second = size[quarter : 2 * quarter].max(), size[2 * quarter :].max()
        return bool(second < _FALLING * first)

    def transforms(self, z: Complex) -> Complex:
        """The Cauchy transforms (rows, n) at points z (n,) with Im z >= 0; on the axis, the limit from above."""
        width = self.high - self.low
        # From the distances to both ends, so that 1 + w has its digits close to the lower one.
        below, above = np.sqrt(2 * (z - self.low) / width), np.sqrt(2 * (z - self.high) / width)
        w = (below + above) ** 2 / 2
        series = np.polynomial.polynomial.polyval(1 / w, self.coefficients.T)
        with np.errstate(divide="ignore", invalid="ignore"):
            if not self.low:
                series = series * w / (below * (below + above))
            atoms = np.where(self.atoms[:, np.newaxis] > 0, self.atoms[:, np.newaxis] / z, 0.0)
        return np.asarray(series + atoms)


def _cosines(values: Complex, angles: FloatArray) -> FloatArray:
    """The Fourier coefficients (rows, n) of values (rows, n) that are conjugate at conjugate points."""
    return np.asarray((values @ np.exp(1j * np.outer(angles, np.arange(len(angles))))).real / len(angles))


def _without_noise(on_circle: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
    """The coefficients of powers of 1/w up to where rounding begins, (rows, degrees), and what is left out."""
    size, degrees = np.abs(on_circle), np.arange(on_circle.shape[1])
    noise = _ABOVE_NOISE * np.median(size[:, -size.shape[1] // 4 :], axis=1)
    last = np.array([int(np.flatnonzero(row > level)[-1]) for row, level in zip(size, noise, strict=True)])
    kept = np.where(degrees <= last[:, np.newaxis], on_circle * radius**degrees, 0.0)
    errors = noise * radius**last / np.abs(kept).max(axis=1)
    return kept[:, : last.max() + 1], errors
