"""Laws with finitely many points: given, read off the spectrum of a matrix, or of two values."""

import numpy as np
from numpy.typing import ArrayLike

from reshuffle.free import checks
from reshuffle.free.checks import Complex, Real, complex_points, location, number, real_points
from reshuffle.free.laws.law import Law, Pairs, recurrence_of_points


class Discrete(Law):
    """The law ``sum_k weights_k delta(points_k)``, ``G(z) = sum_k weights_k/(z - points_k)``.

    The weights, by position or by name, add up to one, and are equal by default. As attributes, points and weights
    (m,) are sorted, with each point once.

    >>> Discrete([0.0, 3.0], [0.75, 0.25]).moments(2).round(12).tolist()
    [0.75, 2.25]
    """

    def __init__(
        self, points: ArrayLike, weights_: ArrayLike | None = None, /, *, weights: ArrayLike | None = None
    ):
        places = np.atleast_1d(real_points("points", points))
        if not places.size or places.ndim > 1:
            raise ValueError(
                f"points must be a vector of at least one number, but its shape is {places.shape}; of a matrix"
                " there is of_matrix"
            )
        if places.any():
            checks.size("the largest of abs(points)", float(np.abs(places).max()))
        given = weights_ if weights is None else weights
        masses = np.full(places.shape, 1 / places.size) if given is None else checks.weights("weights", given)
        if masses.shape != places.shape:
            raise ValueError(
                f"weights must have the shape of points {places.shape}, but theirs is {masses.shape};"
                f" pass one weight per point"
            )
        self.points, inverse = np.unique(places, return_inverse=True)
        self.weights = np.bincount(inverse.ravel(), masses)

    @classmethod
    def of_matrix(cls, matrix: ArrayLike) -> "Discrete":
        """Return the empirical spectrum of a Hermitian matrix.

        >>> Discrete.of_matrix([[0.0, 1.0], [1.0, 0.0]]).atoms
        ((-1.0, 0.5), (1.0, 0.5))
        """
        a = np.asarray(matrix)
        square = a.ndim == 2 and a.shape[0] == a.shape[1]
        if not square or np.abs(a - a.conj().T).max(initial=0.0) > 1e-9 * np.abs(a).max(initial=0.0):
            raise ValueError(
                f"matrix must be square and Hermitian, but its shape is {a.shape}; pass (a + a.conj().T)/2"
            )
        return cls(np.linalg.eigvalsh(a))

    @property
    def support(self) -> Pairs:
        """No interval: the law is all atoms."""
        return ()

    @property
    def atoms(self) -> Pairs:
        return tuple(zip(self.points.tolist(), self.weights.tolist(), strict=True))

    def _cauchy(self, z: Complex) -> Complex:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((1 / (z[..., None] - self.points)) @ self.weights)

    def _cauchy_derivative(self, z: Complex) -> Complex:
        return np.asarray(-((1 / (z[..., None] - self.points)) ** 2) @ self.weights)

    def _density(self, t: Real) -> Real:
        return np.zeros(t.shape)

    def cdf(self, t: ArrayLike) -> Real:
        sums = np.concatenate([[0.0], np.cumsum(self.weights)])
        return np.asarray(
            np.minimum(sums[np.searchsorted(self.points, real_points("t", t), side="right")], 1.0)
        )

    def quantile(self, q: ArrayLike) -> Real:
        sums = np.cumsum(self.weights)
        index = np.searchsorted(sums - 1e-13, checks.probabilities("q", q))
        return np.asarray(self.points[np.minimum(index, len(self.points) - 1)])

    def recurrence(self, depth: int) -> tuple[list[float], list[float]]:
        """Return ``(alpha, beta)``, down to ``depth``, or after as many steps as there are points."""
        return recurrence_of_points(self.points, self.weights, depth)

    def __repr__(self) -> str:
        if len(self.points) > 6:
            return f"Discrete({len(self.points)} points in [{self.points[0]:g}, {self.points[-1]:g}])"
        points = ", ".join(f"{x:g}" for x in self.points)
        return f"Discrete([{points}], [{', '.join(f'{w:g}' for w in self.weights)}])"


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
