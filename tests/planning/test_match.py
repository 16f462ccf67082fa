"""The nearest step at another batch size, against means over listed orders and a plain search over steps."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.errors import UnsupportedError
from tests.oracles import every_order

PROBLEM = rs.gaussian(12, 3, noise=0.5, seed=3)
EPOCHS = np.array([1, 2, 5, 9])
START = np.array([0.3, -0.2, 0.1])


def listed_path(batch_size, step, epochs=EPOCHS, start=START):
    """The mean iterate (k, p) over all orders of contiguous batches, from its definition."""
    size = PROBLEM.n // batch_size
    parts = np.split(np.arange(PROBLEM.n), size)
    training = every_order.Training(PROBLEM.X, PROBLEM.y, [step], start)
    runs = every_order.all_runs(training, every_order.epochs_reshuffled(parts, [batch_size] * size))
    # One epoch of all orders from the start, and from it moved by each unit vector: the mean is an affine map.
    given_y = np.concatenate([[1.0], PROBLEM.y])
    image = (runs @ given_y).mean(axis=0)
    columns = []
    for unit in np.eye(PROBLEM.p):
        moved = every_order.Training(PROBLEM.X, PROBLEM.y, [step], start + unit)
        found = every_order.all_runs(moved, every_order.epochs_reshuffled(parts, [batch_size] * size))
        columns.append((found @ given_y).mean(axis=0) - image)
    matrix, here, path = np.array(columns).T, start, []
    for epoch in range(1, int(epochs[-1]) + 1):
        here = image + matrix @ (here - start)
        path += [here] if epoch in epochs else []
    return np.array(path)


def listed_distance(target, batch_size, step):
    apart = (listed_path(batch_size, step) - target) @ PROBLEM.X.T
    moved = (target - START) @ PROBLEM.X.T
    return math.sqrt(np.mean(np.square(apart).sum(axis=1) / np.square(moved).sum(axis=1)))


@pytest.fixture(scope="module")
def found():
    run = rs.descend(PROBLEM, rs.RandomReshuffling(batch_size=3), 0.15, start=START)
    return rs.match(run, batch_size=6, epochs=EPOCHS)


def test_distances_are_those_over_listed_orders(found):
    target = listed_path(3, 0.15)
    assert found.distance == pytest.approx(listed_distance(target, 6, found.step), rel=1e-9)
    assert found.linear.step == pytest.approx(0.3)
    assert found.linear.distance == pytest.approx(listed_distance(target, 6, 0.3), rel=1e-9)
    assert found.square_root.step == pytest.approx(0.15 * math.sqrt(2))
    assert found.square_root.distance == pytest.approx(
        listed_distance(target, 6, found.square_root.step), rel=1e-9
    )
    np.testing.assert_array_equal(found.epochs, EPOCHS)
    assert found.distance == pytest.approx(math.sqrt(np.mean(found.distances**2)))


def test_no_step_below_the_critical_one_is_nearer(found):
    target = listed_path(3, 0.15)
    steps = np.geomspace(1e-3, found.critical_step * 0.999, 200)
    assert found.distance <= min(listed_distance(target, 6, step) for step in steps) + 1e-9
    for factor in (0.999, 1.001):
        assert listed_distance(target, 6, found.step * factor) > found.distance


def test_the_matched_run_is_ready(found):
    assert found.run.step == found.step
    assert found.run.scheme == rs.RandomReshuffling(batch_size=6)
    assert found.batch_size == 6
    assert found.critical_step == pytest.approx(
        rs.critical_step(PROBLEM, rs.RandomReshuffling(batch_size=6), mean_square=False), rel=1e-9
    )
    np.testing.assert_array_equal(found.run.start, START)
    np.testing.assert_allclose(found.run.iterate(EPOCHS), listed_path(6, found.step), rtol=1e-9)


@given(
    size=st.sampled_from([2, 3, 4, 6, 12]),
    scheme=st.sampled_from([rs.RandomReshuffling, rs.Cyclic, rs.SampleReshuffling, rs.SampleWithReplacement]),
    share=st.floats(0.02, 0.6),
)
@settings(max_examples=8, deadline=None)
def test_the_same_batch_size_has_the_same_step(size, scheme, share):
    step = share * rs.critical_step(PROBLEM, scheme(batch_size=size), mean_square=False)
    found = rs.match(rs.descend(PROBLEM, scheme(batch_size=size), step), batch_size=size, epochs=EPOCHS)
    assert found.step == pytest.approx(step, rel=1e-4)
    assert found.distance < 1e-4
    assert found.linear.distance < 1e-12


@pytest.mark.slow
def test_momentum_penalty_and_start_are_kept():
    run = rs.descend(
        PROBLEM, rs.Cyclic(batch_size=3), 0.05, start=START, momentum=0.5, penalty=0.1, nesterov=True
    )
    found = rs.match(run, batch_size=4, epochs=30)
    assert (found.run.recipe.momentum, found.run.recipe.penalty, found.run.recipe.nesterov) == (
        0.5,
        0.1,
        True,
    )
    steps = np.geomspace(0.2, 5.0, 25) * found.step
    path, moved = run.iterate(found.epochs), run.iterate(found.epochs) - START
    for step in steps[steps < found.critical_step]:
        other = rs.descend(
            PROBLEM, rs.Cyclic(batch_size=4), step, start=START, momentum=0.5, penalty=0.1, nesterov=True
        )
        apart = np.square((other.iterate(found.epochs) - path) @ PROBLEM.X.T).sum(axis=1)
        distance = math.sqrt(np.mean(apart / np.square(moved @ PROBLEM.X.T).sum(axis=1)))
        assert distance >= found.distance - 1e-9


def test_a_rule_beyond_the_critical_step_is_said_to_diverge():
    run = rs.descend(PROBLEM, rs.RandomReshuffling(batch_size=2), 0.24)
    found = rs.match(run, batch_size=12, epochs=4000)
    assert not found.linear.converges
    assert found.linear.step > found.critical_step > found.step
    assert found.run.converges
    assert math.isinf(found.linear.distance) or found.linear.distance > 1
    assert "diverges" in repr(found)


def test_epochs_are_spaced_logarithmically_up_to_the_last(found):
    run = rs.descend(PROBLEM, rs.RandomReshuffling(batch_size=3), 0.1)
    when = rs.match(run, batch_size=4, epochs=1000).epochs
    assert (when[0], when[-1]) == (1, 1000)
    assert 15 <= len(when) <= 24
    np.testing.assert_array_equal(rs.match(run, batch_size=4, epochs=3).epochs, [1, 2, 3])


def test_the_full_batch_and_given_batches_need_a_scheme():
    for scheme in (
        rs.FullBatch(),
        rs.RandomReshuffling([range(6), range(6, 12)]),
        rs.Cyclic(batches=2, order=[1, 0]),
    ):
        run = rs.descend(PROBLEM, scheme, 0.1)
        with pytest.raises(UnsupportedError, match="scheme="):
            rs.match(run, batch_size=4)
        found = rs.match(run, scheme=rs.RandomReshuffling(batch_size=4), epochs=5)
        assert found.batch_size == 4


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"batch_size": 0}, ValueError, "batch_size must be a whole number of at least 1"),
        ({}, TypeError, "exactly one of batch_size and scheme"),
        ({"batch_size": 4, "epochs": 0}, ValueError, "epochs must be"),
        ({"batch_size": 4, "epochs": []}, ValueError, "epochs must hold"),
        ({"batch_size": 4, "epochs": [0, 1]}, ValueError, "epochs must hold"),
        ({"batch_size": 4, "epochs": math.inf}, ValueError, "epochs must be a whole number"),
        ({"scheme": 4}, TypeError, "scheme must be a scheme"),
    ],
)
def test_bad_arguments(arguments, error, words):
    run = rs.descend(PROBLEM, rs.RandomReshuffling(batch_size=3), 0.1)
    with pytest.raises(error, match=words):
        rs.match(run, **arguments)


def test_runs_that_cannot_be_matched():
    scheme = rs.RandomReshuffling(batch_size=3)
    with pytest.raises(TypeError, match="run must be a Run"):
        rs.match(PROBLEM, batch_size=4)
    with pytest.raises(ValueError, match="run must move"):
        rs.match(rs.descend(PROBLEM, scheme, 0.0), batch_size=4)
    with pytest.raises(ValueError, match="run must converge"):
        rs.match(rs.descend(PROBLEM, scheme, 50.0), batch_size=4)
    with pytest.raises(UnsupportedError, match="constant step"):
        rs.match(rs.descend(PROBLEM, scheme, [0.1, 0.2]), batch_size=4)
    growing = rs.Stages([(2, scheme), (None, rs.FullBatch())])
    with pytest.raises(UnsupportedError, match="constant step"):
        rs.match(rs.descend(PROBLEM, growing, 0.1), batch_size=4)


def test_many_outputs_are_matched_together():
    """The distance is that of all outputs side by side."""
    responses = np.column_stack([PROBLEM.y, PROBLEM.X[:, 0], np.ones(12)])
    run = rs.descend(
        rs.LeastSquares(PROBLEM.X, responses), rs.RandomReshuffling(batch_size=3), 0.1, start=START
    )
    found = rs.match(run, batch_size=6, epochs=EPOCHS)
    path, other = run.iterate(EPOCHS), found.run.iterate(EPOCHS)
    apart = np.square(PROBLEM.X @ (path - other)).sum(axis=(1, 2))
    moved = np.square(PROBLEM.X @ (path - START[:, np.newaxis])).sum(axis=(1, 2))
    assert found.distance == pytest.approx(math.sqrt(np.mean(apart / moved)), rel=1e-9)


def test_a_batch_larger_than_the_data_holds_all_of_them():
    run = rs.descend(rs.gaussian(12, 2, seed=0), rs.RandomReshuffling(batches=3), step=0.1)
    assert rs.match(run, batch_size=1024).batch_size == 12


@pytest.mark.parametrize("scheme", [rs.RandomReshuffling, rs.SampleReshuffling])
def test_a_short_last_batch_and_the_spread_are_remarked(scheme):
    """Fixed batches are pulled towards the rows of the short one; shuffled rows spread more."""
    problem = rs.gaussian(240, 20, noise=1.0, seed=0)
    run = rs.descend(problem, scheme(batch_size=20), step=0.1)
    equal, ragged = (rs.match(run, batch_size=size, epochs=50) for size in (80, 70))
    assert not any("batches" in note for note in equal.notes)
    assert "the last of 4 batches of the matched run has 30 rows, not 70" in ragged.notes[0]
    is_fixed = scheme is rs.RandomReshuffling
    assert any("batches of 80, which divide 240 rows" in note for note in ragged.notes) == is_fixed
    assert ragged.spreads[1] > equal.spreads[1]
    assert ragged.notes[-1].startswith("spread of single runs after 50 epochs: about ")
    exact = 2 * (run.excess_training_loss(50, of_run=True) - run.excess_training_loss(50))
    assert ragged.spreads[0] == pytest.approx(float(exact), rel=0.35)
    assert repr(ragged).endswith("\n".join(ragged.notes))


def test_a_run_whose_own_last_batch_is_short_says_so():
    run = rs.descend(PROBLEM, rs.Cyclic(batch_size=5), step=0.1)
    found = rs.match(run, batch_size=4, epochs=5)
    assert found.notes[0].startswith("the last of 3 batches of the run that is matched has 2 rows, not 5")
    assert not any("spread" in note for note in found.notes)
