"""Grids over data of which only statistics are kept."""

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.problem import sources

X = np.random.default_rng(0).standard_normal((90, 4))
Y = X @ np.arange(4.0) + np.random.default_rng(1).standard_normal(90)
GRID = {"step": [0.05, 0.1, 0.3], "momentum": [0.0, 0.5]}
ASKED = {"over": GRID, "metrics": ["training_loss", "stability"], "epochs": [1, 5], "batches": 3}


def accumulated(order):
    """The rows in three batches; which rows are in which is up to the order."""
    accumulator = rs.Accumulator(batches=3)
    for batch, rows in enumerate(np.split(order, 3)):
        accumulator.add(X[rows], Y[rows], batch=batch)
    return accumulator.problem()


def test_a_grid_over_accumulated_rows_is_that_over_the_rows(tmp_path):
    found = rs.sweep(accumulated(np.arange(90)), cache=tmp_path, **ASKED)
    expected = rs.sweep(X, Y, **ASKED)
    for name in ("training_loss", "rate"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-10)
    again = rs.sweep(accumulated(np.arange(90)), cache=tmp_path, **ASKED)
    assert again.attrs["from_cache"] == 12
    # The same rows all in all, in other batches.
    other = rs.sweep(accumulated(np.random.default_rng(2).permutation(90)), cache=tmp_path, **ASKED)
    assert other.attrs["from_cache"] == 0
    assert not np.allclose(other["training_loss"], found["training_loss"], rtol=1e-6)


def test_a_grid_over_rows_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "IN_MEMORY", 0.0)
    np.save(tmp_path / "X.npy", X)
    problem = rs.LeastSquares(np.load(tmp_path / "X.npy", mmap_mode="r"), Y)
    assert problem.stream is not None
    np.testing.assert_allclose(
        rs.sweep(problem, **ASKED)["training_loss"], rs.sweep(X, Y, **ASKED)["training_loss"], rtol=1e-10
    )
    with pytest.raises(TypeError, match="put them into an Accumulator first"):
        rs.sweep(problem, cache=tmp_path / "kept", **ASKED)


def test_questions_about_single_rows_name_the_way_to_ask_them():
    problem = accumulated(np.arange(90))
    run = rs.descend(problem, rs.RandomReshuffling(batches=3), step=0.05)
    for name, ask in {
        "plan": lambda: rs.plan(problem),
        "leave_one_out": lambda: run.leave_one_out(3),
        "best_epoch": run.best_epoch,
    }.items():
        with pytest.raises(
            rs.UnsupportedError, match=f"^{name}.* rows one by one.*in_memory=True.*X\\[::2\\]"
        ):
            ask()
