"""The pencil's Schur complement is the expression, of smallest size; few-valued variables are reduced."""

from functools import lru_cache

import numpy as np
import pytest

from reshuffle import free
from reshuffle.free.linearization import reduced
from reshuffle.free.spectrum import Engine
from tests.looped import for_all


def symmetrised(variables, factor=1.0):
    """Return the average over all orders of the product of (1 - factor w), by the subset recursion."""

    @lru_cache(None)
    def over(subset):
        if not subset:
            return 1.0
        return sum((1 - factor * variables[b]) * over(subset - {b}) for b in subset) / len(subset)

    return over(frozenset(range(len(variables))))


def relative_error(expression, pencil, size=4, seed=0):
    rng = np.random.default_rng(seed)
    matrices = []
    for law in expression.family.laws:
        a = rng.standard_normal((size, size)) + 1j * rng.standard_normal((size, size))
        matrices.append((a + a.conj().T) * law.scale / 4)
    expected = expression.evaluate(matrices)
    return np.abs(pencil.schur(matrices) - expected).max() / np.abs(expected).max()


X, Y, Z = free.variables(free.Semicircle(), free.Semicircle(2.0), free.MarchenkoPastur(0.5, 0.2))


@for_all(
    "expression, size",
    [
        (X, 1),
        (X + Y + Z, 1),
        (X + Y - (X * Y + Y * X) / 2, 3),
        (X * Y + Y * X, 3),
        (1j * (X * Y - Y * X), 3),
        (X**2, 2),
        (X**3, 3),
        (X * Y * X + Z, 3),
        (1 / (1 + X**2), 3),
        (Y / (1 + X**2) * Y, 3),
        (1 / (4 + X * Y + Y * X) + Z, 4),
        (X / (1j + Y * X) + 1 / (-1j + X * Y) * X, 5),
        (free.block([[X, Y], [Y, Z]]), 2),
        (np.array([[1.0, 2.0], [2.0, 0.0]]) * X + Y, 2),
    ],
)
def test_pencil_is_exact_self_adjoint_and_minimal(expression, size):
    pencil = free.linearize(expression)
    assert pencil.size == size
    np.testing.assert_array_equal(pencil.coefficients, pencil.coefficients.conj().transpose(0, 2, 1))
    assert relative_error(expression, pencil) < 1e-12


@for_all("batches", [2, 3, 4, 5])
def test_a_symmetrised_product_has_the_size_of_its_subset_lattice(batches):
    variables = free.variables(*[free.MarchenkoPastur(0.5, 0.2)] * batches)
    expression = 1 - symmetrised(variables)
    pencil = free.linearize(expression)
    assert pencil.size == 2**batches - 1
    assert relative_error(expression, pencil, size=3) < 1e-12


def test_scales_do_not_disturb_the_reduction():
    x, y = free.variables(free.MarchenkoPastur(0.5, 1e8), free.Semicircle(1e-16))
    pencil = free.linearize(x * y + y * x)
    assert pencil.size == 3
    assert relative_error(x * y + y * x, pencil) < 1e-12


def test_an_inverse_without_scalar_points_is_still_exact():
    expression = (X * Y - Y * X) ** -2
    assert relative_error(expression, free.linearize(expression)) < 1e-11


def family():
    laws = (
        free.Projection(0.5),
        free.Bernoulli(),
        free.Discrete([-3.0, 0.0, 3.0]),
        free.Discrete([2.0]),
        free.Semicircle(),
    )
    return free.variables(*laws), [law.matrix(40, seed) for seed, law in enumerate(laws)]


def test_a_reduced_expression_is_the_same_operator():
    (p, s, d, c, x), matrices = family()
    expressions = [
        p * p * x * p + s * s * x,
        d**4 * x * d**3 + x,
        c * x * c * c,
        1 / (3 + p * p + x) * s**3,
        p**4 * s * s * p,
        1j * (p * x * x * s**2 - s**2 * x * x * p),
        np.array([[0.0, 1.0], [2.0, 3.0]]) * p**3 * x,
    ]
    for expression in expressions:
        short = reduced(expression)
        assert max(len(word) for word in short.terms) < max(
            len(word) for word in expression.terms
        ) or "^-1" in repr(short)
        np.testing.assert_allclose(short.evaluate(matrices), expression.evaluate(matrices), atol=1e-10)


def test_a_projection_is_its_own_square_for_the_spectrum_too():
    p, q = free.variables(free.Projection(0.5), free.Projection(0.5))
    assert Engine(p * q * q + q * q * p).pencil.size == Engine(p * q + q * p).pencil.size
    law = free.spectrum(p * q * q + q * q * p)
    np.testing.assert_allclose(law.support, [(-0.25, 2.0)], atol=1e-10)
    np.testing.assert_allclose(
        [law.expectation(lambda t, k=k: t**k) for k in (1, 2, 3)], [0.5, 0.875, 1.4375], atol=1e-8
    )


def test_a_law_that_costs_too_much_says_how_to_go_on():
    p, q = free.variables(free.Projection(0.5), free.Projection(0.5))
    law = free.spectrum(p * q * p * q + q * p * q * p, budget=0.5)
    with pytest.raises(
        free.ConvergenceError, match=r"not found within 0.5 s of one core.*budget=5\), or use density"
    ):
        law.support  # noqa: B018
    assert law.density(1.0) > 0


@for_all(
    "laws, build",
    [
        ((free.Projection(0.4), free.Projection(0.3)), lambda x, y: x * y + y * x),
        ((free.Discrete([0.0, 1.0, 3.0]), free.Uniform()), lambda x, y: x * x * y + y * x * x),
        ((free.Uniform(), free.Projection(0.3)), lambda x, y: 1j * (x * x * y - y * x * x)),
        ((free.MarchenkoPastur(0.5), free.Semicircle()), lambda x, y: 1 / (3 + x + y * x * y)),
    ],
)
def test_the_jacobian_is_the_tangent_along_every_unknown(laws, build):
    system = Engine(build(*free.variables(*laws))).system
    rng = np.random.default_rng(0)
    unknowns = 0.1 * rng.standard_normal((3, system.unknowns)) - 0.1j
    z, height = np.array([0.3 + 0.1j, 0.5 + 0.2j, 1.0 + 0.1j]), np.full(3, 0.3)
    state = system.evaluate(system.base(z, height), unknowns)
    along = system.tangent(state, np.eye(system.unknowns, dtype=complex)[np.newaxis]).transpose(0, 2, 1)
    np.testing.assert_allclose(system.jacobian(state), along, atol=1e-12 * np.abs(along).max())
