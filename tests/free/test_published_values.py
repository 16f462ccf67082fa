"""Values, edges and powers that others have published or that closed forms give; two projections."""

import math

import numpy as np
import pytest

from reshuffle import free
from tests.looped import for_all

JUMPS = [free.FreePoisson(0.1 * 0.75, 2.0), free.FreePoisson(0.1 * 0.25, 5.5)]
COMPOUND = 0.13510408 - 0.23535224j, [1.0055181597, 3.1256892314, 4.1627237799, 7.5953545433]
LEVY = 0.12025009 - 0.23433836j, [-1.7334440575, 3.4379234047, 4.3387600471, 7.7222944115]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("law", "value", "edges"),
    [
        (free.add(*JUMPS), *COMPOUND),
        (free.gram(free.Discrete([2.0, 5.5], [0.75, 0.25]), 0.1), *COMPOUND),
        (free.add(*JUMPS, free.Semicircle(0.81)), *LEVY),
    ],
    ids=["compound free Poisson", "the same as a Gram matrix", "free Levy"],
)
def test_free_levy_laws(law, value, edges):
    """Rate 0.1, jumps 2 and 5.5 with weights 3/4 and 1/4, and a semicircle of standard deviation 0.9."""
    assert complex(law.cauchy(2 + 3j)) == pytest.approx(value, abs=1e-8)
    np.testing.assert_allclose(np.ravel(law.support), edges, atol=1e-9)


def test_a_free_levy_law_of_an_expression():
    x, y, z = free.variables(*JUMPS, free.Semicircle(0.81))
    np.testing.assert_allclose(np.ravel(free.spectrum(x + y + z).support), LEVY[1], atol=1e-9)


@pytest.mark.parametrize("expression", ["x*y + y*x", "1j*(x*y - y*x)"])
def test_edges_of_commutator_and_anticommutator(expression):
    law = free.spectrum(expression, x=free.Semicircle(), y=free.Semicircle())
    np.testing.assert_allclose(law.support, [(-3.3301906767855614, 3.3301906767855614)], rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("times", [2, 3])
def test_fuss_catalan_laws(times):
    """Edges (s + 1)^(s + 1)/s^s, that is 27/4 and 256/27, and moments binom((s + 1) k, k)/(s k + 1)."""
    law = free.multiplicative_power(free.MarchenkoPastur(1.0), times)
    ((low, high),) = law.support
    assert (low, high) == (0.0, pytest.approx((times + 1) ** (times + 1) / times**times, rel=1e-10))
    exact = [math.comb((times + 1) * k, k) / (times * k + 1) for k in range(1, 6)]
    np.testing.assert_allclose(law.moments(5), exact, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 5, 12])
def test_sums_of_free_signs_end_at_twice_the_root(count):
    law = free.additive_power(free.Bernoulli(), count)
    edge = 2 * math.sqrt(count - 1)
    np.testing.assert_allclose(law.support, [(-edge, edge)], rtol=1e-11)


def test_a_density_like_the_inverse_cube_root():
    x, y = free.variables(free.Semicircle(), free.Semicircle())
    law = free.spectrum(free.block([[0, x], [x, y]]))
    points = np.array([1e-4, 1e-5, 1e-6])
    slopes = np.diff(np.log(law.density(points))) / np.diff(np.log(points))
    np.testing.assert_allclose(slopes, -1 / 3, atol=2e-3)


def product(a, b):
    """Return support and atoms of p q p for ranks a and b."""
    middle, reach = a + b - 2 * a * b, 2 * np.sqrt(a * b * (1 - a) * (1 - b))
    return [(middle - reach, middle + reach)], {0.0: 1 - min(a, b), 1.0: max(a + b - 1, 0.0)}


def commutator(a, b):
    """Return support and atoms of i (p q - q p)."""
    ((low, high),), _ = product(a, b)
    roots = [np.sqrt(max(t * (1 - t), 0.0)) for t in (low, high)]
    top = 0.5 if low <= 0.5 <= high else max(roots)
    return [(-top, -min(roots)), (min(roots), top)], {0.0: abs(1 - a - b) + abs(a - b)}


def anticommutator(a, b):
    """Return support and atoms of p q + q p, where its parts do not meet."""
    ((low, high),), atoms = product(a, b)
    roots = np.sqrt([low, high])
    below = [t - np.sqrt(t) for t in (low, high)] + ([-0.25] if low <= 0.25 <= high else [])
    at_zero = abs(1 - a - b) + abs(a - b) - atoms[1.0]
    return [(min(below), max(below)), (low + roots[0], high + roots[1])], {0.0: at_zero, 2.0: atoms[1.0]}


def compared(expression, support, atoms, budget=60.0):
    s = free.spectrum(expression, budget)
    assert len(s.support) == len(support)
    np.testing.assert_allclose(s.support, support, rtol=0, atol=1e-8)
    expected = [(place, mass) for place, mass in sorted(atoms.items()) if mass > 1e-9]
    assert len(s.atoms) == len(expected)
    np.testing.assert_allclose(s.atoms, expected, rtol=0, atol=1e-12)


@for_all(
    "ranks", [(0.3, 0.4), (0.7, 0.4), (0.9, 0.3), (0.999, 0.3), (1e-4, 0.5), (0.02, 0.5), (0.548, 0.046)]
)
def test_products_of_any_ranks(ranks):
    p, q = free.variables(*map(free.Projection, ranks))
    compared(p * q * p, *product(*ranks))
    ((low, high),), _ = product(*ranks)
    t = np.linspace(low, high, 22)[1:-1]
    exact = np.sqrt((t - low) * (high - t)) / (2 * np.pi * t * (1 - t))
    np.testing.assert_allclose(free.spectrum(p * q * p).density(t), exact, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [(0.5, 0.5000001), (1 / 3, 0.6666668)])
def test_an_atom_that_sets_in_is_listed(ranks):
    p, q = free.variables(*map(free.Projection, ranks))
    compared(p * q * p, *product(*ranks))


@pytest.mark.slow
def test_commutators_have_no_part_beside_their_kernel():
    p, q = free.variables(free.Projection(0.7), free.Projection(0.4))
    # They took forty times as much, or were refused.
    compared(1j * (p * q - q * p), *commutator(0.7, 0.4), budget=3.0)


@pytest.mark.parametrize("ranks", [(0.999, 0.3), (0.158, 0.931)])
def test_anticommutators(ranks):
    p, q = free.variables(*map(free.Projection, ranks))
    compared(p * q + q * p, *anticommutator(*ranks))
