"""Exact moments by freeness against non-crossing partitions in rational numbers."""

from fractions import Fraction

import numpy as np
import pytest

from reshuffle import free
from reshuffle.free.moments import polynomial_moments
from tests.free import oracles
from tests.looped import for_all

SEMICIRCLE = [Fraction(0), Fraction(1)] + [Fraction(0)] * 10
POISSON = [Fraction(1, 2)] * 12


def letters(expression):
    return {
        tuple(letter.index for letter in word): Fraction(value) for word, value in expression.terms.items()
    }


@for_all(
    "make",
    [
        lambda x, y: x + y - (x * y + y * x) / 2,
        lambda x, y: x * y * x + y,
        lambda x, y: x * y + y * x + x**2 - 2,
    ],
)
def test_moments_equal_sums_over_noncrossing_partitions(make):
    p = make(*free.variables(free.Semicircle(), free.FreePoisson(0.5, 1.0)))
    expected = [oracles.polynomial_moment(letters(p), k, [SEMICIRCLE, POISSON]) for k in range(1, 4)]
    np.testing.assert_allclose(
        free.spectrum(p).moments(3), [float(m) for m in expected], rtol=1e-13, atol=1e-13
    )


def test_moments_stay_exact_in_rational_numbers():
    class Exact(free.Semicircle):
        def recurrence(self, depth):
            return [Fraction(0)] * depth, [Fraction(0)] + [Fraction(1, 3)] * depth

    x, y = free.variables(Exact(1 / 3), Exact(1 / 3))
    p = Fraction(1, 2) * (x * y + y * x) + x
    cumulants = [[Fraction(0), Fraction(1, 3)] + [Fraction(0)] * 12] * 2
    assert polynomial_moments(p, 3) == [
        oracles.polynomial_moment(letters(p), k, cumulants) for k in (1, 2, 3)
    ]


def test_weighted_moments():
    x, y = free.variables(free.Semicircle(), free.Semicircle())
    assert polynomial_moments(x + y, 2, x * x) == pytest.approx([1.0, 0.0, 3.0])


def test_moments_with_matrix_coefficients_are_traced():
    x, y = free.variables(free.Semicircle(), free.Projection(0.5))
    s = free.spectrum(free.block([[x, y], [y, 0]]))
    sample = s.matrix(600, seed=3)
    expected = [np.trace(np.linalg.matrix_power(sample, k)) / len(sample) for k in (1, 2, 3, 4)]
    np.testing.assert_allclose(s.moments(4), expected, atol=0.02)


def test_moments_of_a_rational_expression():
    (x,) = free.variables(free.Semicircle())
    law = free.Semicircle()
    exact = [law.measure.expectation(lambda t, k=k: (3 + t) ** -k) for k in (1.0, 2.0, 3.0)]
    np.testing.assert_allclose(free.spectrum(1 / (3 + x)).moments(3), exact, rtol=1e-10)
