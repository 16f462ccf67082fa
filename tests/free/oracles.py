"""Slow, obviously right references: non-crossing partitions, the two-batch curve, root tracking."""

from fractions import Fraction
from itertools import product

import numpy as np
from numpy.polynomial import polynomial

from reshuffle import free


def noncrossing(n):
    """Return all non-crossing partitions of range(n), as lists of blocks."""
    if n == 0:
        return [[]]
    result = []
    # The block of 0 splits the rest into independent gaps.
    for mask in range(2 ** (n - 1)):
        block = [0] + [i for i in range(1, n) if mask >> (i - 1) & 1]
        gaps = [(a + 1, b) for a, b in zip(block, [*block[1:], n], strict=True)]
        inner = [
            [[[i + lo for i in blk] for blk in part] for part in noncrossing(hi - lo)] for lo, hi in gaps
        ]
        for choice in product(*inner):
            result.append([block, *[blk for part in choice for blk in part]])
    return result


def word_moment(word, cumulants):
    """Return tau(x_w1 x_w2 ...) from the free cumulants of each variable: mixed cumulants vanish."""
    total = Fraction(0)
    for partition in noncrossing(len(word)):
        term = Fraction(1)
        for block in partition:
            letters = {word[i] for i in block}
            if len(letters) > 1:
                term = Fraction(0)
                break
            term *= cumulants[letters.pop()][len(block) - 1]
        total += term
    return total


def polynomial_moment(terms, power, cumulants):
    """Return tau(p^power) for p = sum of coefficient * word, by expanding every product."""
    total = Fraction(0)
    for choice in product(terms.items(), repeat=power):
        weight, word = Fraction(1), ()
        for letters, value in choice:
            weight *= value
            word += letters
        total += weight * word_moment(word, cumulants)
    return total


def two_batches(ratio=0.5, variance=0.2):
    """Return the spectrum of x + y - (x y + y x)/2, of which `TwoBatchCurve` is the curve."""
    x, y = free.variables(*[free.MarchenkoPastur(ratio, variance)] * 2)
    return free.spectrum(x + y - (x * y + y * x) / 2)


class TwoBatchCurve:
    """The rational curve of the two-batch law, for Marchenko-Pastur variables of a ratio and a variance.

    ``G(z(s)) = -g(s)``; the root is followed from far up the half-plane, where G is 1/z.
    """

    def __init__(self, ratio, variance):
        self.c, self.v = ratio * variance, variance
        c, v = self.c, self.v
        self.cubic = np.array([4 * v, -4 * c, c * c * (c - v), c**3])
        self.numerator = polynomial.polymul(self.cubic, [2, -(c - 2 * v + 4), c * v, c * c])
        self.denominator = np.array([1.0])
        for factor in ([0, 1], [-2, c], [-1, c], [-1, c], [2, c], [2, c]):
            self.denominator = polynomial.polymul(self.denominator, factor)

    def g(self, s):
        c = self.c
        return s * (c * s - 2) * (c * s - 1) * (c * s + 2) / polynomial.polyval(s, self.cubic)

    def weighted(self, s):
        """Return tau((z(s) - alpha Z)^-1 M) for the mini-batch noise matrix M."""
        c, v = self.c, self.v
        n = [
            -8 * c * v - 8 * v**2 + 32 * v - 32,
            4 * c**2 * v + 16 * c**2 - 4 * c * v**2 + 16 * c,
            -2 * c**4 - 8 * c**3 + 2 * c**2 * v**2 - 16 * c**2 * v + 16 * c**2,
            c**5 - 2 * c**4 * v - 4 * c**4 + c**3 * v**2 - 8 * c**3,
            2 * c**5 + 2 * c**4 * v - 2 * c**4,
            c**5,
        ]
        return -s * polynomial.polyval(s, n) / (4 * v * (c * s - 2) * (c * s - 1) ** 2 * (c * s + 2) ** 2)

    def _newton(self, s, z):
        slopes = polynomial.polyder(self.numerator), polynomial.polyder(self.denominator)
        for _ in range(6):
            value = polynomial.polyval(s, self.numerator) - z * polynomial.polyval(s, self.denominator)
            s = s - value / (polynomial.polyval(s, slopes[0]) - z * polynomial.polyval(s, slopes[1]))
        return s

    def root(self, z):
        """Return s(z) at points with Im z >= 0, by continuation from above."""
        z = np.asarray(z, dtype=complex)
        top = 50j
        width = max(len(self.numerator), len(self.denominator))
        coefficients = np.zeros(width, dtype=complex)
        coefficients[: len(self.numerator)] += self.numerator
        coefficients[: len(self.denominator)] -= top * self.denominator
        roots = polynomial.polyroots(coefficients)
        s = np.full(z.shape, roots[np.argmin(np.abs(-self.g(roots) - 1 / top))])
        for step in np.linspace(0, 1, 60):
            s = self._newton(s, top + step * z)
        for step in 0.95 ** np.arange(560):
            s = self._newton(s, z + top * step)
        return self._newton(s, z)

    def cauchy(self, z):
        return -self.g(self.root(z))

    def density(self, t):
        return -self.cauchy(t).imag / np.pi


def anticommutator_density(t):
    """Return the density of s1 s2 + s2 s1 from its cubic, z G^3 + G^2 - z G + 1 = 0."""
    return np.array([np.abs(np.roots([x, 1, -x, 1]).imag).max() / np.pi for x in t])


def half_projections_density(x):
    """The density of ``p q + q p`` for projections of rank 1/2: that of ``s + s^2`` with s arcsine on (-1, 1)."""
    root = np.sqrt(1 + 4 * x)
    arcsine = free.Arcsine(-1.0, 1.0)
    return (arcsine.density((root - 1) / 2) + arcsine.density((-root - 1) / 2)) / root
