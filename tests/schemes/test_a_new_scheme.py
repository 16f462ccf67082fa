"""A scheme that the package has never heard of: one class, declarations alone, and every question is answered."""

import itertools
import math

import numpy as np
import pytest

import reshuffle as rs


class RandomRotation(rs.Scheme):
    """The batches in a fixed order that begins anywhere, drawn afresh in every epoch."""

    shuffle = rs.Shuffle.FROM_A_LIST

    def orders(self, n):
        return [np.roll(np.arange(self.steps(n)), -first) for first in range(self.steps(n))]


STEP, N, P = 0.15, 9, 3


@pytest.fixture(scope="module")
def problem():
    return rs.gaussian(N, P, noise=0.4, seed=3)


def epochs_of(problem):
    """The affine maps (A, N) of an epoch, one per rotation, straight from the definition of a step."""
    maps = []
    for first in range(3):
        A, inputs = np.eye(P), np.zeros((P, N))
        for batch in np.roll(np.arange(3), -first):
            rows = np.arange(3 * batch, 3 * batch + 3)
            features = problem.X[rows]
            visit = np.eye(P) - STEP * features.T @ features / 3
            entry = np.zeros((P, N))
            entry[:, rows] = STEP * features.T / 3
            A, inputs = visit @ A, visit @ inputs + entry
        maps.append((A, inputs))
    return maps


def every_run(problem, epochs):
    """The error e_k and the noise's entry (p, 1 + n), for every sequence of rotations."""
    for chosen in itertools.product(epochs_of(problem), repeat=epochs):
        state = np.hstack([-problem.beta_star[:, np.newaxis], np.zeros((P, N))])
        for A, inputs in chosen:
            state = A @ state + np.hstack([np.zeros((P, 1)), problem.noise * inputs])
        yield state


@pytest.mark.parametrize("epochs", [0, 1, 2, 4])
def test_its_mean_and_its_second_moment_are_those_of_every_order(problem, epochs):
    run = rs.descend(problem, RandomRotation(batches=3), STEP)
    states = list(every_run(problem, epochs))
    assert run.risk(epochs).total == pytest.approx(np.square(np.mean(states, axis=0)).sum(), rel=1e-12)
    expected = np.mean([np.square(state).sum() for state in states])
    assert run.expected_risk(epochs).total == pytest.approx(expected, rel=1e-12)
    assert run.method == "exact"


def test_every_other_question_has_an_answer(problem):
    run = rs.descend(problem, RandomRotation(batches=3), STEP)
    A = np.mean([A for A, _ in epochs_of(problem)], axis=0)
    np.testing.assert_allclose(run.epoch.matrix, A, atol=1e-14)
    assert run.stability().rate == pytest.approx(np.abs(np.linalg.eigvals(A)).max(), rel=1e-12)
    square = sum(np.kron(A, A) for A, _ in epochs_of(problem)) / 3
    rate = np.abs(np.linalg.eigvals(square)).max()
    assert run.mean_square_stability().rate == pytest.approx(rate, rel=1e-7)
    limit = np.linalg.solve(np.eye(P) - A, np.mean([inputs for _, inputs in epochs_of(problem)], axis=0))
    np.testing.assert_allclose(run.limit().parameters, limit @ problem.y, rtol=1e-11)
    step = rs.critical_step(problem, RandomRotation(batches=3), mean_square=False)
    assert rs.descend(problem, RandomRotation(batches=3), 0.99 * step).converges
    assert not rs.descend(problem, RandomRotation(batches=3), 1.01 * step).converges
    heavy = rs.descend(problem, RandomRotation(batches=3), STEP, momentum=0.5).expected_risk(math.inf)
    assert heavy.error <= 1e-12 * heavy.total
    assert "recursion" in repr(run.computation)


def test_it_is_simulated(problem):
    exact = rs.descend(problem, RandomRotation(batches=3), STEP).expected_risk(4)
    drawn = rs.simulate(
        problem, RandomRotation(batches=3), STEP, epochs=4, runs=4000, fresh_noise=True, seed=1
    )
    assert abs(drawn.expected_risk.mean - exact.total) <= 4 * drawn.expected_risk.standard_error


def test_what_it_declares_wrongly_is_refused():
    class Backwards(RandomRotation):
        is_symmetric = True

    class InOrder(Backwards):
        shuffle = rs.Shuffle.NEVER

    for scheme in (Backwards(batches=3), InOrder(batches=3)):
        with pytest.raises(TypeError, match=r"is_symmetric must be False"):
            rs.descend(rs.gaussian(N, P, noise=0.4), scheme, STEP).risk(1)


def test_a_scheme_that_draws_samples_for_every_step_must_say_how():
    class Unfinished(rs.Scheme):
        shuffle, unit = rs.Shuffle.EVERY_STEP, rs.Unit.SAMPLE

    with pytest.raises(TypeError, match="Unfinished must define a method draw"):
        next(Unfinished(batches=3).draw(N, np.random.default_rng(0), 2))


@pytest.mark.parametrize("shuffle", [rs.Shuffle.NEVER, rs.Shuffle.EVERY_EPOCH, rs.Shuffle.FROM_A_LIST])
def test_draws_that_only_a_simulation_would_know_of_are_refused(shuffle):
    with pytest.raises(TypeError, match=r"Shifted must not have a method draw.*FROM_A_LIST"):
        type("Shifted", (rs.Scheme,), {"shuffle": shuffle, "draw": lambda self, n, rng, runs: None})
