"""Second moments of shuffled samples by centred maps: against the walk over all cuts, and against simulation."""

import math

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.epoch.moments import stationary
from reshuffle.run import expected_risk
from tests.looped import pairwise
from tests.problems import case

RECIPES = [{}, {"penalty": 0.3}, {"momentum": 0.4, "penalty": 0.2}]
SCHEMES = [
    rs.SampleReshuffling(batches=3),
    rs.SampleReshuffling(batch_size=4),
    rs.SampleReshuffling(batch_size=2, drop_last=True),
    rs.RandomReshuffling(batches=3),
]


def by_centred_maps(run, epochs, given=False):
    """The spread by centred maps whether or not anything better is known."""
    return expected_risk._Question(run._affine, run._modes, np.array(epochs), given).by_centred_maps()


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "scheme", "given"), pairwise(RECIPES, SCHEMES, [False, True]), ids=repr)
def test_the_spread_covers_that_of_all_cuts(scheme, recipe, given):
    tiny = case(7, 3, 1, step=0.2)
    # At this rtol the error of a spread, at a confidence of 99%, is requested to be 5.7% of it.
    run = rs.descend(tiny.problem, scheme, 0.2, start=tiny.start, rtol=1.4e-3, **recipe)
    epochs = [0, 1, 2, 5, math.inf]
    exact = run.expected_risk(epochs, given_responses=given)
    assert exact.error_kind != "confidence 99%"
    found = by_centred_maps(run, epochs, given)
    assert (np.abs(found.spread - exact.spread) <= found.error + 1e-12).all()
    assert (found.error[1:] <= 0.06 * found.spread[1:]).all()


@pytest.mark.slow
def test_many_epochs_end_in_the_limit():
    problem = rs.gaussian(60, 4, noise=0.5, seed=0)
    run = rs.descend(problem, rs.SampleReshuffling(batch_size=7), step=0.1)
    assert run.second_moment_choice(1).taken == "centred maps"
    risk = run.expected_risk([5000, math.inf])
    np.testing.assert_allclose(risk.total[0], risk.total[1], rtol=1e-6)
    np.testing.assert_allclose(risk.error[0], risk.error[1], rtol=1e-3)


@pytest.mark.parametrize("recipe", [{}, {"momentum": 0.5, "penalty": 0.1}], ids=repr)
def test_simulated_runs_agree(recipe):
    problem = rs.gaussian(90, 5, noise=0.5, seed=3)
    scheme, epochs = rs.SampleReshuffling(batch_size=8), [1, 6, 25]
    found = rs.descend(problem, scheme, step=0.05, **recipe).expected_risk(epochs)
    real = rs.simulate(
        problem,
        scheme,
        step=0.05,
        epochs=epochs,
        runs=600,
        fresh_noise=True,
        seed=5,
        progress=False,
        **recipe,
    )
    off = np.hypot(4 * real.spread.standard_error, found.error)
    assert (np.abs(real.spread.mean - found.spread) <= off).all()
    assert found.error_kind == "confidence 99%"


def test_runs_that_explode_have_an_infinite_risk():
    """Four batches have an exact mean, which may converge or not: single runs do not."""
    problem = rs.gaussian(60, 4, noise=0.5, seed=0)
    run = rs.descend(problem, rs.SampleReshuffling(batches=4), step=2.0, budget=1e10)
    square = run.mean_square_stability()
    assert not square.converges
    assert square.rate - square.error > 1
    assert run.expected_risk(math.inf).spread == math.inf
    late = run.expected_risk([1, 500])
    assert np.isfinite(late.total[0])
    assert late.total[1] == math.inf


def test_the_larger_radius_by_iteration_is_that_of_the_matrix(monkeypatch):
    """Entries that are too many to write out are left to Arnoldi's iteration."""
    problem, scheme = rs.gaussian(60, 6, seed=0), rs.SampleReshuffling(batches=5)

    def asked():
        return rs.descend(problem, scheme, 0.1, rtol=0.1).mean_square_stability()

    written = asked()
    assert written.error_kind == "confidence 99%"
    monkeypatch.setattr(stationary, "_WRITTEN_OUT", 0)
    iterated = asked()
    for name in ("rate", "error", "gain", "gain_error"):
        assert getattr(iterated, name) == pytest.approx(getattr(written, name), rel=1e-7)
