"""Every scheme and recipe against the enumeration of all sequences of orders: means and second moments to 1e-12."""

import pytest
from hypothesis import given

import reshuffle as rs
from tests.oracles import every_order
from tests.oracles.every_scheme import RECIPES, SHAPES, check, schemes, tiny_runs
from tests.problems import case, close


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(("n", "p", "batches", "equal"), SHAPES)
def test_all_schemes_and_recipes(recipe, n, p, batches, equal):
    tiny = case(n, p, batches, equal=equal, step=0.08, seed=n + p)
    for scheme, epochs, fresh in schemes(tiny):
        check(tiny, scheme, epochs, fresh, RECIPES[recipe], 2 if len(epochs) < 100 else 1)


@pytest.mark.slow
@given(tiny_runs(steps=[0.0, 1e-6, 0.1, 0.4]))
def test_any_shape(made):
    tiny, recipe = made
    for scheme, epochs, fresh in schemes(tiny):
        if len(epochs) <= 27:
            check(tiny, scheme, epochs, fresh, recipe, 2)


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
