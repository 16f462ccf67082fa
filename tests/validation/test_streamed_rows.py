"""Leave-one-out of rows that are read in chunks: the answers are those of the rows in memory."""

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.problem import sources

WHEN = [1, 4, 30]


def both(folder, monkeypatch, *, n=400, outputs=None, weighted=False):
    """The same data on disk and in memory, with a few rows that are far larger."""
    monkeypatch.setattr(sources, "IN_MEMORY", 0.0)
    monkeypatch.setattr(sources, "CHUNK", 250)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3)) * [1.0, 1.5, 2.0]
    X[::90] *= 4
    y = X @ rng.standard_normal((3, outputs or 1)) + rng.standard_normal((n, outputs or 1))
    y = y if outputs else y[:, 0]
    weights = rng.uniform(0.5, 2.0, n) if weighted else None
    np.save(folder / "X.npy", X)
    return [rs.LeastSquares(rows, y, sample_weight=weights) for rows in (folder / "X.npy", X)]


@pytest.mark.parametrize(
    ("scheme", "recipe", "passes"),
    [
        (rs.FullBatch(), {}, 2),
        (rs.FullBatch(), {"momentum": 0.5, "penalty": 0.1}, 2),
        (rs.SampleWithReplacement(batch_size=20), {}, 2),
        (rs.RandomReshuffling(batches=3), {}, 2),
        (rs.RandomReshuffling(batch_size=150, drop_last=True), {"momentum": 0.5}, 2),
        (rs.Cyclic(batches=4), {}, 2),
    ],
)
@pytest.mark.parametrize(("outputs", "weighted"), [(None, True), (2, False)])
def test_exact_answers_are_those_in_memory(tmp_path, monkeypatch, scheme, recipe, passes, outputs, weighted):
    streamed, in_memory = both(tmp_path, monkeypatch, outputs=outputs, weighted=weighted)
    found, expected = (
        rs.descend(problem, scheme, 0.02, **recipe).leave_one_out(WHEN) for problem in (streamed, in_memory)
    )
    assert found.method == expected.method == "exact"
    for name in ("mean_square", "standard_error", "residuals"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-7)
    assert streamed.stream.passes == passes
    some = rs.descend(streamed, scheme, 0.02, **recipe).leave_one_out(WHEN, rows=[250, 3])
    np.testing.assert_allclose(some.residuals, expected.residuals[:, [250, 3]], rtol=1e-7)


@pytest.mark.parametrize("recipe", [{}, {"momentum": 0.6}, {"penalty": 0.1}])
@pytest.mark.parametrize("outputs", [None, 2])
def test_shuffled_samples_are_within_the_error(tmp_path, monkeypatch, recipe, outputs):
    streamed, in_memory = both(tmp_path, monkeypatch, outputs=outputs)
    scheme, step = rs.SampleReshuffling(batch_size=40), 0.01 * (1 - recipe.get("momentum", 0.0))
    found, expected = (
        rs.descend(problem, scheme, step, rtol=0.5, **recipe).leave_one_out(WHEN)
        for problem in (streamed, in_memory)
    )
    assert (found.method, found.error_kind) == ("cavity", "estimate")
    off = np.abs(found.mean_square - expected.mean_square)
    assert (off <= found.error + expected.error).all()
    assert (found.error < found.standard_error).all()
    assert (off > 0).all()
    # The Gram matrix, the weights of the error, and the rows.
    assert streamed.stream.passes == 3
    np.testing.assert_allclose(found.residuals, expected.residuals, atol=0.05)


def test_what_takes_runs_without_a_row_is_refused(tmp_path, monkeypatch):
    streamed, _ = both(tmp_path, monkeypatch)
    run = rs.descend(streamed, rs.RandomReshuffling(batches=3), 0.02, average=rs.EMA(0.9))
    with pytest.raises(rs.UnsupportedError, match="needs the rows one by one"):
        run.leave_one_out(3)
