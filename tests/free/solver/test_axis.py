"""Points on the real axis from their neighbours and from series, and ends of spectra as folds."""

import numpy as np
import pytest

from reshuffle import free
from tests.free import oracles

EDGES = (0.09987126, 0.72195051)


def test_ten_thousand_points_cost_about_as_many_steps_as_four_hundred():
    few, many = oracles.two_batches(), oracles.two_batches()
    t = np.linspace(EDGES[0] + 1e-3, EDGES[1] - 1e-3, 10_000)
    few.density(t[::25])
    found = many.resolve(t)
    exact = oracles.TwoBatchCurve(0.5, 0.2).density(t[::97])
    np.testing.assert_allclose(found.value[::97], exact, atol=1e-12)
    assert (np.abs(found.value[::97] - exact) <= found.error[::97] + 1e-14).all()
    assert many.engine.effort.spent < 2 * few.engine.effort.spent
    spent = many.engine.effort.spent
    np.testing.assert_array_equal(many.density(t[::25]), found.value[::25])
    assert many.engine.effort.spent < 1.1 * spent


def test_many_points_keep_their_flags_beside_an_atom_and_a_singularity():
    p, q = free.variables(free.Projection(0.5), free.Projection(0.5))
    s = free.spectrum(p * q + q * p)
    t = np.sort(np.concatenate([np.linspace(-0.3, 2.05, 1500), [-0.25, 0.0, 2.0]]))
    answer = s.resolve(t)
    np.testing.assert_array_equal(np.isnan(answer.value), ~answer.converged)
    assert not answer.converged[np.isin(t, [-0.25, 0.0, 2.0])].any()
    inside = (t > -0.25) & (t < 2.0) & answer.converged
    exact = oracles.half_projections_density(t[inside])
    assert (np.abs(answer.value[inside] - exact) <= answer.error[inside] + 1e-9 * exact).all()


def critical_values(places, weights, variance):
    """Return the edges of a semicircle plus a discrete law: critical values of ``w + v sum_k p_k/(w - a_k)``."""
    whole = np.polynomial.Polynomial([1.0])
    for a in places:
        whole *= np.polynomial.Polynomial([-a, 1.0]) ** 2
    rest = sum(
        p * (whole // np.polynomial.Polynomial([-a, 1.0]) ** 2) for a, p in zip(places, weights, strict=True)
    )
    roots = (whole - variance * rest).roots()
    real = roots[np.abs(roots.imag) < 1e-9].real
    for _ in range(3):
        slope = 1 - variance * sum(p / (real - a) ** 2 for a, p in zip(places, weights, strict=True))
        bend = 2 * variance * sum(p / (real - a) ** 3 for a, p in zip(places, weights, strict=True))
        real = real - slope / bend
    return np.sort(real + variance * sum(p / (real - a) for a, p in zip(places, weights, strict=True)))


@pytest.mark.parametrize("variance", [0.03, 0.2499])
def test_ends_are_critical_values_to_rounding(variance):
    """The second has a gap of a few thousandths between its first two bands."""
    places, weights = [-1.0, 0.0, 2.0], [0.25, 0.25, 0.5]
    x, y = free.variables(free.Semicircle(variance), free.Discrete(places, weights))
    found = np.ravel(free.spectrum(x + y).support)
    np.testing.assert_allclose(found, critical_values(places, weights, variance), atol=4e-15 * 3)
