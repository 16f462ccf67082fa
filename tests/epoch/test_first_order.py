"""The cavity equation of many modes to first order: against all of it, against all orders, and drawn ones."""

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.epoch import epoch_map
from reshuffle.epoch.averaging import cavity as whole_equation
from reshuffle.epoch.averaging import first_order
from reshuffle.epoch.averaging.cavity import Visiting
from tests.looped import for_all
from tests.problems import close

TOLERANCE = 1e-6


@pytest.fixture
def few_modes(monkeypatch):
    """As of many modes, here of few."""
    monkeypatch.setattr(first_order, "FEWEST_MODES", 1)


def visited(n, k, steps, strength, last=1.0, seed=0):
    """Samples of different strengths, in the coordinates of their modes."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, k)) * rng.uniform(0.5, 1.5, (n, 1))
    rows, sizes, _ = np.linalg.svd(rows * np.geomspace(1, 0.05, k), full_matrices=False)
    decay_rates = strength * np.square(sizes) / sizes[0] ** 2
    return Visiting(rows, decay_rates[np.newaxis], np.zeros((1, 1, k)), np.ones(1), 1 / steps, last, steps)


@for_all("last", [1.0, 0.3])
@for_all("strength", [0.5, 4.0, 12.0])
def test_it_is_the_whole_equation_up_to_what_it_says_it_leaves_out(few_modes, strength, last):
    visiting = visited(150, 12, 10, strength, last)
    found, whole = first_order.solve(visiting, TOLERANCE), whole_equation.solve(visiting, TOLERANCE)
    allowed = found.left_out + 10 * TOLERANCE
    inner = whole.entries.T @ visiting.rows
    inner = (inner + inner.T) / 2
    assert np.abs(np.diag(found.kernel) / np.diag(inner) - 1).max() < allowed
    # What is between the modes is all of it, up to a hundredth.
    between, missed = inner - np.diag(np.diag(inner)), found.kernel - inner
    np.fill_diagonal(missed, 0.0)
    assert np.linalg.norm(missed) < 0.02 * np.linalg.norm(between) + allowed * np.linalg.norm(inner)
    assert np.linalg.norm(between) > 1e-4 * np.linalg.norm(inner)
    close(found.entries, whole.entries, 3 * allowed)
    close(found.modifier(7), whole.modifier(7), 10 * allowed)


def test_what_is_left_out_grows_with_the_square_of_what_samples_do(few_modes):
    weak, strong = (first_order.solve(visited(100, 8, 12, 8.0 * scale), 1e-6).left_out for scale in (0.1, 1))
    assert 20 * weak < strong
    assert not first_order.solve(visited(30, 8, 12, 20.0), 1e-6).suffices


def test_two_batches_are_exact(few_modes, monkeypatch):
    problem = rs.gaussian(120, 6, noise=0.5, seed=3)
    scheme = rs.SampleReshuffling(batches=2)
    exact = rs.descend(problem, scheme, alpha=1.0, method="exact")
    monkeypatch.setattr(whole_equation, "solve", None)
    cavity = rs.descend(problem, scheme, alpha=1.0, method="cavity")
    for epochs in ([1, 7], np.inf):
        risk, error = cavity.risk(epochs).total, cavity.risk(epochs).error
        np.testing.assert_allclose(risk, exact.risk(epochs).total, rtol=1e-4)
        assert (np.abs(risk - exact.risk(epochs).total) <= error).all()


def kernel_run(n=110, **asked):
    points = np.random.default_rng(0).standard_normal((n, 4))
    targets = np.sin(points[:, :2])
    problem = rs.LeastSquares.from_kernel("rbf", targets, X=points, gamma=0.2)
    return rs.descend(problem, rs.SampleReshuffling(batch_size=16), step=1.0, **asked)


def test_kernels_take_that_way_and_agree_with_drawn_orders(monkeypatch):
    assert kernel_run().problem.rank >= first_order.FEWEST_MODES
    drawn = kernel_run(method="sampling", rtol=4e-3)
    monkeypatch.setattr(whole_equation, "solve", None)
    run = kernel_run(method="cavity")
    monkeypatch.undo()
    epochs = np.array([1, 10, 300])
    off = drawn._engine.training_loss_error(epochs) + run._engine.training_loss_error(epochs)
    assert (np.abs(drawn.training_loss(epochs) - run.training_loss(epochs)) <= off).all()
    assert run.epoch.error < 2e-3


def test_answers_are_those_of_the_whole_equation_within_their_error(monkeypatch):
    quick = kernel_run(method="cavity")
    losses = quick.training_loss([1, 20, 1000])
    monkeypatch.setattr(first_order, "FEWEST_MODES", 1000)
    monkeypatch.setattr(epoch_map, "_NINE_DIGITS", np.inf)
    whole = kernel_run(method="cavity").training_loss([1, 20, 1000])
    assert (np.abs(losses - whole) <= quick._engine.training_loss_error(np.array([1.0, 20, 1000]))).all()
    np.testing.assert_allclose(losses, whole, rtol=1e-4)
