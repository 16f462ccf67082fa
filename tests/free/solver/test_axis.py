"""Points on the real axis that start from their neighbours, and series for many of them."""

import numpy as np

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
