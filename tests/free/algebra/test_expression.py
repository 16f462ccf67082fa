"""Arithmetic, printing and evaluation of expressions, and their exact moments by freeness."""

from fractions import Fraction

import numpy as np
import pytest

from reshuffle import free
from reshuffle.free.moments import polynomial_moments
from tests.free import oracles
from tests.looped import for_all


@pytest.fixture
def xy():
    return free.variables(free.Semicircle(), free.MarchenkoPastur(0.5))


def test_printing_reads_like_mathematics(xy):
    x, y = xy
    assert repr(x + y - (x * y + y * x) / 2) == "x1 + x2 - 0.5 x1 x2 - 0.5 x2 x1"
    assert repr(1j * (x * y - y * x)) == "i (x1 x2 - x2 x1)"
    assert repr(2j * (y * x - x * y)) == "i (2 x2 x1 - 2 x1 x2)"
    assert repr(x - 1j * (x * y - y * x) / 2) == "x1 - 0.5i x1 x2 + 0.5i x2 x1"
    assert repr((1 - 1j) * x * y + (1 + 1j) * y * x) == "(1-i) x1 x2 + (1+i) x2 x1"
    assert repr(-1j * (x * y)) == "-i x1 x2"
    assert repr(np.array([[0, 1j], [-1j, 0]]) * x) == "[0 i; -i 0] x1"
    assert repr(2 * x**3 - 1) == "-1 + 2 x1^3"
    assert repr(y / (2 + x)) == "x2 (2 + x1)^-1"
    assert repr(x - x) == "0"
    assert repr(np.array([[0, 1], [1, 0]]) * x) == "[0 1; 1 0] x1"
    assert repr(free.variables(free.Semicircle(), names=["s"])[0] ** 2) == "s^2"


def test_adjoint_reverses_words_and_conjugates(xy):
    x, y = xy
    p = (1 + 2j) * x * y * y + 1 / (1j + x)
    assert p.adjoint() == (1 - 2j) * y * y * x + 1 / (-1j + x)
    assert p.adjoint().adjoint() == p


def test_evaluation_is_a_homomorphism(xy):
    x, y = xy
    rng = np.random.default_rng(0)
    a, b = (m + m.T for m in rng.standard_normal((2, 4, 4)))
    np.testing.assert_allclose((x * y + 2).evaluate([a, b]), a @ b + 2 * np.eye(4))
    np.testing.assert_allclose(
        ((9 + x * x) ** -1 * y).evaluate([a, b]), np.linalg.solve(9 * np.eye(4) + a @ a, b)
    )
    coefficient = np.array([[1.0, 2.0], [2.0, 0.0]])
    np.testing.assert_allclose(
        (coefficient * x + y).evaluate([a, b]), np.kron(coefficient, a) + np.kron(np.eye(2), b)
    )


def test_exact_coefficients_are_kept(xy):
    x, _ = xy
    assert (Fraction(1, 3) * x * 3).terms == x.terms


def test_block_is_a_matrix_of_expressions(xy):
    x, y = xy
    rng = np.random.default_rng(0)
    a, b = (m + m.T for m in rng.standard_normal((2, 3, 3)))
    expected = np.block([[a, b], [b, np.zeros((3, 3))]])
    np.testing.assert_allclose(free.block([[x, y], [y, 0]]).evaluate([a, b]), expected)


def test_variables_of_two_families_do_not_mix():
    (x,) = free.variables(free.Semicircle())
    (y,) = free.variables(free.Semicircle())
    with pytest.raises(ValueError, match="one call"):
        x + y


def test_bad_operands_are_refused(xy):
    x, _ = xy
    with pytest.raises(ZeroDivisionError, match="invertible"):
        x / 0
    with pytest.raises(ZeroDivisionError, match="invertible"):
        1 / (x - x)
    with pytest.raises(ZeroDivisionError, match="matrix"):
        x / np.ones((2, 2))
    for value in (np.nan, np.inf):
        with pytest.raises(ValueError, match=f"finite, but it is {value}"):
            x / value
    for exponent in (0.5, "a", None):
        with pytest.raises(ValueError, match="exponent must be an integer"):
            x**exponent
    with pytest.raises(TypeError, match="at least one law"):
        free.variables()
    with pytest.raises(TypeError, match="t must be a number"):
        free.spectrum(x).density("a")
    with pytest.raises(ValueError, match="size must be an integer"):
        free.spectrum(x).matrix("a")
    with pytest.raises(ValueError, match="finite"):
        x + np.inf
    with pytest.raises(ValueError, match="square"):
        np.ones((2, 3)) * x
    with pytest.raises(ValueError, match="one size"):
        _ = (np.eye(2) * x + np.eye(3) * x**2).dimension
    with pytest.raises(TypeError, match="Discrete"):
        free.variables([1.0, 2.0])
    with pytest.raises(TypeError, match="variables"):
        free.spectrum(3.0)


def test_an_expression_that_is_not_self_adjoint_shows_its_bad_part(xy):
    x, y = xy
    with pytest.raises(ValueError, match=r"0\.5 x1 x2 - 0\.5 x2 x1"):
        free.spectrum(x * x + x * y)
    with pytest.raises(ValueError, match="anti-self-adjoint"):
        free.spectrum(x / (3 + y))


def test_division_by_what_is_not_invertible_names_the_divisor(xy):
    x, y = xy
    with pytest.raises(ZeroDivisionError, match=r"division by x1"):
        free.spectrum(y + 1 / x)
    with pytest.raises(ZeroDivisionError, match=r"\[-1.*, 3"):
        free.spectrum(1 / (1 + x))


def test_rational_forms_that_hide_self_adjointness_are_accepted(xy):
    x, y = xy
    # x (9 + y x)^-1 = (9 + x y)^-1 x, though no letter of the two sides is the same.
    s = free.spectrum(x / (9 + y * x))
    eigenvalues = np.linalg.eigvalsh(s.matrix(150))
    z = 0.1 + 0.2j
    assert s.cauchy(z) == pytest.approx(np.mean(1 / (z - eigenvalues)), rel=0.01)


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
