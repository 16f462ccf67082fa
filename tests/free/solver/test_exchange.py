"""Variables that can be exchanged: found, and the joint system split without a change of the law."""

import itertools
from functools import lru_cache

import numpy as np
import pytest

from reshuffle import free
from reshuffle.asymptotics.laws.batch_law import BatchLaw
from reshuffle.free.solver.continuation import follow
from reshuffle.free.solver.symmetry import SymmetricSystem, exchange, isotypic
from reshuffle.free.solver.system import System


def symmetrised(laws):
    """Return 1 minus the average over all orders of the product of (1 - w_b)."""
    w = free.variables(*laws)

    @lru_cache(None)
    def over(subset):
        return sum((1 - w[b]) * over(subset - {b}) for b in subset) / len(subset) if subset else 1.0

    return free.spectrum(1 - over(frozenset(range(len(laws)))))


def unsplit(s, t):
    """Return the densities from the system of all variables, each for itself."""
    engine = s.engine
    laws = [
        law / scale for law, scale in zip(engine.expression.family.laws, engine.pencil.scales, strict=True)
    ]
    whole = System(engine.pencil.coefficients, laws, engine.direction)
    inner = ((t - engine.pencil.shift) / engine.pencil.factor).astype(complex)
    return -follow(whole, inner, 1).resolvent[:, 0, 0].imag / (np.pi * engine.pencil.factor)


@pytest.mark.parametrize(
    ("law", "unknowns"),
    [
        (free.MarchenkoPastur(0.5, 0.13), 7),
        (free.Projection(0.4), 7),
        (free.Uniform(0.0, 0.5), 7),
        (free.Arcsine(-0.3, 0.4), 7),
    ],
    ids=repr,
)
def test_splitting_keeps_the_law(law, unknowns):
    s = symmetrised([law] * 3)
    assert isinstance(s.engine.system, SymmetricSystem)
    assert s.engine.system.unknowns == unknowns
    t = np.linspace(0.11, 0.83, 9)
    np.testing.assert_allclose(s.density(t), np.maximum(unsplit(s, t), 0.0), atol=1e-11)


@pytest.mark.parametrize("batches", [4, 6])
def test_symmetrised_products_against_the_law_of_exchangeable_batches(batches):
    law = BatchLaw(0.125, 0.4, batches)
    s = symmetrised([free.MarchenkoPastur(0.125 * batches, 0.4 / batches)] * batches)
    low, high = law.support[0]
    t = np.linspace(low, high, 30)[1:-1]
    np.testing.assert_allclose(s.density(t), law.density(t), atol=1e-9)


def test_two_classes_and_a_variable_of_its_own():
    a, b = free.MarchenkoPastur(0.5, 0.3), free.Semicircle(0.2)
    x1, y1, x2, y2, z = free.variables(a, b, a, b, free.Projection(0.5))
    p = (
        x1 * x2
        + x2 * x1
        + z * (x1 + x2) * z
        + y1 * y2
        + y2 * y1
        + (x1 + x2) * (y1 + y2)
        + (y1 + y2) * (x1 + x2)
    )
    s = free.spectrum(p)
    found = exchange(s.engine.pencil.coefficients.real, 1, s.engine.expression.family.laws)
    assert sorted(found.classes) == [(0, 2), (1, 3), (4,)]
    t = np.linspace(-1.0, 3.0, 11)
    np.testing.assert_allclose(s.density(t), np.maximum(unsplit(s, t), 0.0), atol=1e-11)


@pytest.mark.slow
def test_a_matrix_of_expressions_is_split_too():
    x, y, z = free.variables(*[free.Semicircle(0.5)] * 3)
    total = x + y + z
    s = free.spectrum(free.block([[total, x * y + y * z + z * x], [y * x + z * y + x * z, -1]]))
    assert isinstance(s.engine.system, System), "the other entry changes when two variables are exchanged"
    products = x * y + y * x + y * z + z * y + x * z + z * x
    s = free.spectrum(free.block([[total, products], [products, -1]]))
    assert isinstance(s.engine.system, SymmetricSystem)
    t = np.linspace(-3.0, 3.0, 8)
    comparison = s.compare(300, seed=2)
    assert comparison.distance < 0.02
    assert (s.density(t) >= 0).all()


def test_what_is_not_symmetric_is_not_exchanged():
    law = free.MarchenkoPastur(0.5, 0.3)
    x, y, z = free.variables(law, law, law)
    crooked = free.spectrum(x * y * z + z * y * x + x + y)
    assert exchange(crooked.engine.pencil.coefficients.real, 1, [law] * 3) is None
    x, y, z = free.variables(law, free.MarchenkoPastur(0.5, 0.31), free.MarchenkoPastur(0.5, 0.32))
    other = free.spectrum(x * y * z + z * y * x + y * z * x + x * z * y + z * x * y + y * x * z)
    assert isinstance(other.engine.system, System)


def test_types_of_a_permutation_of_three():
    group = [np.eye(3)[list(order)] for order in itertools.permutations(range(3))]
    types = isotypic(lambda x: sum(g.T @ x @ g for g in group) / 6, 3)
    assert sorted(u.shape for u in types) == [(1, 3, 1), (2, 3, 1)]
    (constant,) = [u[0] for u in types if u.shape[0] == 1]
    np.testing.assert_allclose(np.abs(constant[:, 0]), 3**-0.5)
