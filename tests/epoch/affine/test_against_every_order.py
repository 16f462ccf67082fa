"""Every scheme and recipe against the enumeration of all sequences of orders: means and second moments to 1e-12."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reshuffle as rs
from tests.oracles import every_order
from tests.problems import case, close

RECIPES = {
    "plain": {},
    "penalty": {"penalty": 0.3},
    "momentum": {"momentum": 0.6},
    "schedule": {"step": [0.1, 0.02]},
    "everything": {"step": lambda epoch: 0.1 / (1 + epoch), "penalty": 0.2, "momentum": 0.5},
}


def schemes(tiny):
    parts = tiny.partition
    lengths = [len(rows) for rows in parts]
    reshuffled = every_order.epochs_reshuffled(parts, lengths)
    last = [int(b) for b in np.roll(np.arange(len(parts)), 1)]
    sizes = [2] * (tiny.problem.n // 2) + [1] * (tiny.problem.n % 2)
    yield rs.RandomReshuffling(parts), reshuffled, True
    yield rs.WithReplacement(parts), every_order.epochs_with_replacement(parts, lengths), True
    yield rs.Cyclic(parts), [every_order.batches_in(range(len(parts)), parts, lengths)], True
    yield rs.Cyclic(parts, order=last), [every_order.batches_in(last, parts, lengths)], True
    yield rs.ShuffleOnce(parts), reshuffled, False
    yield rs.ShuffleOnce(parts, order=last), [every_order.batches_in(last, parts, lengths)], True
    if 2 <= tiny.problem.n <= 4:
        drawn = every_order.epochs_of_drawn_samples(tiny.problem.n, sizes)
        yield rs.SampleWithReplacement(batch_size=2), drawn, True


def check(tiny, scheme, epochs, fresh, recipe, count):
    arguments = {"step": tiny.step, **recipe}
    schedule = arguments["step"]
    steps = [
        schedule(k) if callable(schedule) else schedule[k] if isinstance(schedule, list) else schedule
        for k in range(count)
    ]
    problem = tiny.problem
    training = every_order.Training(
        problem.X, problem.y, steps, tiny.start, recipe.get("penalty", 0.0), recipe.get("momentum", 0.0)
    )
    runs = every_order.all_runs(training, epochs, fresh)
    made = rs.descend(problem, scheme, start=tiny.start, **arguments)
    close(made.iterate(count), every_order.mean_iterate(training, runs))
    total, mean = every_order.expected_risk(training, runs, problem.beta_star, tiny.covariance, problem.noise)
    close(made.risk(count).total, mean)
    found = made.expected_risk(count)
    close([found.total, found.mean, found.spread], [total, mean, total - mean])
    total, mean = every_order.expected_risk_given(training, runs, problem.beta_star, tiny.covariance)
    found = made.expected_risk(count, given_responses=True)
    close([found.total, found.mean, found.spread], [total, mean, total - mean])


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(
    ("n", "p", "batches", "equal"), [(6, 3, 3, True), (4, 6, 2, False), (4, 3, 2, True), (5, 5, 3, False)]
)
def test_all_schemes_and_recipes(recipe, n, p, batches, equal):
    tiny = case(n, p, batches, equal=equal, step=0.08, seed=n + p)
    for scheme, epochs, fresh in schemes(tiny):
        check(tiny, scheme, epochs, fresh, RECIPES[recipe], 2 if len(epochs) < 100 else 1)


@given(
    st.integers(1, 5), st.integers(1, 5), st.integers(1, 3), st.integers(0, 10**6),
    st.sampled_from([0.0, 1e-6, 0.1, 0.4]), st.sampled_from([0.0, 0.3]), st.sampled_from([0.0, 0.7]), st.booleans(),
)  # fmt: skip
def test_any_shape(n, p, batches, seed, step, penalty, momentum, deficient):
    batches = min(batches, n)
    rank = max(1, min(n, p) - 1) if deficient else None
    tiny = case(n, p, batches, seed=seed, step=step, equal=False, rank=rank)
    for scheme, epochs, fresh in schemes(tiny):
        if len(epochs) <= 27:
            check(tiny, scheme, epochs, fresh, {"penalty": penalty, "momentum": momentum}, 2)


@pytest.mark.parametrize("normalize", ["own", "equal"])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("kind", [rs.RandomReshuffling, rs.Cyclic, rs.ShuffleOnce, rs.WithReplacement])
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_ragged_and_dropped_batches(kind, drop_last, normalize, momentum):
    tiny = case(5, 4, 2, step=0.1)
    scheme = kind(batch_size=2, drop_last=drop_last, normalize=normalize)
    parts, divisors = [p.tolist() for p in scheme.partition(5)], scheme.divisors(5).tolist()
    epochs = {
        rs.Cyclic: lambda: [every_order.batches_in(range(len(parts)), parts, divisors)],
        rs.WithReplacement: lambda: every_order.epochs_with_replacement(parts, divisors),
    }.get(kind, lambda: every_order.epochs_reshuffled(parts, divisors))()
    check(tiny, scheme, epochs, kind is not rs.ShuffleOnce, {"momentum": momentum}, 2)


def test_one_sample_at_a_time_is_drawing_batches_of_one():
    tiny = case(5, 3, 5, step=0.1)
    one = rs.descend(tiny.problem, rs.WithReplacement(batch_size=1), 0.1).expected_risk([0, 1, 7])
    other = rs.descend(tiny.problem, rs.SampleWithReplacement(batch_size=1), 0.1).expected_risk([0, 1, 7])
    close(one.total, other.total)
    close(one.spread, other.spread)
