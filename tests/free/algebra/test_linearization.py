"""The pencil's Schur complement is the expression, and its size is the smallest."""

from functools import lru_cache

import numpy as np

from reshuffle import free
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
