"""Leave-one-out of many points of a sweep by the mean step: within its error of the run's own, and much quicker."""

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.grid import mean_step, metrics
from reshuffle.grid.metrics import evaluate

WHEN = [1, 3, 30]


def answered(run):
    (found,) = evaluate([run], ["mean_leave_one_out"], WHEN)
    return found["mean_leave_one_out"]


@pytest.mark.parametrize("step", [0.003, 0.03, 0.1])
@pytest.mark.parametrize("kind", [rs.RandomReshuffling, rs.SampleReshuffling])
def test_its_error_covers_the_leave_one_out_of_the_run(kind, step, monkeypatch):
    """Small problems take the formulas of their runs, unless they are made to take the mean step."""
    data = rs.gaussian(120, 4, noise=1.0, seed=int(1000 * step))
    y = np.column_stack([data.y, np.abs(data.y)])
    scheme = kind(batches=7) if kind is rs.RandomReshuffling else kind(batch_size=20)
    run = rs.descend(rs.LeastSquares(data.X, y), scheme, step, start=np.full((4, 2), 0.3), penalty=0.01)
    own = run.leave_one_out(WHEN)
    assert answered(run).value == pytest.approx(own.mean_square, rel=1e-12)
    monkeypatch.setattr(mean_step, "_MANY", 3)
    monkeypatch.setattr(mean_step, "_QUICK", 0.0)
    monkeypatch.setattr(mean_step, "_SLOW", 0.0)
    found = answered(run)
    assert found.error_kind == "estimate"
    assert (found.value != own.mean_square).all()
    assert (np.abs(found.value - own.mean_square) <= found.error + own.error).all()
    assert (found.error <= 0.5 * own.standard_error).all()
    closer = rs.descend(run.problem, scheme, step, start=run.start, penalty=0.01, rtol=1e-3)
    assert answered(closer).value == pytest.approx(own.mean_square, rel=1e-3)
    assert answered(closer).value != pytest.approx(found.value, rel=1e-12)


def test_many_fixed_batches_are_not_refitted():
    """Ten folds leave out a tenth of the rows, and took seconds; single rows are left out here."""
    problem = rs.gaussian(160, 3, noise=1.0, seed=1)
    run = rs.descend(problem, rs.RandomReshuffling(batches=20), alpha=1.0)
    found, near = answered(run), rs.descend(problem, rs.RandomReshuffling(batches=10), alpha=1.0)
    np.testing.assert_allclose(found.value, near.leave_one_out(WHEN).mean_square, rtol=0.01)
    assert (found.error < 0.02 * found.value).all()


def test_a_large_run_that_diverges_is_found_by_training_it(monkeypatch):
    monkeypatch.setattr(metrics, "_QUICKLY_DRAWN", 1e7)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((900, 110)), rng.standard_normal((900, 2))
    runs = [
        rs.descend(rs.LeastSquares(X, y), rs.SampleReshuffling(batch_size=30), step) for step in (1.5, 0.001)
    ]
    diverging, other = (answers["leave_one_out"] for answers in evaluate(runs, ["leave_one_out"], WHEN))
    assert np.isinf(diverging.value).all()
    assert "diverges" in diverging.reason
    assert np.isfinite(other.value).all()
    assert not other.reason
