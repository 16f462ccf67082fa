"""Plans for rows that are read in chunks: those of the same rows in memory."""

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.problem import sources


@pytest.mark.parametrize(
    ("outputs", "weights", "options"),
    [
        (None, None, {"standardize": False}),
        (2, np.random.default_rng(3).uniform(0.5, 2.0, 300), {"standardize": False, "penalties": [0.0, 0.1]}),
        (None, None, {}),
    ],
)
def test_a_plan_is_that_of_the_rows_in_memory(tmp_path, monkeypatch, outputs, weights, options):
    monkeypatch.setattr(sources, "IN_MEMORY", 0.0)
    monkeypatch.setattr(sources, "CHUNK", 200)
    rng = np.random.default_rng(1)
    X = rng.standard_normal((300, 4)) * np.linspace(1, 2, 4) + 1.0
    y = X @ rng.standard_normal((4, outputs or 1)) + rng.standard_normal((300, outputs or 1))
    y = y if outputs else y[:, 0]
    np.save(tmp_path / "X.npy", X)
    options = {"batch_sizes": [20, 300], "epochs": 50, "sample_weight": weights, **options}
    # Nothing is refined where rows are read in chunks.
    found, expected = rs.plan(tmp_path / "X.npy", y, **options), rs.plan(X, y, verify=False, **options)
    assert found.problem.stream.passes <= 6
    for name in ("mean_squares", "spreads", "safe_steps"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-8)
    assert found.best.words() == expected.best.words()
    for name in ("least_squares", "ridge", "best"):
        for number in ("mean_square", "standard_error"):
            here, there = (getattr(getattr(plan, name), number) for plan in (found, expected))
            assert here == pytest.approx(there, rel=1e-8)
    if "standardize" in options:
        np.testing.assert_allclose(found.interval, expected.interval, rtol=1e-8)
    else:
        # In memory rows are left out of the scales, too.
        np.testing.assert_allclose(found.interval, expected.interval, rtol=0.01)
    np.testing.assert_allclose(found.coefficients[0], expected.coefficients[0], rtol=1e-3)
    checked = found.check_on(X[:50], y[:50])
    assert np.isnan(checked.single_run)
    assert checked.found == pytest.approx(expected.check_on(X[:50], y[:50]).found, rel=1e-3)
