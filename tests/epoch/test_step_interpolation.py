"""Mean maps at many steps from those at a few, and when they are not to be trusted."""

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.epoch import step_interpolation
from tests.looped import for_all

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
    task = step_interpolation.task

    def blurred(scheme, n, blocks, step):
        made = task(scheme, n, blocks, step)
        exact = made.exact
        mean = exact()
        off = mean.kernel * (1 + 1e-9 * np.sin(1e6 * step))
        object.__setattr__(made, "exact", lambda: step_interpolation.replace(mean, kernel=off))
        return made

    monkeypatch.setattr(step_interpolation, "task", blurred)
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
