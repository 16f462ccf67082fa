"""One table of metrics: every answer is that of the run; leave-one-out by the mean step is within its error."""

import math

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.grid import metrics
from reshuffle.grid.metrics import METRICS, evaluate, held_out_loss, simulated
from reshuffle.validation import mean_step
from tests.looped import for_all

PROBLEM = rs.gaussian(24, 6, noise=0.5, seed=4)
RUN = rs.descend(PROBLEM, rs.RandomReshuffling(batches=3), step=0.05)
WHEN = np.array([[0.0, 3.0], [40.0, math.inf]])


def test_every_quantity_has_its_shape_a_label_and_a_unit():
    y = np.column_stack([PROBLEM.y, PROBLEM.y[::-1]])
    run = rs.descend(rs.LeastSquares(PROBLEM.X, y), rs.RandomReshuffling(batches=3), step=0.05)
    names = [name for name, metric in METRICS.items() if not metric.needs_truth and name != "limit_distance"]
    (found,) = evaluate([run], names, WHEN)
    for metric in (METRICS[name] for name in names):
        for each in metric.quantities:
            assert found[each.name].value.shape == each.shape(run.problem, WHEN.shape), each.name
            assert found[each.name].reason == "", each.name
            assert each.label, each.name
            assert each.unit, each.name
    np.testing.assert_allclose(found["iterate"].value, run.iterate(WHEN))
    np.testing.assert_allclose(found["leave_one_out"].value, run.leave_one_out(WHEN, of_run=True).mean_square)


def test_the_loss_of_a_single_run_is_that_of_the_mean_and_its_spread():
    run = rs.descend(rs.LeastSquares(PROBLEM.X, PROBLEM.y), rs.RandomReshuffling(batches=3), step=0.05)
    (found,) = evaluate([run], ["expected_training_loss", "training_loss", "excess_training_loss"], [5, 50])
    spread = run.excess_training_loss([5, 50], of_run=True) - run.excess_training_loss([5, 50])
    np.testing.assert_allclose(found["expected_training_loss_spread"].value, spread, rtol=1e-10)
    total = found["training_loss"].value + spread
    np.testing.assert_allclose(found["expected_training_loss"].value, total, rtol=1e-10)


def test_held_out_and_simulated_losses_are_those_of_the_definitions():
    other = rs.gaussian(9, 6, noise=0.5, seed=5)
    (found,) = evaluate(
        [RUN], [held_out_loss(other), simulated(400, 1, knows_truth=True), "expected_risk"], [2, 9]
    )
    losses = np.square(RUN.iterate([2, 9]) @ other.X.T - other.y).mean(axis=1) / 2
    np.testing.assert_allclose(found["held_out_loss"].value, losses)
    # Where the mean is off by its error, residuals are by so much times the norm of the features.
    drawn = rs.descend(PROBLEM, RUN.scheme, step=0.05, method="sampling", rtol=0.1)
    held = evaluate([drawn], [held_out_loss(other)], [2, 9])[0]["held_out_loss"]
    size, off = np.sqrt(2 * 9 * held.value), np.linalg.norm(other.X, 2) * drawn.iterate_error([2, 9])
    np.testing.assert_allclose(held.error, (np.square(size + off) - np.square(size)) / (2 * 9))
    assert (np.abs(held.value - losses) <= held.error).all()
    off = np.abs(found["simulated_expected_risk"].value - found["expected_risk"].value)
    assert (off <= 2 * found["simulated_expected_risk"].error).all()
    unknown = rs.descend(rs.LeastSquares(PROBLEM.X, PROBLEM.y), rs.RandomReshuffling(batches=3), step=0.05)
    (found,) = evaluate([unknown], [simulated(40, knows_truth=False), "training_loss"], [9])
    off = np.abs(found["simulated_training_loss"].value - found["training_loss"].value)
    assert (off <= found["simulated_training_loss"].error).all()


def test_what_is_refused_has_its_exception_and_leaves_the_others_alone():
    unknown = rs.descend(
        rs.LeastSquares(PROBLEM.X, PROBLEM.y), rs.RandomReshuffling(batches=3), step=[0.1] * 9
    )
    (found,) = evaluate([unknown], ["risk", "limit", "training_loss"], [3])
    assert isinstance(found["risk"].refusal, rs.MissingTruthError)
    assert isinstance(found["limit_risk"].refusal, rs.UnsupportedError)
    assert math.isnan(found["limit_risk"].value)
    assert "constant step" in found["limit_risk"].reason
    np.testing.assert_allclose(found["training_loss"].value, unknown.training_loss([3]))
    (found,) = evaluate([RUN], ["expected_risk"])
    assert "epochs must be given" in found["expected_risk"].reason


def test_prices_above_the_limit_are_refused():
    run = rs.descend(rs.gaussian(300, 30, noise=0.5, seed=1), rs.RandomReshuffling(batches=11), step=0.05)
    (found,) = evaluate([run], ["expected_risk", "risk"], 8000, operations=1.0)
    assert isinstance(found["expected_risk"].refusal, rs.BudgetError)
    assert "expected risk of a single run takes about" in found["expected_risk"].reason
    assert found["risk"].is_known


SHUFFLED = rs.gaussian(300, 40, noise=0.5, seed=2, covariance=np.geomspace(1, 0.01, 40))
SCHEME = rs.SampleReshuffling(batch_size=30)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_a_diverging_run_is_found_by_a_few_orders_and_not_followed(momentum, monkeypatch):
    def refuse(*arguments, **others):
        raise AssertionError("a diverging run must not be followed")

    names = ["risk", "expected_risk", "leave_one_out", "limit", "stability", "mean_square_stability"]
    for name in names:
        monkeypatch.setattr(rs.Run, name, refuse)
    run = rs.descend(SHUFFLED, SCHEME, step=5.0, momentum=momentum)
    (found,) = evaluate([run], names, [1, 10, math.inf])
    for name in ("risk", "risk_bias", "expected_risk", "leave_one_out", "limit_risk", "mean_square_rate"):
        assert np.isinf(found[name].value).all(), name
        assert found[name].reason.startswith("diverges: the mean iterate grows"), name
    assert found["converges"].value == found["mean_square_converges"].value == 0
    assert found["rate"].value > 10


@pytest.mark.filterwarnings("ignore:at step 2.05 the mean iterate diverges")
def test_the_start_and_the_first_epochs_of_a_diverging_run_are_known():
    run = rs.descend(SHUFFLED, SCHEME, step=2.05)
    assert run.divergence is not None
    assert run.divergence.value < 10
    (found,) = evaluate([run], ["risk", "best_epoch"], [0, 1, 3000])
    assert found["risk"].error[1] > 0
    start = rs.descend(SHUFFLED, rs.FullBatch(), step=0.1)
    np.testing.assert_allclose(found["risk"].value[:2], [start.risk(0).total, run.relaxed.risk(1).total])
    assert np.isinf(found["risk"].value[2])
    assert found["best_epoch"].value < 100


@for_all("step", [0.2, 1.0, 1.7])
def test_runs_that_converge_are_not_taken_for_diverging(step):
    # The critical step is 1.89 +- 0.12.
    assert rs.descend(SHUFFLED, SCHEME, step=step).divergence is None


EPOCHS = [1, 3, 30]


def answered(run):
    (found,) = evaluate([run], ["mean_leave_one_out"], EPOCHS)
    return found["mean_leave_one_out"]


@pytest.mark.parametrize("step", [0.003, 0.03, 0.1])
@pytest.mark.parametrize("kind", [rs.RandomReshuffling, rs.SampleReshuffling])
def test_its_error_covers_the_leave_one_out_of_the_run(kind, step, monkeypatch):
    """Small problems take the formulas of their runs, unless they are made to take the mean step."""
    data = rs.gaussian(120, 4, noise=1.0, seed=int(1000 * step))
    y = np.column_stack([data.y, np.abs(data.y)])
    scheme = kind(batches=7) if kind is rs.RandomReshuffling else kind(batch_size=20)
    run = rs.descend(rs.LeastSquares(data.X, y), scheme, step, start=np.full((4, 2), 0.3), penalty=0.01)
    own = run.leave_one_out(EPOCHS)
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
    np.testing.assert_allclose(found.value, near.leave_one_out(EPOCHS).mean_square, rtol=0.01)
    assert (found.error < 0.02 * found.value).all()


def test_a_large_run_that_diverges_is_found_by_training_it(monkeypatch):
    monkeypatch.setattr(metrics, "_QUICKLY_DRAWN", 1e7)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((900, 110)), rng.standard_normal((900, 2))
    runs = [
        rs.descend(rs.LeastSquares(X, y), rs.SampleReshuffling(batch_size=30), step) for step in (1.5, 0.001)
    ]
    diverging, other = (answers["leave_one_out"] for answers in evaluate(runs, ["leave_one_out"], EPOCHS))
    assert np.isinf(diverging.value).all()
    assert "diverges" in diverging.reason
    assert np.isfinite(other.value).all()
    assert not other.reason
