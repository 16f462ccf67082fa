"""The two lattices against enumeration of all orders; mean maps at many steps from those at a few."""

import tracemalloc
from math import comb

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.epoch import step_interpolation
from reshuffle.epoch.averaging import lattice
from tests.looped import for_all, pairwise
from tests.problems import case, close


@for_all("batches, shape, equal", pairwise(range(1, 6), [(12, 18), (12, 5), (13, 13)], [True, False]))
def test_both_lattices_equal_the_enumeration_of_all_orders(batches, shape, equal):
    (n, p), tiny = shape, case(*shape, batches, equal=equal, step=0.2)
    A, N = tiny.mean_map("reshuffling")
    blocks = tiny.problem.blocks(rs.RandomReshuffling(batches=tiny.partition).partition(n))
    space = tiny.problem.row_space
    step = tiny.step * space.scale**2
    for mean in (lattice.over_samples(blocks, step), lattice.over_parameters(blocks, step)):
        Z = space.lift(space.lift(mean.factor.T @ mean.weigh(mean.factor)).T)
        close(np.eye(p) - mean.stride * Z, A)
        close(
            mean.stride / space.scale * space.lift(mean.mapped_inputs(mean.factor) @ blocks.response[:, 0]),
            N @ tiny.problem.y,
        )
        for batch in range(batches):
            modifier = np.eye(p) + space.lift(space.lift(mean.modifier(batch) - np.eye(space.dimension)).T)
            close(modifier, tiny.modifiers(batch)[0])


@pytest.mark.slow
@pytest.mark.parametrize("average", [lattice.over_samples, lattice.over_parameters])
def test_layers_are_freed_as_they_are_used(average):
    batches, n, p = 8, 160, 80
    problem = rs.gaussian(n, p, seed=0)
    blocks = problem.blocks(rs.RandomReshuffling(batches=batches).partition(n))
    # Once before it is measured: what Python loads and caches the first time is not the lattice's.
    average(blocks, 0.01)
    tracemalloc.start()
    average(blocks, 0.01)
    if average is lattice.over_samples:
        layers = [comb(batches, size) * (size * n // batches) ** 2 for size in range(batches // 2 + 1)]
    else:
        layers = [comb(batches, size) * p**2 for size in range(batches + 1)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Two layers are needed at a time. How much each thread holds beside them depends on how the threads
    # meet, so it is not counted out: it is far less than the third layer that must not be there.
    kept = max(sum(three) for three in zip(layers, layers[1:], layers[2:], strict=False))
    assert peak < 8 * kept


@pytest.mark.slow
def test_too_many_batches_are_refused_before_memory_runs_out():
    problem = rs.gaussian(4000, 400, seed=0)
    for batches, message in (
        (18, r"GiB of the .* this machine can spare"),
        (21, "at most 20"),
        (2000, "at most 20"),
    ):
        run = rs.descend(problem, rs.RandomReshuffling(batches=batches), step=0.01, method="exact")
        with pytest.raises(rs.BudgetError, match=rf"batches is {batches}, .*{message}.*; try fewer batches"):
            run.risk(1)


PROBLEM = rs.gaussian(16, 9, noise=0.5, seed=4)
SCHEME = rs.RandomReshuffling(batches=4)
STEPS = np.geomspace(1e-3, 0.3, 30).tolist()
LARGE = np.geomspace(1e-4, 100.0, 200).tolist()


def shared(scheme=SCHEME, steps=STEPS, **recipe):
    return dict(rs.descend(PROBLEM, scheme, step=steps[0], **recipe).at_steps(steps))


@pytest.mark.parametrize("steps", [STEPS, LARGE], ids=["small", "large"])
def test_everything_of_an_epoch_follows(steps):
    runs = shared(steps=steps)
    assert len(runs) > 0.9 * len(steps)
    for step in list(runs)[::10]:
        run, direct = runs[step], rs.descend(PROBLEM, SCHEME, step=step)
        size = np.abs(direct.epoch.matrix).max()
        for name in ("Z", "matrix", "modified_features", "rates"):
            found, expected = (getattr(each.epoch, name) for each in (run, direct))
            np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12 * max(size, 0.1))
        np.testing.assert_allclose(run.epoch.modifier(2), direct.epoch.modifier(2), rtol=1e-11, atol=1e-13)
        assert repr(run.computation.mean) == repr(direct.computation.mean)
        assert (run.method, run.error_kind) == ("exact", "exact")


def test_what_rounding_has_blurred_is_computed_by_itself(monkeypatch):
    exact_mean = step_interpolation.exact_mean

    def blurred(scheme, n, blocks, step):
        make, *others = exact_mean(scheme, n, blocks, step)
        mean = make()
        off = mean.kernel * (1 + 1e-9 * np.sin(1e6 * step))
        return lambda: step_interpolation.replace(mean, kernel=off), *others

    monkeypatch.setattr(step_interpolation, "exact_mean", blurred)
    assert shared() == {}


@for_all(
    "scheme, recipe",
    [
        (rs.FullBatch(), {}),
        (rs.WithReplacement(batches=4), {}),
        (rs.Cyclic(batches=4), {}),
        (SCHEME, {"momentum": 0.5}),
        (SCHEME, {"penalty": 0.5}),
        (SCHEME, {"method": "sampling"}),
        (rs.SampleReshuffling(batches=8), {}),
    ],
)
def test_where_there_is_no_polynomial_nothing_is_shared(scheme, recipe):
    assert shared(scheme, **recipe) == {}


def test_few_steps_are_not_worth_it():
    assert shared(steps=STEPS[:5]) == {}
