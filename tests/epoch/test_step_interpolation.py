"""Mean maps at many steps from those at a few, and when they are not to be trusted."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.epoch import step_interpolation

PROBLEM = rs.gaussian(16, 9, noise=0.5, seed=4)
SCHEME = rs.RandomReshuffling(batches=4)
STEPS = np.geomspace(1e-3, 0.3, 30).tolist()


@pytest.fixture(scope="module")
def window():
    run = rs.descend(PROBLEM, SCHEME, step=STEPS[0])
    (interval,) = run.step_intervals(STEPS)
    blocks = run.epoch.blocks
    nodes = [step_interpolation.node_mean(PROBLEM, SCHEME, blocks, float(step)) for step in interval.nodes]
    return step_interpolation.window(blocks, interval, nodes)


@pytest.mark.parametrize("step", [STEPS[0], STEPS[15], STEPS[-1]])
def test_everything_of_an_epoch_follows(window, step):
    direct = rs.descend(PROBLEM, SCHEME, step=step)
    shared = direct.from_window(step, window)
    for name in ("Z", "matrix", "modified_features", "rates"):
        np.testing.assert_allclose(
            getattr(shared.epoch, name), getattr(direct.epoch, name), rtol=1e-11, atol=1e-13
        )
    np.testing.assert_allclose(shared.epoch.modifier(2), direct.epoch.modifier(2), rtol=1e-11, atol=1e-13)
    assert repr(shared.computation.mean) == repr(direct.computation.mean)
    assert (shared.method, shared.error_kind) == ("exact", "exact")


def test_what_rounding_has_blurred_is_computed_by_itself(window):
    direct = rs.descend(PROBLEM, SCHEME, step=0.1)
    kernels = window.kernels.copy()
    kernels[2] *= 1 + 1e-9
    blurred = replace(window, kernels=kernels)
    assert blurred.defect > 1e3 * window.defect
    assert window.mean(PROBLEM, SCHEME, 0.1) is not None
    assert blurred.mean(PROBLEM, SCHEME, 0.1) is None
    run = direct.from_window(0.1, blurred)
    np.testing.assert_allclose(run.risk(5).total, direct.risk(5).total, rtol=1e-13)


def test_large_steps_are_shared_among_their_like():
    run = rs.descend(PROBLEM, SCHEME, step=0.1)
    wide = np.geomspace(1e-4, 100.0, 200).tolist()
    found = run.step_intervals(wide)
    assert len(found) > 3
    for before, after in pairwise(found):
        assert before.high < after.low
        assert after.high <= 2 * after.low * 1.1
    assert run.step_intervals(STEPS[:5]) == []
    assert run.step_intervals([]) == []


@pytest.mark.parametrize(
    ("scheme", "recipe"),
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
    assert rs.descend(PROBLEM, scheme, step=0.1, **recipe).step_intervals(STEPS) == []
