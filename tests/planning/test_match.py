"""The nearest step at another batch size, against means over listed orders and a plain search over steps."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.errors import UnsupportedError
from tests.looped import for_all
from tests.oracles.every_order import Design, Enumeration, cut, epochs_reshuffled
from tests.problems import Case

PROBLEM = rs.gaussian(12, 3, noise=0.5, seed=3)
EPOCHS = np.array([1, 2, 5, 9])
START = np.array([0.3, -0.2, 0.1])


def listed_path(batch_size, step):
    """The mean iterate (k, p) over all orders of contiguous batches."""
    design = Design(12, rs.FullBatch(), [epochs_reshuffled(cut(12, 12 // batch_size))])
    return Enumeration(Case(PROBLEM, None, step, START, None), design, {}).means(EPOCHS)


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
    recipe = {"start": START, "momentum": 0.5, "penalty": 0.1, "nesterov": True}
    run = rs.descend(PROBLEM, rs.Cyclic(batch_size=3), 0.05, **recipe)
    found = rs.match(run, batch_size=4, epochs=30)
    kept = found.run.recipe
    assert (kept.momentum, kept.penalty, kept.nesterov) == (0.5, 0.1, True)
    path, moved = run.iterate(found.epochs), run.iterate(found.epochs) - START
    for step in np.geomspace(0.2, 5.0, 25) * found.step:
        if step < found.critical_step:
            other = rs.descend(PROBLEM, rs.Cyclic(batch_size=4), step, **recipe)
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


SCHEME = rs.RandomReshuffling(batch_size=3)
GROWING = rs.Stages([(2, SCHEME), (None, rs.FullBatch())])


@for_all(
    "run, arguments, error, words",
    [
        ((SCHEME, 0.1), {"batch_size": 0}, ValueError, "batch_size must be a whole number of at least 1"),
        ((SCHEME, 0.1), {}, TypeError, "exactly one of batch_size and scheme"),
        ((SCHEME, 0.1), {"batch_size": 4, "epochs": 0}, ValueError, "epochs must be"),
        ((SCHEME, 0.1), {"batch_size": 4, "epochs": []}, ValueError, "epochs must hold"),
        ((SCHEME, 0.1), {"batch_size": 4, "epochs": [0, 1]}, ValueError, "epochs must hold"),
        ((SCHEME, 0.1), {"batch_size": 4, "epochs": math.inf}, ValueError, "epochs must be a whole number"),
        ((SCHEME, 0.1), {"scheme": 4}, TypeError, "scheme must be a scheme"),
        (None, {"batch_size": 4}, TypeError, "run must be a Run"),
        ((SCHEME, 0.0), {"batch_size": 4}, ValueError, "run must move"),
        ((SCHEME, 50.0), {"batch_size": 4}, ValueError, "run must converge"),
        ((SCHEME, [0.1, 0.2]), {"batch_size": 4}, UnsupportedError, "constant step"),
        ((GROWING, 0.1), {"batch_size": 4}, UnsupportedError, "constant step"),
    ],
)
def test_bad_arguments(run, arguments, error, words):
    with pytest.raises(error, match=words):
        rs.match(PROBLEM if run is None else rs.descend(PROBLEM, *run), **arguments)


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
    run = rs.descend(problem, scheme(batch_size=40), step=0.1)
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
