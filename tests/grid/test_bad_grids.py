"""What is wrong with a grid is said before any work begins."""

import re
import sys

import numpy as np
import pytest

import reshuffle as rs
from tests.looped import for_all

PROBLEM = rs.gaussian(20, 5, seed=0)
UNKNOWN = rs.LeastSquares(PROBLEM.X, PROBLEM.y)


GIVEN = {"over": {"step": [0.1]}, "batches": 2}
"""What is right, unless it is replaced; `None` leaves it out."""


@for_all(
    "arguments, error, words",
    [
        ({"over": {}}, TypeError, "over must say what the grid runs over"),
        ({"over": [1]}, TypeError, "over must say what the grid runs over"),
        ({"over": {"beta": [1]}}, ValueError, "over must hold names among batches, batch_size"),
        ({"over": {"step": []}}, ValueError, "over['step'] must hold at least one value"),
        ({"over": {"step": [0.1, 0.1]}}, ValueError, "over['step'] must hold each value once"),
        ({"over": {"step": [0.1, -1.0]}}, ValueError, "over['step'][1] must be a finite number >= 0"),
        ({"over": {"step": 0.1}}, TypeError, "over['step'] must be a list"),
        ({"over": {"step": "0.1"}}, TypeError, "over['step'] must be a list"),
        ({"over": {"step": [[0.1]]}}, ValueError, "it has 2 dimensions"),
        ({"over": {"batches": [2, 21]}, "step": 0.1, "batches": None}, ValueError, "between 1 and 20"),
        (
            {"over": {"batches": [2.5]}, "step": 0.1, "batches": None},
            ValueError,
            "over['batches'][0] must be a whole",
        ),
        ({"over": {"momentum": [1.0]}, "step": 0.1}, ValueError, "below 1"),
        ({"over": {"scheme": ["Guess"]}, "step": 0.1}, ValueError, "over['scheme'][0] must be a scheme"),
        (
            {"over": {"scheme": [rs.Cyclic]}, "step": 0.1, "batches": None},
            TypeError,
            "neither batches nor batch_size",
        ),
        ({"over": {"scheme": [rs.Cyclic(batches=2)]}, "step": 0.1}, TypeError, "batches already"),
        ({"over": {"scheme": [rs.SampleSubsets]}, "step": 0.1}, TypeError, "batch_size=32"),
        ({"over": {"average": ["EMA"]}, "step": 0.1}, TypeError, "EMA(...)"),
        ({"over": {"batches": [2]}, "batches": None}, TypeError, "exactly one of step and alpha"),
        ({"alpha": 0.1}, TypeError, "at most one of step and alpha"),
        (
            {"over": {"step": [0.1], "batches": [2], "batch_size": [3]}, "batches": None},
            TypeError,
            "one of batches",
        ),
        ({"step": 0.1}, TypeError, "step must be given once"),
        ({"over": {"step": [0.1], "seed": [1]}}, TypeError, "function of the seed"),
        ({"metrics": "luck"}, ValueError, "metrics must be among risk"),
        ({"metrics": []}, ValueError, "at least one of risk"),
        ({"metrics": ["risk", "risk"]}, ValueError, "there 2 times"),
        ({"epochs": []}, ValueError, "epochs must be a list"),
        ({"epochs": [1, 1]}, ValueError, "epochs must be a list"),
        ({"epochs": [1.5]}, ValueError, "whole numbers"),
        ({"n_jobs": 0}, ValueError, "n_jobs must be"),
        ({"n_jobs": "two"}, ValueError, "n_jobs must be"),
        ({"client": "tcp://nobody"}, TypeError, "distributed.Client"),
        ({"method": "guess"}, ValueError, "method must be"),
        ({"nesterov": True}, ValueError, "momentum must be above 0"),
        ({"cache": 3}, TypeError, "cache must be the path"),
        (
            {"over": {"momentum": [0.1]}, "step": lambda epoch: 0.1, "cache": "kept"},
            TypeError,
            "cache must tell",
        ),
        (
            {"problem": UNKNOWN, "metrics": "risk"},
            rs.MissingTruthError,
            "metrics='risk' needs beta_star and noise",
        ),
        ({"problem": np.ones((3, 2))}, TypeError, "problem must be a LeastSquares"),
        ({"problem": rs.gaussian}, TypeError, 'over must have the "seed"'),
        (
            {"problem": lambda seed: rs.gaussian(9, 2 + seed), "over": {"seed": [0, 1]}, "step": 0.1},
            ValueError,
            "as many columns",
        ),
    ],
)
def test_bad_grids(arguments, error, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = {
        name: value for name, value in {"problem": PROBLEM, **GIVEN, **arguments}.items() if value is not None
    }
    with pytest.raises(error, match=re.escape(words)):
        rs.sweep(asked.pop("problem"), **asked)


def test_missing_libraries_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(ModuleNotFoundError, match=re.escape("pip install 'reshuffle[sweep]'")):
        rs.sweep(PROBLEM, **GIVEN)
