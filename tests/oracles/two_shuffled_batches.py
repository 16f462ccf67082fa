"""Second moments of samples that are shuffled and cut into two batches, exactly: an oracle in polynomial time.

With residuals rho_i = x_i'e - eta_i an epoch takes c_1 u_1 + c_2 u_2 - c_1 c_2 u_21 from the error e, where

    u_1 = sum x_b rho_b,   u_2 = sum x_a rho_a,   u_21 = sum x_a (x_a'x_b) rho_b

over the b of the first batch and the a of the second. In the mean of a product of two of these only sums over
samples of known distinctness remain, each with the probability that so many distinct samples fall into either
batch: n x n matrices are gone through some rows at a time, at n^2 r operations for each of a few sums.
"""

from dataclasses import dataclass

import numpy as np

from reshuffle._arrays import FloatArray, IntArray

_CHUNK = 1 << 20
"""Entries of an n x n matrix that are held at a time."""


def flops(n: int, rank: int) -> float:
    """Operations of one epoch."""
    return 16.0 * float(n) ** 2 * (rank + 4)


@dataclass(frozen=True, eq=False)
class TwoShuffledBatches:
    """One epoch over all rows, cut into batches of `sizes`, which are divided by `divisors`.

    Attributes
    ----------
    rows : (n, r)
        X.
    sizes : (int, int)
    divisors : (float, float)
    step : float
    noise : float
        The standard deviation of the responses.
    """

    rows: FloatArray
    sizes: tuple[int, int]
    divisors: tuple[float, float]
    step: float
    noise: float = 0.0

    def change(self, second: FloatArray, cross: FloatArray | None = None) -> FloatArray:
        """What an epoch adds to E e e' (r, r), which is symmetric, beside E e eta' (r, n).

        For no noise at all `cross` may be left out.
        """
        X, (n, rank) = self.rows, self.rows.shape
        # E e rho' (r, n), and X'E rho rho' (r, n) without the noise that a residual shares with itself.
        met = second @ X.T if cross is None else second @ X.T - cross
        squares = self.noise * self.noise
        pushed = X.T @ (X @ met) - (0.0 if cross is None else (X.T @ cross.T) @ X.T) + squares * X.T
        sums = _Sums(self, met, cross, pushed, squares)
        total = np.zeros((rank, rank))
        height = max(1, _CHUNK // max(n, 1))
        for first in range(0, n, height):
            total += sums.of(slice(first, min(first + height, n)))
        (c1, c2), (m1, m2) = self._weights, self.sizes
        lost = met @ (c1 * m1 / n * X + c2 * m2 / n * X) - c1 * c2 * self.pairs * (sums.crossed(met) @ X)
        total -= lost + lost.T
        return np.asarray((total + total.T) / 2)

    @property
    def _weights(self) -> tuple[float, float]:
        return self.step / self.divisors[0], self.step / self.divisors[1]

    @property
    def pairs(self) -> float:
        """The probability that one sample is in the first batch and another in the second."""
        n = len(self.rows)
        return self.sizes[0] * self.sizes[1] / (n * (n - 1)) if n > 1 else 0.0

    def fall(self, first: int, second: int) -> float:
        """The probability that so many distinct samples are in the first batch and so many others in the second."""
        n, value = len(self.rows), 1.0
        for place in range(first + second):
            value /= n - place if n > place else np.inf
        for place in range(first):
            value *= self.sizes[0] - place
        for place in range(second):
            value *= self.sizes[1] - place
        return value


class _Sums:
    """The sums that need pairs of samples: Phi = E rho rho' and K = X X', without its diagonal, by rows."""

    def __init__(
        self,
        of: TwoShuffledBatches,
        met: FloatArray,
        cross: FloatArray | None,
        pushed: FloatArray,
        squares: float,
    ):
        self._of, self._met, self._cross, self._pushed, self._squares = of, met, cross, pushed, squares
        X = of.rows
        self._norms = np.square(X).sum(axis=1)
        own = np.einsum("ij,ji->i", X, met)
        self._own = own + squares - (0.0 if cross is None else np.einsum("ji,ij->i", cross, X))
        # Row sums of K0 o Phi, for K0 without its diagonal.
        self._along = np.einsum("ij,ji->i", X, pushed) - self._norms * self._own

    def crossed(self, met: FloatArray) -> FloatArray:
        """E e rho' K0 (r, n)."""
        X = self._of.rows
        return np.asarray((met @ X) @ X.T - met * self._norms)

    def of(self, some: slice) -> FloatArray:
        """X_a'H X (r, r), for the rows a of the matrix H of all products but those with e itself."""
        of, X = self._of, self._of.rows
        places = np.arange(len(X))[some]
        diagonal: tuple[IntArray, IntArray] = (np.arange(len(places)), places)
        phi = X[some] @ self._met
        if self._cross is not None:
            phi -= self._cross.T[some] @ X.T
        phi[diagonal] += self._squares
        gram = X[some] @ X.T
        gram[diagonal] = 0.0
        after = X[some] @ self._pushed - self._norms[some, np.newaxis] * phi
        weights: FloatArray = np.add(self._single(phi, diagonal), self._double(gram, phi, after, diagonal))
        return np.asarray(X[some].T @ (weights @ X)) if len(of.rows) else np.zeros((0, 0))

    def _single(self, phi: FloatArray, diagonal: tuple[IntArray, IntArray]) -> FloatArray:
        """Of u_1 u_1', u_2 u_2' and u_1 u_2' and its transpose."""
        of = self._of
        c1, c2 = of._weights
        apart = c1 * c1 * of.fall(2, 0) + c2 * c2 * of.fall(0, 2) + 2 * c1 * c2 * of.fall(1, 1)
        weights: FloatArray = np.asarray(apart * phi)
        weights[diagonal] = (c1 * c1 * of.fall(1, 0) + c2 * c2 * of.fall(0, 1)) * phi[diagonal]
        return weights

    def _double(
        self, gram: FloatArray, phi: FloatArray, after: FloatArray, diagonal: tuple[IntArray, IntArray]
    ) -> FloatArray:
        """Of u_21 with u_1, with u_2 (both twice, for their transposes) and with itself, from K0 Phi = `after`."""
        of = self._of
        c1, c2 = of._weights
        own = gram * self._own
        # a in the second batch, b and c in the first: b = c, or not.
        first = of.fall(1, 1) * own + of.fall(2, 1) * (after - own)
        first[diagonal] = 0.0
        # a and d in the second, b in the first: d is not b, and a = d, or not.
        other = of.fall(1, 2) * (after - own)
        other[diagonal] = of.fall(1, 1) * after[diagonal]
        twice = self._twice(gram, phi, after, diagonal)
        return np.asarray(c1 * c1 * c2 * c2 * twice - 2 * c1 * c2 * (c1 * first + c2 * other))

    def _twice(
        self, gram: FloatArray, phi: FloatArray, after: FloatArray, diagonal: tuple[IntArray, IntArray]
    ) -> FloatArray:
        """Of u_21 u_21': a and d in the second batch, b and c in the first, b not d and c not a."""
        of, X = self._of, self._of.rows
        places = diagonal[1]
        all_ways = (after @ X) @ X.T - after * self._norms
        same = (gram * self._own) @ X @ X.T - gram * self._own * self._norms
        # Crossing: c = a, b = d, and both.
        crossing = gram * (self._along[places, np.newaxis] + self._along) - gram * gram * phi
        apart = all_ways - crossing - same
        weights: FloatArray = np.asarray(of.fall(2, 2) * apart + of.fall(1, 2) * same)
        weights[diagonal] = of.fall(2, 1) * (all_ways - same)[diagonal] + of.fall(1, 1) * same[diagonal]
        return weights
