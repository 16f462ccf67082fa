"""A sampled matrix beside the law."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reshuffle.free.checks import Real

if TYPE_CHECKING:
    from reshuffle.free.spectrum import Spectrum


@dataclass(frozen=True)
class Comparison:
    """The eigenvalues of one sampled matrix and how far they are from the law.

    Attributes
    ----------
    eigenvalues : sorted, shape (n,); edges, heights : histogram with area 1; expected : the law's mean
        height per bin.
    distance : the largest difference of the two cdfs (Kolmogorov).
    """

    eigenvalues: Real
    edges: Real
    heights: Real
    expected: Real
    distance: float

    def __repr__(self) -> str:
        return f"Comparison({len(self.eigenvalues)} eigenvalues, Kolmogorov distance {self.distance:.4f})"


def compare(law: "Spectrum", size: int, seed: int | None) -> Comparison:
    """Return the comparison for a matrix of ``size``."""
    eigenvalues = np.linalg.eigvalsh(law.matrix(size, seed))
    heights, edges = np.histogram(eigenvalues, bins=min(80, max(10, size // 12)), density=True)
    expected = np.diff(law.cdf(edges)) / np.diff(edges)
    return Comparison(eigenvalues, edges, heights, expected, kolmogorov(law, eigenvalues))


def kolmogorov(law: "Spectrum", eigenvalues: Real) -> float:
    """Return the supremum of the difference of the cdfs.

    Eigenvalues within rounding of an atom count as on it.
    """
    values = eigenvalues.copy()
    scale = max(float(np.abs(values).max()), 1e-300)
    for place, _ in law.atoms:
        values[np.abs(values - place) < 1e-9 * scale] = place
    values = np.sort(values)
    # At a jump of either cdf both sides count; distinct values carry the empirical cdf before and after them.
    points, counts = np.unique(values, return_counts=True)
    after = np.cumsum(counts) / len(values)
    before = after - counts / len(values)
    jumps = np.array([sum(mass for place, mass in law.atoms if place == x) for x in points])
    exact = law.cdf(points)
    return float(max(np.abs(after - exact).max(), np.abs(before - (exact - jumps)).max()))
