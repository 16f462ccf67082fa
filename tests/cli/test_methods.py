"""Answers that are not exact say so; recipes and accuracy of the library, from the command line."""

import json
import math

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.run.critical_steps import CriticalStep
from tests.cli.terminal import run

SMALL = ("curve", "--n", "30", "--p", "12", "--noise", "0.5", "--seed", "3", "--epochs", "20")


def answer(capsys, *arguments):
    outcome = run(capsys, *arguments, "--json", "-")
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def test_exact_stands_only_over_exact_answers(capsys):
    exact = run(capsys, *SMALL, "--alpha", "0.2").out
    assert exact.splitlines()[0] == "n = 30, p = 12, noise 0.5: exact, no training"
    assert "±" not in exact
    sampled = run(
        capsys,
        *SMALL,
        "--alpha",
        "0.9",
        "--scheme",
        "sample-reshuffling",
        "--batches",
        "10",
        "--rtol",
        "1e-2",
    ).out
    assert sampled.splitlines()[0] == "n = 30, p = 12, noise 0.5: no training; ± where not exact"
    assert "sampled" in sampled
    assert "99 of 100 seeds" in sampled


def test_the_error_of_a_sampled_answer_is_the_library_s(capsys):
    # So small a budget that the exact answer, which is known here, has to be estimated.
    options = ("--alpha", "0.9", "--scheme", "sample-reshuffling", "--batches", "4", "--rtol", "1e-2")
    (found,) = answer(capsys, *SMALL, *options, "--budget", "1e4")["curves"]
    problem, scheme = rs.gaussian(30, 12, noise=0.5, seed=3), rs.SampleReshuffling(batches=4)
    library = rs.descend(problem, scheme, alpha=0.9, rtol=1e-2, budget=1e4, seed=3)
    assert found["method"] == library.method == "sampling"
    np.testing.assert_allclose(found["risk"]["error"], library.risk(np.arange(21)).error, rtol=1e-9)
    assert max(found["risk"]["error"]) > 0
    assert max(found["training_loss_error"]) > 0
    # The error of the loss covers that of the iterate.
    exact = rs.descend(problem, scheme, alpha=0.9)
    assert exact.method == "exact"
    difference = np.abs(np.array(found["training_loss"]) - exact.training_loss(np.arange(21)))
    assert (difference <= np.array(found["training_loss_error"]) + 1e-12).all()


def test_advice_names_options_that_exist(capsys, recwarn):
    import warnings

    options = ("--alpha", "0.9", "--scheme", "sample-reshuffling", "--batches", "10")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        outcome = run(capsys, *SMALL, *options, "--budget", "1e6", "--rtol", "1e-9")
    assert outcome.code == 0, outcome.err
    assert "but --rtol is 1e-09" in outcome.err
    assert "a larger --budget, a larger --rtol or a smaller step" in outcome.err


def test_the_risk_of_one_run_stands_beside_that_of_the_mean(capsys):
    found = answer(capsys, *SMALL, "--alpha", "0.5", "--batches", "1,3")["curves"]
    problem = rs.gaussian(30, 12, noise=0.5, seed=3)
    library = rs.descend(problem, rs.RandomReshuffling(batches=3), alpha=0.5)
    there = library.expected_risk(library.best_epoch().epoch)
    assert found[1]["run_risk_at_best_epoch"]["total"] == pytest.approx(float(there.total), rel=1e-10)
    assert found[1]["run_risk"] is None
    assert found[0]["run_risk_at_best_epoch"]["spread"] == pytest.approx(0.0, abs=1e-12)
    shown = run(capsys, *SMALL, "--alpha", "0.5", "--batches", "1,3").out
    assert "risk of one run" in shown
    assert f"{float(there.total):.6g}" in shown


@pytest.mark.slow
def test_the_mean_square_gives_every_epoch_and_whether_runs_converge(capsys):
    options = ("--alpha", "0.5", "--batches", "3", "--mean-square")
    (found,) = answer(capsys, *SMALL, *options)["curves"]
    problem = rs.gaussian(30, 12, noise=0.5, seed=3)
    library = rs.descend(problem, rs.RandomReshuffling(batches=3), alpha=0.5)
    np.testing.assert_allclose(
        found["run_risk"]["total"], library.expected_risk(np.arange(21)).total, rtol=1e-9
    )
    assert found["mean_square"]["converges"] is True
    assert found["mean_square"]["rate"] == pytest.approx(library.mean_square_stability().rate, rel=1e-9)
    header = run(capsys, *SMALL, *options, "--csv", "-").out.splitlines()[0]
    assert ",run_risk,run_risk_error," in header
    assert "runs converge" in run(capsys, *SMALL, *options).out


def test_what_cannot_be_answered_says_why(capsys, monkeypatch):
    from reshuffle.errors import BudgetError

    def refuse(*_, **__):
        raise BudgetError("it would take a year; try something else.")

    monkeypatch.setattr(rs.Run, "expected_risk", refuse)
    monkeypatch.setattr(rs.Run, "mean_square_stability", refuse)
    outcome = run(capsys, *SMALL, "--alpha", "0.5", "--batches", "3", "--mean-square", "--csv", "-")
    assert outcome.code == 0
    outcome = run(capsys, *SMALL, "--alpha", "0.5", "--batches", "1,3")
    assert outcome.code == 0, outcome.err
    assert "full batch, 3 batches: it would take a year." in outcome.out


@pytest.mark.parametrize(
    ("options", "scheme", "recipe"),
    [
        (("--momentum", "0.5", "--batches", "3"), rs.RandomReshuffling(batches=3), {"momentum": 0.5}),
        (("--penalty", "0.1", "--batches", "3"), rs.RandomReshuffling(batches=3), {"penalty": 0.1}),
        (("--batch-size", "8"), rs.RandomReshuffling(batch_size=8), {}),
        (
            ("--batch-size", "8", "--drop-last", "--scheme", "sample-reshuffling"),
            rs.SampleReshuffling(batch_size=8, drop_last=True),
            {},
        ),
        (("--batch-size", "8", "--scheme", "with-replacement"), rs.WithReplacement(batch_size=8), {}),
        (
            ("--batch-size", "8", "--scheme", "sample-with-replacement"),
            rs.SampleWithReplacement(batch_size=8),
            {},
        ),
        (
            ("--batches", "3", "--scheme", "sample-with-replacement"),
            rs.SampleWithReplacement(batch_size=10),
            {},
        ),
        (("--batches", "3", "--scheme", "sample-subsets"), rs.SampleSubsets(batch_size=10), {}),
        (("--batch-size", "30"), rs.FullBatch(), {}),
        (("--batch-size", "30", "--scheme", "sample-subsets"), rs.FullBatch(), {}),
    ],
)
def test_recipes_are_the_library_s(capsys, options, scheme, recipe):
    (found,) = answer(capsys, *SMALL, "--step", "0.05", *options)["curves"]
    problem = rs.gaussian(30, 12, noise=0.5, seed=3)
    library = rs.descend(problem, scheme, step=0.05, **recipe)
    assert found["batches"] == scheme.steps(30)
    np.testing.assert_allclose(found["risk"]["total"], library.risk(np.arange(21)).total, rtol=1e-9)
    assert found["best_epoch"]["risk"] == pytest.approx(library.best_epoch().risk, rel=1e-9)


def test_a_recipe_is_told_in_the_title(capsys):
    shown = run(
        capsys, *SMALL, "--alpha", "0.1", "--momentum", "0.5", "--penalty", "0.1", "--batches", "2"
    ).out
    assert shown.startswith("n = 30, p = 12, noise 0.5, momentum 0.5, weight decay 0.1: exact, no training")


def test_where_a_search_would_be_long_the_best_epoch_is_of_those_shown_and_says_so(capsys, monkeypatch):
    monkeypatch.setattr(rs.Run, "best_epoch_operations", math.inf)
    outcome = run(capsys, *SMALL, "--alpha", "0.1", "--scheme", "cyclic", "--batches", "3")
    assert "3 batches, cyclic: the best epoch is that of the epochs shown and the limit." in outcome.out
    (found,) = answer(capsys, *SMALL, "--alpha", "0.1", "--scheme", "cyclic", "--batches", "3")["curves"]
    assert found["best_epoch"]["error"] is None
    assert found["best_epoch"]["risk"] == min([*found["risk"]["total"], found["limit"]["risk"]])


def test_simulated_runs_reach_the_table(capsys):
    arguments = (*SMALL, "--alpha", "0.5", "--batches", "3", "--simulate", "100")
    shown = run(capsys, *arguments).out
    assert "simulated risk" in shown
    assert "simulated run" in shown
    (found,) = answer(capsys, *arguments)["curves"]
    at = int(found["best_epoch"]["epoch"]) if found["best_epoch"]["epoch"] != "inf" else 20
    error = 2 * found["simulated_risk"]["standard_error"][at]
    assert f"± {error:.2g}" in shown


@pytest.mark.slow
def test_stability_prints_thresholds_with_their_errors(capsys, tmp_path, monkeypatch):
    known, critical_step = {}, rs.critical_step

    def kept(problem, scheme, **asked):
        known[scheme.batches] = critical_step(problem, scheme, **asked)
        return known[scheme.batches]

    monkeypatch.setattr("reshuffle.grid.metrics.critical_step", kept)
    arguments = ("stability", "--n", "24", "--p", "2", "--scheme", "sample-reshuffling")
    outcome = run(capsys, *arguments, "--json", str(tmp_path / "found.json"))
    assert outcome.code == 0, outcome.err
    rows = [line.split() for line in outcome.out.splitlines() if line.startswith("sample-reshuffling ")]
    assert [row[1] for row in rows] == ["2", "4", "8"]
    assert "±" in rows[-1]
    found = json.loads((tmp_path / "found.json").read_text())["thresholds"]
    assert found[1]["step"] == pytest.approx(
        critical_step(rs.gaussian(24, 2), rs.SampleReshuffling(batches=2), mean_square=False), rel=1e-8
    )
    assert found[2]["step"] == pytest.approx(known[4], rel=1e-8)
    assert found[3]["error"] == pytest.approx(known[8].error, rel=1e-6)


def _refuses_eight(problem, scheme, **asked):
    if scheme.batches == 8:
        raise rs.BudgetError("there are 8 batches, but at most 4 are known")
    return CriticalStep(0.5)


def test_stability_prints_what_it_knows_and_says_what_it_does_not(capsys, monkeypatch):
    monkeypatch.setattr("reshuffle.grid.metrics.critical_step", _refuses_eight)
    arguments = ("stability", "--n", "24", "--p", "2", "--scheme", "sample-reshuffling")
    outcome = run(capsys, *arguments)
    assert outcome.code == 0, outcome.err
    rows = [line.split() for line in outcome.out.splitlines() if line.startswith("sample-reshuffling ")]
    assert rows[-1][2:] == ["-", "-"]
    assert "sample-reshuffling, 8 batches: " in outcome.out
    found = answer(capsys, *arguments)["thresholds"]
    assert (found[3]["step"], found[3]["alpha"]) == (None, None)
    assert "at most 4" in found[3]["reason"]


def test_stability_without_any_answer_is_an_error(capsys, monkeypatch):
    monkeypatch.setattr("reshuffle.grid.metrics.critical_step", _refuses_eight)
    outcome = run(
        capsys, "stability", "--n", "24", "--p", "2", "--scheme", "sample-reshuffling", "--batches", "8"
    )
    assert outcome.code == 1
    assert outcome.out == ""
    assert "descend" not in outcome.err


def test_default_batches_fit_few_rows(capsys):
    found = answer(capsys, "stability", "--n", "5", "--p", "3")["thresholds"]
    assert [one["batches"] for one in found] == [1, 2, 4]


@pytest.mark.slow
def test_stability_of_recipes_and_of_the_mean_square(capsys):
    problem = rs.gaussian(20, 4)
    arguments = ("stability", "--n", "20", "--p", "4", "--batch-size", "10")
    (plain,) = answer(capsys, *arguments)["thresholds"]
    (square,) = answer(capsys, *arguments, "--mean-square")["thresholds"]
    (heavy,) = answer(capsys, *arguments, "--momentum", "0.3")["thresholds"]
    scheme = rs.RandomReshuffling(batches=2)
    assert plain["step"] == pytest.approx(rs.critical_step(problem, scheme, mean_square=False), rel=1e-8)
    assert square["step"] == pytest.approx(rs.critical_step(problem, scheme, mean_square=True), rel=1e-5)
    assert heavy["step"] == pytest.approx(
        rs.critical_step(problem, scheme, momentum=0.3, mean_square=False), rel=1e-8
    )
    assert "the mean square of a run converges up to" in run(capsys, *arguments, "--mean-square").out
    assert "2% apart" in run(capsys, *arguments, "--momentum", "0.3").out


def test_the_power_law_keeps_the_signal_of_the_identity(capsys):
    from reshuffle.cli.problem import covariance_of

    for exponent in ("0", "1.5", "-3", "400", "1e308"):
        diagonal = covariance_of(f"powerlaw:{exponent}", 50)
        assert diagonal.sum() == pytest.approx(50)
        assert np.isfinite(diagonal).all()
    ratio = covariance_of("powerlaw:1.5", 50)[3] / covariance_of("powerlaw:1.5", 50)[0]
    assert ratio == pytest.approx(4**-1.5)


def test_what_has_no_bound_on_its_error_is_unknown():
    from reshuffle.cli.render import uncertain

    assert uncertain(9.18, math.inf) == "unknown"
    assert uncertain(9.18, 30.0) == "9 ± 30"
    assert uncertain(0.0, 0.25) == "0.00 ± 0.25"
    assert uncertain(math.inf, math.inf) == "inf"
