"""Two-point laws: Bernoulli variables and projections."""

import numpy as np
from numpy.typing import ArrayLike

from reshuffle.free.checks import Complex, complex_points, location, number
from reshuffle.free.laws.discrete import Discrete


class Bernoulli(Discrete):
    """The law ``(1 - probability) delta(low) + probability delta(high)``.

    With ``w = high - low`` and ``l = (2 probability - 1) w``,
    ``R(g) = (low + high)/2 + (sqrt(1 + 2 l g + (w g)^2) - 1)/(2 g)``.

    >>> [round(x, 12) for x in Bernoulli().cumulants(4).tolist()]
    [0.0, 1.0, 0.0, -1.0]
    """

    def __init__(self, probability: float = 0.5, low: float = -1.0, high: float = 1.0):
        self.probability = number("probability", probability, low=0.0, high=1.0)
        self.low = location("low", low)
        self.high = number("high", location("high", high), low=self.low, open_low=True)
        kept = [(x, w) for x, w in ((self.low, 1 - self.probability), (self.high, self.probability)) if w > 0]
        super().__init__([x for x, _ in kept], [w for _, w in kept])

    def r_transform(self, g: ArrayLike) -> Complex:
        """Return R near 0, the solution of ``G(R(g) + 1/g) = g``; ``g`` has any shape."""
        points = complex_points("g", g)
        width, middle = self.high - self.low, (self.low + self.high) / 2
        line = (2 * self.probability - 1) * width
        # (sqrt(1 + w) - 1)/(2 g) written without its cancellation at g = 0.
        root = np.sqrt(1 + 2 * line * points + (width * points) ** 2)
        return np.asarray(middle + (2 * line + width**2 * points) / (2 * (root + 1)))

    def __repr__(self) -> str:
        return f"Bernoulli(probability={self.probability:g}, low={self.low:g}, high={self.high:g})"


class Projection(Bernoulli):
    """The law of a projection of trace ``rank``: ``(1 - rank) delta(0) + rank delta(1)``.

    >>> Projection(0.25).atoms
    ((0.0, 0.75), (1.0, 0.25))
    """

    def __init__(self, rank: float = 0.5):
        self.rank = number("rank", rank, low=0.0, high=1.0)
        super().__init__(self.rank, 0.0, 1.0)

    def __repr__(self) -> str:
        return f"Projection({self.rank:g})"
