"""The simulator against the exact answers, within four standard errors, and its reproducibility."""

import threading
from importlib import import_module

import numpy as np
import pytest
import threadpoolctl

import reshuffle as rs
from reshuffle.simulation import single_run_risks
from tests.looped import for_all
from tests.problems import case, close

training = import_module("reshuffle.simulation")


@for_all("scheme", [rs.RandomReshuffling(batches=3), rs.SampleReshuffling(batches=3), rs.FullBatch()])
def test_blocks_that_are_trained_side_by_side_give_the_same_bits_whatever_the_threads(monkeypatch, scheme):
    monkeypatch.setattr(training, "MOST_ENTRIES", 900)
    problem = rs.gaussian(90, 60, seed=0)
    arguments = {
        "step": 0.05,
        "epochs": [1, 3, 10],
        "runs": 60,
        "seed": 7,
        "fresh_noise": True,
        "test_samples": 20,
    }
    found = []
    for threads in (1, 2, 3):
        with threadpoolctl.threadpool_limits(threads):
            found.append(rs.simulate(problem, scheme, **arguments))
    for other in found[1:]:
        for name in ("iterate", "expected_risk", "risk", "spread", "test_error"):
            np.testing.assert_array_equal(getattr(other, name).mean, getattr(found[0], name).mean)
            np.testing.assert_array_equal(
                getattr(other, name).standard_error, getattr(found[0], name).standard_error
            )


@pytest.mark.parametrize("test_samples", [0, 10])
def test_the_same_seed_gives_all_schemes_the_same_noise(monkeypatch, test_samples):
    """In many blocks too: after one epoch of tiny steps, parameters are alike in any order."""
    monkeypatch.setattr(training, "BLOCK_ENTRIES", 100)
    monkeypatch.setattr(training, "_FEW", 4)
    problem = rs.gaussian(24, 8, noise=1.0, seed=0)
    arguments = {"step": 1e-9, "epochs": 1, "runs": 40, "seed": 3, "fresh_noise": True}
    full, *others = (
        rs.simulate(problem, scheme, test_samples=test_samples, **arguments).iterate.mean / steps
        for scheme, steps in (
            (rs.FullBatch(), 1),
            (rs.RandomReshuffling(batches=2), 2),
            (rs.RandomReshuffling(batches=12), 12),
            (rs.Cyclic(batches=4), 4),
        )
    )
    for other in others:
        np.testing.assert_allclose(other, full, rtol=1e-6, atol=1e-15)


@for_all("scheme", [rs.RandomReshuffling(batches=3), rs.Cyclic(batches=3), rs.FullBatch()])
@for_all("size", [1.0, 1e-151, 1e151])
def test_batches_of_many_rows_are_visited_by_their_sums(monkeypatch, scheme, size):
    """The same gradients as from the rows, in any unit, with everything that a recipe can ask for."""
    base = rs.gaussian(40, 5, seed=0)
    problem = rs.LeastSquares(size * base.X, base.y)
    arguments = {"step": 0.1 / size / size, "epochs": [1, 2, 30], "runs": 100, "momentum": 0.5} | (
        {"penalty": 0.1, "unpenalized": [0], "average": rs.EMA(0.9)} if size == 1 else {}
    )
    found = rs.simulate(problem, scheme, **arguments)
    with monkeypatch.context() as patch:
        patch.setattr(training, "_FEWEST_ROWS", np.inf)
        rows = rs.simulate(problem, scheme, **arguments)
    assert np.isfinite(found.iterate.mean).all()
    np.testing.assert_allclose(found.iterate.mean, rows.iterate.mean, rtol=1e-10, atol=1e-12 / size)
    assert not np.array_equal(found.iterate.mean, rows.iterate.mean)


def test_a_simulation_that_is_interrupted_ends_at_once(monkeypatch):
    """Blocks that run beside the one that fails stop at their next epoch, and not after their last."""
    monkeypatch.setattr(training, "MOST_ENTRIES", 900)
    visits, fails = [], threading.Event()

    def counted(block, visit):
        visits.append(len(visit.runs))
        if len(visits) > 20 and not fails.is_set():
            fails.set()
            raise KeyboardInterrupt

    monkeypatch.setattr(training.Block, "_visit", counted)
    with threadpoolctl.threadpool_limits(2), pytest.raises(KeyboardInterrupt):
        rs.simulate(rs.gaussian(90, 60, seed=0), rs.FullBatch(), 0.01, epochs=10**6, runs=60)
    # Whichever fails first: the others would make a million each.
    assert len(visits) < 500_000


@pytest.mark.slow
def test_standard_errors_are_those_of_independent_pairs():
    """Full batch is linear in the noise, so the spread of its iterates is known: noise^2 times the map's square."""
    tiny = case(10, 4, 1, noise=1.0)
    arguments = {"step": tiny.step, "epochs": [7], "runs": 4000, "fresh_noise": True}
    result = rs.simulate(tiny.problem, rs.FullBatch(), **arguments)
    A, N = tiny.mean_map("full")
    noise_map = sum(np.linalg.matrix_power(A, j) @ N for j in range(7))
    # The two runs of a pair coincide, so there are half as many independent ones.
    expected = np.sqrt(np.square(noise_map).sum(axis=1) / 2000)
    np.testing.assert_allclose(result.iterate.standard_error[0], expected, rtol=0.07)
    estimates = [
        rs.simulate(tiny.problem, rs.FullBatch(), **{**arguments, "runs": 20, "seed": seed}).risk
        for seed in range(300)
    ]
    spread = np.std([float(estimate.mean[0]) for estimate in estimates])
    reported = np.sqrt(np.mean([float(estimate.standard_error[0]) ** 2 for estimate in estimates]))
    assert reported == pytest.approx(spread, rel=0.15)


@pytest.mark.parametrize("covariance", [None, "dense"])
def test_the_test_error_is_the_risk_of_a_run(covariance):
    """What each run measures on its own test samples is, on average, the closed form of its risk."""
    if covariance == "dense":
        root = np.random.default_rng(2).standard_normal((6, 6))
        covariance = root @ root.T / 6
    problem = rs.gaussian(12, 6, covariance=covariance, seed=4)
    options = {"step": 0.05, "epochs": [0, 3, 20], "runs": 400, "fresh_noise": True}
    result = rs.simulate(problem, rs.RandomReshuffling(batches=3), test_samples=300, seed=1, **options)
    closed = rs.simulate(problem, rs.RandomReshuffling(batches=3), seed=1, **options)
    assert closed.test_error is None
    np.testing.assert_array_equal(closed.expected_risk.mean, result.expected_risk.mean)
    # The runs are the same, so that only the sampling of the tests is left: chi^2 with 300 degrees of freedom.
    spread = closed.expected_risk.mean * np.sqrt(2 / (300 * 400)) * 2
    assert (np.abs(result.test_error.mean - closed.expected_risk.mean) < 4 * spread).all()
    assert (result.test_error.standard_error > 0).all()


def test_errors_on_test_samples_vary_as_those_of_real_samples(monkeypatch):
    """One full-batch run, in several blocks: its mean square over m samples has the variance 2 risk^2 / m."""
    monkeypatch.setattr(training, "MOST_ENTRIES", 5000)
    problem = rs.gaussian(6, 5, seed=0)
    found = rs.simulate(problem, rs.FullBatch(), step=0.1, epochs=[1, 2], runs=20_000, test_samples=3)
    risk = found.expected_risk.mean
    samples = np.random.default_rng(0).standard_normal((20_000, 3, 5))
    errors = found.iterate.mean - problem.beta_star
    real = np.square(samples @ errors.T).mean(axis=1)
    np.testing.assert_allclose(found.test_error.standard_error, real.std(axis=0) / np.sqrt(20_000), rtol=0.04)
    np.testing.assert_allclose(found.test_error.standard_error, risk * np.sqrt(2 / 3 / 20_000), rtol=0.04)
    assert (np.abs(found.test_error.mean - risk) < 4 * found.test_error.standard_error).all()


def test_single_runs_are_those_whose_mean_is_simulated():
    problem = rs.gaussian(24, 6, noise=0.7, seed=4)
    for scheme in (rs.SampleReshuffling(batch_size=8), rs.WithReplacement(batches=3), rs.FullBatch()):
        risks = single_run_risks(problem, scheme, alpha=0.3, epochs=[[0, 2], [5, 1]], runs=6, seed=9)
        mean = rs.simulate(
            problem, scheme, alpha=0.3, epochs=[[0, 2], [5, 1]], runs=6, seed=9
        ).expected_risk.mean
        assert risks.shape == (2, 2, 6)
        assert risks.mean(axis=-1) == pytest.approx(mean)
    with pytest.raises(ValueError, match="epochs must be finite"):
        single_run_risks(problem, scheme, alpha=0.3, epochs=[np.inf], runs=2)
    with pytest.raises(ValueError, match="runs must be"):
        single_run_risks(problem, scheme, alpha=0.3, epochs=1, runs=0)


def test_shapes_divergence_and_what_the_truth_is_needed_for():
    tiny = case(8, 5, 2)
    asked = {"step": 0.05, "epochs": [[5, 0], [5, 2]], "runs": 40}
    result = rs.simulate(tiny.problem, tiny.scheme("reshuffling"), fresh_noise=True, **asked)
    assert result.iterate.mean.shape == (2, 2, 5)
    close(result.iterate.mean[0, 0], result.iterate.mean[1, 0])
    close(result.iterate.mean[0, 1], np.zeros(5))
    close(result.spread.mean, result.expected_risk.mean - result.risk.mean)
    assert result.spread.standard_error[0, 0] < 0.2 * result.expected_risk.standard_error[0, 0]
    wild = rs.simulate(tiny.problem, tiny.scheme("full"), step=1e6, epochs=[200], runs=4)
    for estimate in (wild.expected_risk, wild.iterate, wild.risk):
        assert (estimate.mean == np.inf).all()
        assert (estimate.standard_error == np.inf).all()
    unknown, simple = rs.LeastSquares([[1.0], [2.0]], [1.0, 2.0]), {"step": 0.1, "epochs": 3, "runs": 10}
    assert rs.simulate(unknown, rs.RandomReshuffling(batches=2), **simple).expected_risk is None
    for name, value in {"fresh_noise": True, "test_samples": 5}.items():
        with pytest.raises(rs.MissingTruthError, match=f"{name} needs beta_star and noise"):
            rs.simulate(unknown, rs.FullBatch(), **simple, **{name: value})
    with pytest.raises(ValueError, match="test_samples must be a whole number of at least 0"):
        rs.simulate(tiny.problem, rs.FullBatch(), **simple, test_samples=-5)
