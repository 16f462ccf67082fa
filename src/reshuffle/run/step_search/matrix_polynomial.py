"""Symmetric matrices that are polynomials in the step, with bounds of their norms and derivatives."""

from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.polynomial import chebyshev

from reshuffle._arrays import FloatArray
from reshuffle._linalg import chebyshev_transform, eigenvalue


class MatrixPolynomial:
    """A symmetric matrix, polynomial in the step, from its values at the Chebyshev nodes of an interval."""

    def __init__(self, values: list[FloatArray], low: float, high: float):
        self.low, self.high = low, high
        self.coefficients = [_combination(weights, values) for weights in chebyshev_transform(len(values))]

    @cached_property
    def _norms(self) -> FloatArray:
        return np.array([np.abs(scipy.linalg.eigvalsh(matrix)).max() for matrix in self.coefficients])

    @staticmethod
    def nodes(count: int, low: float, high: float) -> FloatArray:
        """The steps at which to give values."""
        return low + (high - low) * (chebyshev.chebpts1(count) + 1) / 2

    def eigenvalue(self, step: float, number: int) -> float:
        """One eigenvalue at a step, counted from the smallest, or from the largest if negative."""
        return eigenvalue(self._at(step), number)

    def _at(self, step: float) -> FloatArray:
        node = 2 * (step - self.low) / (self.high - self.low) - 1
        return _combination(chebyshev.chebvander(node, len(self.coefficients) - 1)[0], self.coefficients)

    def within(self, low: float, high: float) -> "MatrixPolynomial":
        """The same matrix on a part of the interval, where its bounds are sharper."""
        values = [self._at(float(step)) for step in self.nodes(len(self.coefficients), low, high)]
        return MatrixPolynomial(values, low, high)

    @property
    def bound(self) -> float:
        """A bound on the norm in the interval, from |T_j| <= 1."""
        return float(self._norms.sum())

    @property
    def derivative_bound(self) -> float:
        """A bound on the norm of the derivative in the interval, from |T_j'| <= j^2."""
        return float(np.arange(len(self._norms)) ** 2 @ self._norms) * 2 / (self.high - self.low)

    @property
    def curvature_bound(self) -> float:
        """A bound on the norm of the second derivative in the interval, from |T_j''| <= j^2 (j^2 - 1) / 3."""
        squares = np.arange(len(self._norms)) ** 2
        return float(squares * (squares - 1) / 3 @ self._norms) * (2 / (self.high - self.low)) ** 2


def _combination(weights: FloatArray, matrices: list[FloatArray]) -> FloatArray:
    total = np.zeros_like(matrices[0])
    for weight, matrix in zip(weights, matrices, strict=True):
        total += weight * matrix
    return total
