"""Every point of a grid equals a separate call, also over rows in pieces; bad grids are refused at once."""

import math
import re
import sys
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.grid.metrics import METRICS
from reshuffle.problem import sources
from tests.looped import for_all

EPOCHS = [0, 1, 7, 100, math.inf]


def close(found, expected):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-10, atol=1e-13)


@pytest.fixture(scope="module")
def problem():
    return rs.gaussian(24, 10, noise=0.5, seed=3)


@pytest.mark.slow
def test_every_point_equals_a_separate_call(problem):
    over = {"batches": [1, 4], "momentum": [0.0, 0.6], "alpha": [0.1, 1.0]}
    metrics = ["risk", "training_loss", "leave_one_out", "mean_leave_one_out"]
    found = rs.sweep(problem, over=over, metrics=metrics, epochs=EPOCHS)
    assert found["risk"].dims == ("batches", "momentum", "alpha", "epochs")
    for batches in over["batches"]:
        for momentum in over["momentum"]:
            for alpha in over["alpha"]:
                run = rs.descend(
                    problem, rs.RandomReshuffling(batches=batches), alpha=alpha, momentum=momentum
                )
                here = found.sel(batches=batches, momentum=momentum, alpha=alpha)
                risk, left_out = run.risk(EPOCHS), run.leave_one_out(EPOCHS)
                close(here["risk"], risk.total)
                close(here["risk_variance"], risk.variance)
                close(here["risk_error"], risk.error)
                close(here["training_loss"], run.training_loss(EPOCHS))
                close(here["mean_leave_one_out"], left_out.mean_square)
                close(here["mean_leave_one_out_standard_error"], left_out.standard_error)
                of_run = run.leave_one_out(EPOCHS, of_run=True)
                np.testing.assert_allclose(here["leave_one_out"], of_run.mean_square, rtol=1e-6)


def test_all_questions_at_once_and_their_units(problem):
    found = rs.sweep(
        problem,
        over={"step": [0.02, 0.1]},
        batches=2,
        metrics=list(METRICS),
        epochs=[1, 5],
    )
    run = rs.descend(problem, rs.RandomReshuffling(batches=2), step=0.1)
    here = found.sel(step=0.1)
    close(here["expected_risk"], run.expected_risk([1, 5]).total)
    close(here["excess_training_loss"], run.excess_training_loss([1, 5]))
    close(here["degrees_of_freedom"], run.degrees_of_freedom([1, 5]))
    close(here["iterate"], run.iterate([1, 5]))
    close(here["limit_risk"], run.limit().risk.total)
    close(here["limit_training_loss"], run.limit().training_loss)
    assert float(here["best_epoch"]) == run.best_epoch().epoch
    close(here["rate"], run.stability().rate)
    assert float(here["converges"]) == 1.0
    close(
        found["critical_step"],
        [rs.critical_step(problem, rs.RandomReshuffling(batches=2), mean_square=False)] * 2,
    )
    for name, variable in found.variables.items():
        assert variable.attrs["long_name"], name
        assert "units" in variable.attrs, name
    assert found["risk"].attrs["units"] == "(unit of y)^2"
    assert found["step"].attrs["units"] == found["critical_step"].attrs["units"] == "(unit of X)^-2"
    assert (found["reason"] == "").all()
    assert (found["error_kind"] == "exact").all()
    assert found.attrs["version"] == rs.__version__
    assert found.attrs["recipe"] == "scheme=RandomReshuffling, batches=2"


def test_features_and_responses_with_several_outputs(problem):
    y = np.column_stack([problem.y, problem.y[::-1]])
    found = rs.sweep(problem.X, y, over={"batch_size": [6, 12]}, alpha=0.3, epochs=4)
    assert found["leave_one_out"].dims == ("batch_size", "epochs", "output")
    run = rs.descend(rs.LeastSquares(problem.X, y), rs.RandomReshuffling(batch_size=6), alpha=0.3)
    close(found["leave_one_out"].sel(batch_size=6, epochs=4), run.leave_one_out(4, of_run=True).mean_square)


def test_schemes_by_class_name_and_object(problem):
    schemes = [rs.FullBatch, "SampleReshuffling", rs.Cyclic]
    found = rs.sweep(
        problem, over={"scheme": schemes, "batches": [2, 3]}, alpha=0.3, metrics="training_loss", epochs=[9]
    )
    assert found["scheme"].values.tolist() == ["FullBatch", "SampleReshuffling", "Cyclic"]
    for kind in (rs.SampleReshuffling, rs.Cyclic):
        run = rs.descend(problem, kind(batches=3), alpha=0.3)
        close(found["training_loss"].sel(scheme=kind.__name__, batches=3), run.training_loss([9]))
    close(
        found["training_loss"].sel(scheme="FullBatch"),
        [rs.descend(problem, rs.FullBatch(), alpha=0.3).training_loss([9])] * 2,
    )
    made = [rs.FullBatch(), rs.RandomReshuffling(batch_size=5, drop_last=True)]
    found = rs.sweep(problem, over={"scheme": made}, step=0.05, metrics="training_loss", epochs=[9])
    assert found["scheme"].values.tolist() == [repr(scheme) for scheme in made]
    close(found["training_loss"][1], rs.descend(problem, made[1], step=0.05).training_loss([9]))


def test_a_problem_per_seed_and_averages():
    draw = partial(rs.gaussian, 20, 30, noise=0.3)
    averages = [None, rs.EMA(0.5), rs.TailAverage(start=3)]
    found = rs.sweep(draw, over={"seed": [0, 7], "average": averages}, batches=2, alpha=0.2, epochs=[5, 50])
    assert found["average"].values.tolist() == [repr(average) for average in averages]
    for average in averages:
        run = rs.descend(draw(seed=7), rs.RandomReshuffling(batches=2), alpha=0.2, average=average)
        close(found["risk"].sel(seed=7, average=repr(average)), run.risk([5, 50]).total)


@pytest.mark.slow
def test_what_has_no_answer_is_nan_with_the_reason_and_what_diverges_is_infinite(problem):
    over = {"momentum": [0.0, 0.5], "nesterov": [False, True]}
    found = rs.sweep(problem, over=over, batches=2, alpha=0.1, epochs=[3])
    assert np.isnan(found["risk"].sel(momentum=0.0, nesterov=True)).all()
    assert "momentum must be above 0" in found["reason"].sel(momentum=0.0, nesterov=True).item()
    assert np.isfinite(found["risk"].sel(momentum=0.5)).all()
    found = rs.sweep(
        problem, over={"alpha": [0.1, 1e5]}, batches=2, metrics=["risk", "stability"], epochs=[3, math.inf]
    )
    assert np.isinf(found["risk"].sel(alpha=1e5, epochs=math.inf))
    assert found["converges"].values.tolist() == [1.0, 0.0]
    found = rs.sweep(
        problem, over={"batches": [2, 12]}, alpha=0.1, metrics="risk", method="exact", budget=1.0, epochs=[3]
    )
    assert np.isfinite(found["risk"].sel(batches=2)).all()


def test_reasons_of_one_cell_leave_the_others_alone(problem):
    average = [None, rs.TailAverage(start=10)]
    found = rs.sweep(problem, over={"average": average}, batches=2, alpha=0.1, epochs=[3, 20])
    assert np.isfinite(found["risk"][0]).all()
    assert np.isnan(found["risk"][1]).all()
    assert "epochs" in found["reason"].values[1, 0]


def same_as_direct(problem, scheme, steps, **recipe):
    """Every step of a grid beside a run of its own."""
    when = [1, 3, 40]
    found = rs.sweep(
        problem, over={"step": steps}, scheme=scheme, metrics=["risk", "iterate"], epochs=when, **recipe
    )
    for number, step in enumerate(steps):
        run = rs.descend(problem, scheme, step=step, **recipe)
        np.testing.assert_allclose(found["risk"].values[number], run.risk(when).total, rtol=1e-10)
        parameters = run.iterate(when)
        size = np.abs(parameters).max(axis=1, keepdims=True)
        assert (np.abs(found["iterate"].values[number] - parameters) <= 1e-10 * size).all()


@pytest.mark.slow
@settings(deadline=None, max_examples=12)
@given(
    n=st.integers(6, 14),
    p=st.integers(1, 16),
    batches=st.integers(2, 5),
    lowest=st.floats(1e-6, 0.5),
    highest=st.floats(0.6, 8.0),
    samples=st.booleans(),
    decades=st.sampled_from([0, 0, 3, 6]),
    seed=st.integers(0, 99),
)
def test_shared_steps_equal_direct_means(n, p, batches, lowest, highest, samples, decades, seed):
    covariance = np.geomspace(1.0, 10.0**-decades, p) ** 2
    problem = rs.gaussian(n, p, covariance=covariance, noise=0.5, seed=seed)
    scheme = (rs.SampleReshuffling if samples and batches <= 4 else rs.RandomReshuffling)(batches=batches)
    steps = np.geomspace(lowest, highest, 17) * rs.critical_step(problem, rs.FullBatch()) / batches
    same_as_direct(problem, scheme, steps)


def test_averages_outputs_weights_and_starts_share_steps_too():
    drawn = rs.gaussian(14, 6, noise=0.5, seed=2)
    truth = np.column_stack([drawn.beta_star, drawn.beta_star[::-1]])
    responses = drawn.X @ truth + 0.1
    weights = np.linspace(0.5, 2.0, 14)
    problem = rs.LeastSquares(drawn.X, responses, truth, noise=[0.3, 0.6], sample_weight=weights)
    steps = np.linspace(0.01, 0.2, 12)
    same_as_direct(problem, rs.RandomReshuffling(batches=3), steps, average=rs.EMA(0.5), start=np.ones(6))


@for_all("X", [np.zeros((8, 2)), np.full((8, 2), 1e150), np.full((8, 2), 1e-150)])
def test_data_at_the_ends_of_the_range(X):
    problem = rs.LeastSquares(X, np.arange(8.0))
    size = float(np.abs(X).max()) or 1.0
    steps = (np.geomspace(1e-3, 3.0, 12) / size / size).tolist()
    found = rs.sweep(problem, over={"step": steps}, batches=2, metrics="training_loss", epochs=[1, 10])
    for number, step in enumerate(steps):
        run = rs.descend(problem, rs.RandomReshuffling(batches=2), step=step)
        np.testing.assert_allclose(
            found["training_loss"].values[number], run.training_loss([1, 10]), rtol=1e-10
        )


def test_a_hundred_points_of_one_answer_ask_for_it_once(problem, monkeypatch):
    from dataclasses import replace

    calls = []
    question = METRICS["critical_step"]
    counted = replace(question, ask=lambda run, when: calls.append(1) or question.ask(run, when))
    monkeypatch.setitem(METRICS, "critical_step", counted)
    rs.sweep(problem, over={"batches": [2, 4], "step": np.linspace(0.01, 0.1, 50)}, metrics="critical_step")
    assert len(calls) == 2


def test_the_recipe_of_a_sweep_is_what_all_points_share():
    over = {"scheme": [rs.RandomReshuffling, rs.Cyclic], "step": [0.1]}
    problem = rs.gaussian(12, 3, noise=1.0, seed=0)
    found = rs.sweep(problem, over=over, batches=3, penalty=0.5, epochs=[1])
    assert found.attrs["recipe"] == "batches=3, penalty=0.5"


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
