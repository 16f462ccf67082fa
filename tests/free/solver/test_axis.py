"""Points on the real axis that start from their neighbours, and series for many of them."""

import numpy as np
import pytest

from reshuffle import free
from reshuffle.free.solver.axis import ChebyshevCache
from reshuffle.free.solver.continuation import follow
from tests.free import oracles

EDGES = (0.09987126, 0.72195051)


def two_batch():
    x, y = free.variables(*[free.MarchenkoPastur(0.5, 0.2)] * 2)
    return free.spectrum(x + y - (x * y + y * x) / 2)


def one_by_one(s, t):
    """Return densities of which each is followed down its own path."""
    engine = s.engine
    inner = ((t - engine.pencil.shift) / engine.pencil.factor).astype(complex)
    solution = follow(engine.system, inner, 1)
    return -solution.resolvent[:, 0, 0].imag / (np.pi * engine.pencil.factor)


def test_neighbours_give_what_the_path_gives_with_a_fraction_of_the_steps():
    s, t = two_batch(), np.linspace(EDGES[0] + 1e-3, EDGES[1] - 1e-3, 200)
    found = s.density(t)
    np.testing.assert_allclose(found, one_by_one(s, t), atol=1e-13)
    assert s.engine.effort.spent / s.engine.effort.step < 0.4 * len(t) * 13


def test_points_across_edges_gaps_and_atoms_are_right_whatever_was_asked_before():
    laws = free.Semicircle(0.05), free.Discrete([-1.0, 0.0, 1.0], [0.3, 0.3, 0.4])
    t = np.linspace(-2.2, 2.2, 301)
    x, y = free.variables(*laws)
    wide, narrow = free.spectrum(x + y), free.spectrum(x + y)
    # Narrow looks at the gap first, from where the bands cannot be guessed.
    narrow.density(np.linspace(-0.52, -0.48, 40))
    np.testing.assert_allclose(wide.density(t), narrow.density(t), atol=1e-12)
    np.testing.assert_allclose(wide.density(t), one_by_one(wide, t), atol=1e-12)
    assert (wide.density(t) == 0).sum() > 50


def test_ten_thousand_points_cost_about_as_many_steps_as_four_hundred():
    few, many = two_batch(), two_batch()
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


def test_a_repeated_question_costs_no_step_and_has_the_same_answer():
    s, t = two_batch(), np.linspace(0.05, 0.8, 60)
    first = s.density(t)
    spent = s.engine.effort.spent
    np.testing.assert_array_equal(s.density(t[::-1]), first[::-1])
    assert s.engine.effort.spent == spent


@pytest.mark.parametrize("place", [0.0, 0.3])
def test_series_are_not_drawn_across_a_singularity(place):
    def solve(x):
        return np.sqrt(np.maximum(x - place, 0.0)).astype(complex)[:, None, None], np.full(len(x), 1e-16)

    cache, x = ChebyshevCache(solve), np.linspace(-1.0, 1.0, 5000)
    values, errors = cache.solve(x)
    exact = np.sqrt(np.maximum(x - place, 0.0))
    assert (np.abs(values[:, 0, 0] - exact) <= errors + 1e-15).all()
    assert len(cache.low) > 2
    assert not ((cache.low < place) & (cache.high > place)).any()
