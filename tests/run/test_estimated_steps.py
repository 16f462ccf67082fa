"""Critical steps where the mean over orders is not exact, against exact ones and against real runs."""

import math
import pickle

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.run import critical_steps, estimated_steps
from reshuffle.run.estimated_steps import CriticalStep


@pytest.fixture
def searched(monkeypatch):
    """Every threshold is searched, whatever is known better."""
    monkeypatch.setattr(critical_steps.choice, "draws_thresholds", lambda *rest: True)
    monkeypatch.setattr(critical_steps.step_search, "is_certified", lambda *rest: False)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [{}, {"momentum": 0.5}, {"penalty": 0.2}], ids=repr)
@pytest.mark.parametrize("mean_square", [False, True])
def test_a_searched_step_covers_the_exact_one(request, recipe, mean_square):
    problem, scheme = rs.gaussian(12, 3, seed=1), rs.RandomReshuffling(4)
    exact = rs.critical_step(problem, scheme, mean_square=mean_square, **recipe)
    assert (exact.error, exact.error_kind) == (0.0, "exact")
    request.getfixturevalue("searched")
    found = rs.critical_step(problem, scheme, mean_square=mean_square, **recipe)
    assert found.error_kind != "exact"
    assert abs(found - exact) <= found.error
    assert found.error < 0.25 * exact


@pytest.mark.slow
def test_shuffled_samples_have_thresholds_of_both_kinds():
    problem, scheme = rs.gaussian(30, 2, seed=0), rs.SampleReshuffling(batch_size=5)
    mean = rs.critical_step(problem, scheme)
    square = rs.critical_step(problem, scheme, mean_square=True)
    assert 0 < square <= mean + mean.error
    assert isinstance(square, float)
    assert float(square) * 2 == 2 * square
    below, above = square - 2 * square.error, square + 2 * square.error
    for step, grows in ((below, False), (above, True)):
        epochs = np.array([0, 60])
        real = rs.simulate(
            rs.LeastSquares(problem.X, np.zeros(30), beta_star=np.zeros(2), noise=0.0), scheme, step=step,
            epochs=epochs, runs=400, start=np.ones(2), seed=1, progress=False,
        )  # fmt: skip
        assert (real.expected_risk.mean[-1] > real.expected_risk.mean[0]) == grows


@pytest.mark.slow
def test_many_fixed_batches_have_a_threshold():
    problem = rs.gaussian(50, 2, seed=0)
    found = rs.critical_step(problem, rs.RandomReshuffling(25))
    assert 0 < found.error < 0.5 * found
    assert rs.critical_step(problem, rs.RandomReshuffling(25), mean_square=True) <= found + found.error


def test_a_step_is_a_number_with_an_error():
    step = CriticalStep(0.5, 0.1, "estimate")
    assert repr(step) == "0.50 +- 0.10 (estimate)"
    assert f"{step:.3f}" == "0.500"
    assert math.isclose(step / 2, 0.25)
    again = pickle.loads(pickle.dumps(step))
    assert (again, again.error, again.error_kind) == (0.5, 0.1, "estimate")


def test_a_slope_that_is_none_leaves_everything_open():
    flat = estimated_steps._Trial(False, 1.0, 0.1)
    assert estimated_steps._shift(lambda step: flat, 1.0) == math.inf


def test_no_stable_step_is_an_error():
    with pytest.raises(ArithmeticError, match=r"no step between .* is stable; try a smaller momentum"):
        estimated_steps._bracket(lambda step: estimated_steps._Trial(False, 2.0, 0.0), 1.0)


def test_what_has_no_features_never_diverges():
    problem = rs.LeastSquares(np.zeros((40, 2)), np.zeros(40))
    assert rs.critical_step(problem, rs.SampleReshuffling(8)) == math.inf
