"""Batches by number, by size, ragged, dropped and normalised, against enumeration of all orders."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.schemes import base
from tests.oracles import brute_force
from tests.problems import case, close

KINDS = {"reshuffling": rs.RandomReshuffling, "replacement": rs.WithReplacement}


def loader_batches(n, batch_size, drop_last):
    """The batches of a DataLoader that does not shuffle, as a plain loop."""
    batches = [list(range(start, min(start + batch_size, n))) for start in range(0, n, batch_size)]
    return [rows for rows in batches if len(rows) == batch_size] if drop_last else batches


@given(st.integers(1, 40), st.integers(1, 40), st.booleans())
def test_batches_of_a_size_are_those_of_a_data_loader(n, batch_size, drop_last):
    if batch_size > n:
        return
    cut = rs.RandomReshuffling(batch_size=batch_size, drop_last=drop_last)
    expected = loader_batches(n, batch_size, drop_last)
    assert [rows.tolist() for rows in cut.partition(n)] == expected
    assert cut.sizes(n).tolist() == [len(rows) for rows in expected]
    assert cut.divisors(n).tolist() == cut.sizes(n).tolist()


@given(st.integers(1, 40), st.integers(1, 40))
def test_a_number_of_batches_differs_by_at_most_one_row(n, batches):
    if batches > n:
        return
    members = rs.RandomReshuffling(batches=batches).partition(n)
    assert [rows.tolist() for rows in members] == [
        part.tolist() for part in np.array_split(np.arange(n), batches)
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("normalize", ["own", "equal"])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(("n", "p", "batch_size"), [(11, 6, 4), (11, 14, 3), (9, 4, 3), (5, 7, 5), (7, 3, 6)])
def test_every_way_of_cutting_equals_enumeration(kind, normalize, drop_last, n, p, batch_size):
    tiny = case(n, p, 1, step=0.1)
    partition = loader_batches(n, batch_size, drop_last)
    visited = sum(map(len, partition))
    divisors = None if normalize == "own" else [visited / len(partition)] * len(partition)
    setting = brute_force.Setting(tiny.problem.X, tiny.problem.y, partition, tiny.step, divisors)
    scheme = KINDS[kind](batch_size=batch_size, drop_last=drop_last, normalize=normalize)
    run = rs.descend(tiny.problem, scheme, tiny.step, start=tiny.start)
    A, N = brute_force.mean_map(setting, kind)
    close(run.epoch.matrix, A)
    close(len(partition) * tiny.step / n * run.epoch.modified_features.T, N)
    close(run.iterate(7), brute_force.iterate(setting, kind, tiny.start, 7))
    truth = (tiny.problem.beta_star, tiny.covariance, tiny.problem.noise)
    assert run.risk(7).total == pytest.approx(
        brute_force.risk(setting, kind, tiny.start, *truth, 7), rel=1e-11
    )
    assert scheme.steps(n) == len(partition)


@pytest.mark.parametrize(("n", "p"), [(11, 20), (11, 10)])
def test_rows_that_are_never_visited_teach_nothing(n, p):
    """Everything but the training loss is as if the dropped rows did not exist."""
    tiny = case(n, p, 1, step=0.05, covariance="dense")
    kept = rs.LeastSquares(
        tiny.problem.X[:9],
        tiny.problem.y[:9],
        beta_star=tiny.problem.beta_star,
        covariance=tiny.covariance,
        noise=tiny.problem.noise,
    )
    for kind in KINDS.values():
        run = rs.descend(tiny.problem, kind(batch_size=3, drop_last=True), tiny.step, start=tiny.start)
        same = rs.descend(kept, kind(batches=3), tiny.step, start=tiny.start)
        for epochs in (0, 1, 50, math.inf):
            close(run.iterate(epochs), same.iterate(epochs), 1e-10)
            assert run.risk(epochs).total == pytest.approx(same.risk(epochs).total, rel=1e-9)
        assert run.frozen.dimension == same.frozen.dimension == p - 9
        assert run.range_assumption.holds
        assert run.stability().converges
        assert run.stability().rate == pytest.approx(same.stability().rate)
        assert rs.critical_step(
            tiny.problem, kind(batch_size=3, drop_last=True), mean_square=False
        ) == pytest.approx(rs.critical_step(kept, kind(batches=3), mean_square=False), rel=1e-8)
        loss = np.sum((tiny.problem.y - tiny.problem.X @ run.iterate(4)) ** 2) / (2 * n)
        assert run.training_loss(4) == pytest.approx(loss)


def test_directions_that_only_dropped_rows_have_are_frozen():
    """Nine visited rows in three dimensions, two more outside: the rank that counts is that of what is visited."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.standard_normal((9, 3)) @ rng.standard_normal((3, 6)), rng.standard_normal((2, 6))])
    problem = rs.LeastSquares(X, rng.standard_normal(11), beta_star=np.zeros(6), noise=0.5)
    start = rng.standard_normal(6)
    for scheme in (
        rs.RandomReshuffling(batch_size=3, drop_last=True),
        rs.WithReplacement(batch_size=3, drop_last=True),
    ):
        run = rs.descend(problem, scheme, 0.02, start=start)
        assert problem.rank == 5
        assert run.frozen.dimension == 3
        assert run.stability().converges
        close(run.frozen.project(run.iterate(math.inf)), run.frozen.project(start))


def test_alpha_is_divided_by_the_number_of_steps():
    problem = case(11, 4, 1).problem
    for arguments, steps in (({"batch_size": 4}, 3), ({"batch_size": 4, "drop_last": True}, 2)):
        scheme = rs.RandomReshuffling(**arguments)
        assert rs.descend(problem, scheme, alpha=0.3).epoch.step == pytest.approx(0.3 / steps)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("normalize", ["own", "equal"])
def test_the_simulator_cuts_in_the_same_way(drop_last, normalize):
    middle = case(14, 5, 1, step=0.08)
    scheme = rs.RandomReshuffling(batch_size=4, drop_last=drop_last, normalize=normalize)
    epochs = [1, 3, 12]
    result = rs.simulate(
        middle.problem, scheme, step=middle.step, epochs=epochs, runs=4000, start=middle.start
    )
    exact = rs.descend(middle.problem, scheme, middle.step, start=middle.start).iterate(epochs)
    assert (np.abs(result.iterate.mean - exact) <= 4 * result.iterate.standard_error).all()


@pytest.mark.parametrize("kind", [rs.RandomReshuffling, rs.WithReplacement])
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {},
            ValueError,
            r"batches must be a whole number of at least 1, but it is None\. Or give batch_size",
        ),
        (
            {"batches": 2, "batch_size": 3},
            TypeError,
            r"exactly one of batches and batch_size must be given, but batches is 2 and batch_size is 3",
        ),
        ({"batch_size": 0}, ValueError, r"batch_size must be a whole number of at least 1, but it is 0"),
        ({"batch_size": 2.5}, ValueError, r"batch_size must be a whole number of at least 1, but it is 2.5"),
        (
            {"batch_size": 7, "drop_last": True},
            ValueError,
            r"batch_size must be .* between 1 and 6, .* it is 7, and drop_last leaves nothing",
        ),
        ({"batches": 2, "drop_last": True}, ValueError, r"drop_last must come with batch_size"),
        ({"batch_size": 2, "drop_last": 1}, ValueError, r"drop_last must be True or False, but it is 1"),
        (
            {"batches": 2, "normalize": "mean"},
            ValueError,
            r"normalize must be \"own\" or \"equal\", but it is 'mean'",
        ),
    ],
)
def test_ways_of_cutting_that_are_none(kind, arguments, error, message):
    problem = rs.LeastSquares(np.arange(12.0).reshape(6, 2), np.ones(6))
    with pytest.raises(error, match=message):
        rs.descend(problem, kind(**arguments), step=0.1)


@pytest.mark.parametrize(
    "kind",
    [rs.RandomReshuffling, rs.WithReplacement, rs.Cyclic, rs.ShuffleOnce, rs.SampleReshuffling],
)
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_more_rows_in_a_batch_than_there_are_make_one_batch(kind, momentum):
    problem = rs.gaussian(6, 3, noise=0.5, seed=0)
    run = rs.descend(problem, kind(batch_size=7), step=0.1, momentum=momentum)
    full = rs.descend(problem, rs.FullBatch(), step=0.1, momentum=momentum)
    close(run.iterate([1, 4, np.inf]), full.iterate([1, 4, np.inf]))
    close(run.expected_risk(4).total, full.expected_risk(4).total)


def test_more_draws_in_a_batch_than_there_are_rows_are_as_many_as_rows():
    problem = rs.gaussian(6, 3, noise=0.5, seed=0)
    many, all_of_them = (
        rs.descend(problem, rs.SampleWithReplacement(batch_size=size), step=0.1) for size in (7, 6)
    )
    close(many.expected_risk(4).total, all_of_them.expected_risk(4).total)


def test_schemes_say_how_they_cut():
    assert (
        repr(rs.RandomReshuffling(batches=4, normalize="equal"))
        == "RandomReshuffling(batches=4, normalize='equal')"
    )
    assert repr(rs.WithReplacement(batch_size=8)) == "WithReplacement(batch_size=8)"


def test_a_number_without_a_name_warns_and_works_for_one_release():
    words = "write batches=3 for 3 batches or batch_size=3 for batches of 3 rows"
    for kind in (rs.RandomReshuffling, rs.SampleReshuffling, rs.WithReplacement, rs.Cyclic, rs.ShuffleOnce):
        with pytest.warns(
            DeprecationWarning, match=f"the number 3 of {kind.__name__} must have a name.*{words}"
        ):
            assert kind(3) == kind(batches=3)
    with pytest.warns(DeprecationWarning, match="write batch_size=3 for batches of 3 rows"):
        assert rs.SampleSubsets(3) == rs.SampleSubsets(batch_size=3)
    with pytest.warns(DeprecationWarning, match="the number 4 of GroupReshuffling"):
        assert rs.GroupReshuffling(3, np.int64(4)) == rs.GroupReshuffling(3, batches=4)
    # Rows of each batch mean one thing alone.
    assert rs.RandomReshuffling([[0], [1]]).steps(2) == 2


def test_runs_at_many_small_batches_are_trained_side_by_side(monkeypatch):
    """Ragged batches whose runs hardly meet: the same runs as if each batch were visited by itself."""
    problem, scheme = rs.gaussian(31, 3, seed=4), rs.RandomReshuffling(batches=7)
    assert not base.shares_visits(scheme, 31, 20)
    together = rs.simulate(problem, scheme, step=0.1, momentum=0.5, epochs=[1, 4], runs=20, seed=2)
    monkeypatch.setattr(base, "shares_visits", lambda *rest: True)
    alone = rs.simulate(problem, scheme, step=0.1, momentum=0.5, epochs=[1, 4], runs=20, seed=2)
    np.testing.assert_allclose(together.iterate.mean, alone.iterate.mean, rtol=1e-12)
    np.testing.assert_allclose(together.spread.mean, alone.spread.mean, rtol=1e-10)
