"""Runs that have answered questions are pickled and copied, and the copies answer the same."""

import copy
import pickle

import numpy as np
import pytest

import reshuffle as rs
from tests.looped import for_all
from tests.schemes.test_designs import DESIGNS, averaged

RECIPES = [{}, {"momentum": 0.5}, {"penalty": 0.1}, {"average": rs.TailAverage(start=1)}]


def answers(run):
    """What a run says of two epochs, as far as its recipe has answers, by name."""
    asked = {
        "iterate": lambda: run.iterate(2),
        "iterate_error": lambda: run.iterate_error(2),
        "training_loss": lambda: run.training_loss(2),
        "risk": lambda: run.risk(2).total,
        "expected_risk": lambda: run.expected_risk(2).total,
        "covariance": lambda: run.covariance(2).matrix,
        "leave_one_out": lambda: run.leave_one_out(2).mean_square,
        "limit": lambda: run.limit().parameters,
        "rate": lambda: run.stability().rate,
        "Z": lambda: run.epoch.Z,
    }
    found = {}
    for name, question in asked.items():
        try:
            found[name] = question()
        except rs.UnsupportedError:
            found[name] = np.nan
    return found


def compare(run):
    expected = answers(run)
    found = answers(pickle.loads(pickle.dumps(run)))
    for name, answer in expected.items():
        np.testing.assert_allclose(found[name], answer, rtol=1e-9, atol=1e-12, err_msg=name)
    np.testing.assert_allclose(copy.deepcopy(run).iterate(2), expected["iterate"], rtol=1e-9, atol=1e-12)


@for_all("name", [name for name in DESIGNS if "dropped" not in name])
def test_every_design(name):
    design, recipe = DESIGNS[name], RECIPES[list(DESIGNS).index(name) % 4]
    if "average" in recipe and averaged(design, recipe["average"]) is None:
        recipe = {"step": [0.05, 0.04, 0.03]}
    compare(rs.descend(rs.gaussian(design.n, 2, noise=0.5), design.scheme, **{"step": 0.05, **recipe}))


@pytest.mark.parametrize(
    ("recipe", "method"), [({}, "cavity"), ({"method": "sampling", "rtol": 0.1}, "sampling")]
)
def test_shuffled_samples_that_are_estimated(recipe, method):
    run = rs.descend(
        rs.gaussian(20, 2, noise=0.5, seed=0), rs.SampleReshuffling(batch_size=2), step=0.05, **recipe
    )
    assert run.method == method
    compare(run)


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))], ids=["copied", "pickled"]
)
def test_what_belongs_to_a_run(copied):
    """One of its outputs, the same with another step, its epoch, and a plan that holds it."""
    drawn = rs.gaussian(24, 3, noise=0.5, seed=0)
    both = rs.LeastSquares(drawn.X, np.column_stack([drawn.y, drawn.y**2]))
    run = rs.descend(both, rs.WithReplacement(batches=4), step=0.05)
    for other in (run, run.output(1), run.with_step(0.02)):
        expected = other.iterate(2)
        np.testing.assert_allclose(copied(other).iterate(2), expected, rtol=1e-12)
    Z = run.epoch.Z
    np.testing.assert_allclose(copied(run.epoch).Z, Z, rtol=1e-12)
    plan = rs.plan(drawn.X, drawn.y, batch_sizes=[24], epochs=20)
    expected = plan.single_run_error
    assert copied(plan).single_run_error == pytest.approx(expected, rel=1e-9)
