"""What is wrong with a grid is said before any work begins."""

import re

import numpy as np
import pytest

import reshuffle as rs

PROBLEM = rs.gaussian(20, 5, seed=0)
UNKNOWN = rs.LeastSquares(PROBLEM.X, PROBLEM.y)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"over": {}}, TypeError, "over must say what the grid runs over"),
        ({"over": [1]}, TypeError, "over must say what the grid runs over"),
        ({"over": {"beta": [1]}}, ValueError, "over must hold names among batches, batch_size"),
        ({"over": {"step": []}, "batches": 2}, ValueError, "over['step'] must hold at least one value"),
        ({"over": {"step": [0.1, 0.1]}, "batches": 2}, ValueError, "over['step'] must hold each value once"),
        (
            {"over": {"step": [0.1, -1.0]}, "batches": 2},
            ValueError,
            "over['step'][1] must be a finite number >= 0",
        ),
        ({"over": {"step": 0.1}, "batches": 2}, TypeError, "over['step'] must be a list"),
        ({"over": {"step": "0.1"}, "batches": 2}, TypeError, "over['step'] must be a list"),
        ({"over": {"step": [[0.1]]}, "batches": 2}, ValueError, "it has 2 dimensions"),
        ({"over": {"batches": [2, 21]}, "step": 0.1}, ValueError, "between 1 and 20"),
        ({"over": {"batches": [2.5]}, "step": 0.1}, ValueError, "over['batches'][0] must be a whole number"),
        ({"over": {"momentum": [1.0]}, "step": 0.1, "batches": 2}, ValueError, "below 1"),
        ({"over": {"scheme": ["Guess"]}, "step": 0.1}, ValueError, "over['scheme'][0] must be a scheme"),
        (
            {"over": {"scheme": [rs.RandomReshuffling]}, "step": 0.1},
            TypeError,
            "neither batches nor batch_size",
        ),
        (
            {"over": {"scheme": [rs.RandomReshuffling(batches=2)]}, "step": 0.1, "batches": 2},
            TypeError,
            "batches of its own",
        ),
        ({"over": {"scheme": [rs.SampleSubsets]}, "step": 0.1, "batches": 2}, TypeError, "batch_size=32"),
        ({"over": {"average": ["EMA"]}, "step": 0.1, "batches": 2}, TypeError, "EMA(...)"),
        ({"over": {"batches": [2]}}, TypeError, "exactly one of step and alpha"),
        ({"over": {"step": [0.1]}, "alpha": 0.1, "batches": 2}, TypeError, "at most one of step and alpha"),
        ({"over": {"step": [0.1], "batches": [2], "batch_size": [3]}}, TypeError, "at most one of batches"),
        ({"over": {"step": [0.1]}, "step": 0.1, "batches": 2}, TypeError, "step must be given once"),
        ({"over": {"step": [0.1], "seed": [1]}, "batches": 2}, TypeError, "function of the seed"),
        (
            {"over": {"step": [0.1]}, "batches": 2, "metrics": "luck"},
            ValueError,
            "metrics must be among risk",
        ),
        ({"over": {"step": [0.1]}, "batches": 2, "metrics": []}, ValueError, "at least one of risk"),
        ({"over": {"step": [0.1]}, "batches": 2, "metrics": ["risk", "risk"]}, ValueError, "there 2 times"),
        ({"over": {"step": [0.1]}, "batches": 2, "epochs": []}, ValueError, "epochs must be a list"),
        ({"over": {"step": [0.1]}, "batches": 2, "epochs": [1, 1]}, ValueError, "epochs must be a list"),
        ({"over": {"step": [0.1]}, "batches": 2, "epochs": [1.5]}, ValueError, "whole numbers"),
        ({"over": {"step": [0.1]}, "batches": 2, "n_jobs": 0}, ValueError, "n_jobs must be"),
        ({"over": {"step": [0.1]}, "batches": 2, "n_jobs": "two"}, ValueError, "n_jobs must be"),
        ({"over": {"step": [0.1]}, "batches": 2, "client": "tcp://nobody"}, TypeError, "distributed.Client"),
        ({"over": {"step": [0.1]}, "batches": 2, "method": "guess"}, ValueError, "method must be"),
        ({"over": {"step": [0.1]}, "batches": 2, "nesterov": True}, ValueError, "momentum must be above 0"),
        ({"over": {"step": [0.1]}, "batches": 2, "cache": 3}, TypeError, "cache must be the path"),
        (
            {"over": {"batches": [2]}, "step": lambda epoch: 0.1, "cache": "kept"},
            TypeError,
            "cache must tell",
        ),
    ],
)
def test_bad_grids(arguments, error, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=re.escape(words)):
        rs.sweep(PROBLEM, **arguments)


def test_problems_that_are_none():
    with pytest.raises(rs.MissingTruthError, match="metrics='risk' needs beta_star and noise"):
        rs.sweep(UNKNOWN, over={"step": [0.1]}, batches=2, metrics="risk")
    with pytest.raises(TypeError, match="problem must be a LeastSquares"):
        rs.sweep(np.ones((3, 2)), over={"step": [0.1]}, batches=2)
    with pytest.raises(TypeError, match='over must have the "seed"'):
        rs.sweep(rs.gaussian, over={"step": [0.1]}, batches=2)
    with pytest.raises(ValueError, match="as many columns"):
        rs.sweep(lambda seed: rs.gaussian(9, 2 + seed, seed=seed), over={"seed": [0, 1]}, step=0.1, batches=2)


def test_missing_libraries_are_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(ModuleNotFoundError, match=re.escape("pip install 'reshuffle[sweep]'")):
        rs.sweep(PROBLEM, over={"step": [0.1]}, batches=2)
