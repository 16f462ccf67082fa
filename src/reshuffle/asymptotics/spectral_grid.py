"""Quadrature with the measures of an epoch's law, as fine as the integrand needs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from reshuffle.arrays import FloatArray
from reshuffle.asymptotics import chebyshev_fit

_TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False)
class SpectralGrid:
    """Densities on intervals, as Chebyshev series of density * sine of the angle (* x).

    With x = middle - half cos(angle) a density with square-root edges, soft or hard, becomes smooth; times x it
    is so however close the interval comes to zero. The series is then sampled on as many points as a
    function to be integrated needs: the densities themselves are computed only once.

    Attributes
    ----------
    intervals : pairs (low, high)
    series : for each interval (rows, degrees)
    tilted : for each interval, whether its series carries the factor x.
    """

    intervals: tuple[tuple[float, float], ...]
    series: tuple[FloatArray, ...]
    tilted: tuple[bool, ...]

    @classmethod
    def of(
        cls, densities: Callable[[FloatArray], FloatArray], intervals: Sequence[tuple[float, float]]
    ) -> "SpectralGrid":
        """Fit the densities, (n,) -> (rows, n), on the intervals of their support."""
        tilted = tuple(low >= 0 for low, _ in intervals)
        series = []
        for (low, high), tilt in zip(intervals, tilted, strict=True):

            def smooth(x: FloatArray, sines: FloatArray, tilt: bool = tilt) -> FloatArray:
                values = densities(x) * sines
                return values * x if tilt else values

            series.append(chebyshev_fit.fit(smooth, low, high, _TOLERANCE))
        return cls(tuple(intervals), tuple(series), tilted)

    def rule(self, count: int) -> tuple[FloatArray, FloatArray]:
        """Points (n,) and the weights of each measure there (rows, n), from `count` points an interval."""
        points, weights = [], []
        for (low, high), series, tilt in zip(self.intervals, self.series, self.tilted, strict=True):
            size = max(count, series.shape[1])
            x, _ = chebyshev_fit.points(size, low, high)
            weight = chebyshev_fit.resample(series, size) * ((high - low) / 2 * np.pi / size)
            points.append(x)
            weights.append(weight / x if tilt else weight)
        return np.concatenate(points), np.concatenate(weights, axis=1)

    def density(self, t: FloatArray) -> FloatArray:
        """The first measure's density at t (n,), from its series."""
        result = np.zeros(len(t))
        for (low, high), series, tilt in zip(self.intervals, self.series, self.tilted, strict=True):
            inside = (t > low) & (t < high)
            x = t[inside]
            sines = 2 * np.sqrt((x - low) * (high - x)) / (high - low)
            values = chebyshev_fit.evaluate(series[:1], x, low, high)[0] / sines
            result[inside] = np.maximum(values / x if tilt else values, 0.0)
        return result

    @property
    def mass(self) -> float:
        """The total mass of the first measure."""
        nearest = min(
            (
                low / high
                for (low, high), tilt in zip(self.intervals, self.tilted, strict=True)
                if tilt and high > 0 and low > 0
            ),
            default=1.0,
        )
        _, weights = self.rule(64 + int(40 / np.sqrt(max(nearest, 1e-10))))
        return float(weights[0].sum())
