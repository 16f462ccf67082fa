"""Values, edges and powers that others have published, or that closed forms give."""

import math

import numpy as np
import pytest

from reshuffle import free

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
