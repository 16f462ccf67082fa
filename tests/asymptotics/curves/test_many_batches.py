"""More batches than the equations are solved for: the expansion in 1/B against the equations, and against data."""

import sys

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.asymptotics import learning_curve
from reshuffle.free import ConvergenceError

# The package has a function of this name.
MODULE = sys.modules["reshuffle.asymptotics.learning_curve"]


@pytest.mark.slow
@pytest.mark.parametrize(("aspect", "alpha"), [(0.5, 0.5), (0.25, 2.0), (1.5, 0.5)])
def test_the_expansion_is_within_its_error_of_the_equations(aspect, alpha, monkeypatch):
    """From few batches to twelve, where both are cheap."""
    monkeypatch.setattr(MODULE, "_EXPANDED", (3, 4, 6, 8))
    epochs = [1, 5, 100]
    exact = learning_curve(aspect, alpha, 12, noise=0.5).risk(epochs)
    monkeypatch.setattr(MODULE, "MOST_BATCHES", 11)
    expanded = learning_curve(aspect, alpha, 12, noise=0.5).risk(epochs)
    assert exact.error_kind == "exact"
    assert expanded.error_kind == "estimate"
    assert (np.abs(expanded.total - exact.total) <= expanded.error).all()
    assert (expanded.error < (0.1 if alpha == 2 else 1e-3) * exact.total).all()


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "accuracy"), [(2.6, 0.01), (3.2, 0.05), (5.5, 0.5)])
def test_what_diverges_with_fewer_batches_is_left_out_of_the_expansion(alpha, accuracy, monkeypatch):
    """Three batches converge up to alpha = 2.03, four up to 2.85, six up to 4.83, twelve up to 10.2."""
    monkeypatch.setattr(MODULE, "_EXPANDED", (3, 4, 6, 8, 10))
    exact = learning_curve(0.5, alpha, 12, noise=0.5).risk([1, 5, 100])
    monkeypatch.setattr(MODULE, "MOST_BATCHES", 11)
    expanded = learning_curve(0.5, alpha, 12, noise=0.5).risk([1, 5, 100])
    assert (np.abs(expanded.total - exact.total) <= expanded.error).all()
    assert (expanded.error < accuracy * exact.total).all()


def test_an_expansion_that_does_not_tell_convergence_from_divergence_says_so(monkeypatch):
    monkeypatch.setattr(MODULE, "_EXPANDED", (3, 4, 6))
    monkeypatch.setattr(MODULE, "MOST_BATCHES", 8)
    with pytest.raises(ConvergenceError, match=r"does not tell whether .* at most 8 batches"):
        _ = learning_curve(0.5, 7.0, 12).converges


@pytest.mark.slow
def test_a_thousand_batches_are_answered_with_an_error():
    curve = learning_curve(0.5, 0.5, 1000, noise=0.5)
    risk = curve.risk(10)
    assert risk.error_kind == "estimate"
    assert 0 < risk.error < 1e-6
    assert curve.converges
    # Batches of one row each: every row meets all others in random order.
    problem = rs.gaussian(400, 200, noise=0.5, seed=0)
    run = rs.descend(problem, rs.SampleReshuffling(batch_size=1), step=0.5 / 400)
    assert run.risk(10).variance == pytest.approx(float(risk.variance), rel=0.03)
