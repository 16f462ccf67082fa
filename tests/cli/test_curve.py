"""`reshuffle curve`: the numbers it prints are the library's; what is not exact says so."""

import csv
import math
import warnings
from pathlib import Path

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.cli.problem import covariance_of
from reshuffle.cli.render import uncertain
from reshuffle.errors import BudgetError
from tests.cli.terminal import answer, run, shown
from tests.looped import for_all

DRAWN = "curve --n 30 --p 45 --noise 0.5 --seed 3 --epochs 40"
WIDE = rs.gaussian(30, 45, noise=0.5, seed=3)
SMALL = "curve --n 30 --p 12 --noise 0.5 --seed 3 --epochs 20"
TALL = rs.gaussian(30, 12, noise=0.5, seed=3)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def test_the_json_holds_the_library_s_numbers(capsys):
    found = answer(capsys, f"{DRAWN} --alpha 0.2 --batches 1,3 --scheme reshuffling,with-replacement")
    expected = [
        ("full-batch", rs.FullBatch()),
        ("reshuffling", rs.RandomReshuffling(batches=3)),
        ("with-replacement", rs.WithReplacement(batches=1)),
        ("with-replacement", rs.WithReplacement(batches=3)),
    ]
    assert [(c["scheme"], c["batches"]) for c in found["curves"]] == [(n, s.batches) for n, s in expected]
    when = np.arange(41)
    for curve, (_, scheme) in zip(found["curves"], expected, strict=True):
        exact = rs.descend(WIDE, scheme, alpha=0.2)
        assert curve["epochs"] == when.tolist()
        assert curve["learning_rate"] == curve["step"] == 0.2 / scheme.batches
        assert curve["alpha"] == pytest.approx(0.2)
        for part in ("total", "frozen", "bias", "cross", "variance"):
            np.testing.assert_allclose(curve["risk"][part], getattr(exact.risk(when), part), rtol=1e-13)
        np.testing.assert_allclose(curve["training_loss"], exact.training_loss(when), rtol=1e-10)
        assert curve["best_epoch"]["epoch"] == exact.best_epoch().epoch
        assert curve["best_epoch"]["risk"] == pytest.approx(exact.best_epoch().risk, rel=1e-13)
        assert curve["limit"]["risk"] == pytest.approx(float(exact.limit().risk.total), rel=1e-13)
        assert curve["converges"] is True
    assert found["problem"]["n"] == 30


def test_simulated_runs_come_with_standard_errors(capsys):
    line = f"{DRAWN} --alpha 0.2 --batches 2 --simulate 100"
    (curve,) = answer(capsys, line)["curves"]
    result = rs.simulate(
        WIDE, rs.RandomReshuffling(batches=2), 0.1, epochs=np.arange(41), runs=100, seed=3, fresh_noise=True
    )
    error = result.expected_risk.standard_error
    np.testing.assert_array_equal(curve["simulated_risk"]["mean"], result.risk.mean)
    np.testing.assert_array_equal(curve["simulated_run_risk"]["standard_error"], error)
    assert (
        shown(capsys, line, "--csv", "-")
        .splitlines()[0]
        .endswith(
            ",simulated_run_risk,simulated_run_risk_standard_error,simulated_risk,simulated_risk_standard_error"
        )
    )
    text, best = shown(capsys, line), curve["best_epoch"]["epoch"]
    assert "simulated run" in text
    at = int(min(best, 40)) if best != "inf" else 40
    assert f"± {2 * result.risk.standard_error[at]:.2g}" in text


def test_what_diverges_is_inf_and_says_from_which_step(capsys):
    (curve,) = answer(capsys, f"{DRAWN} --alpha 5 --batches 1")["curves"]
    threshold = float(rs.critical_step(WIDE, rs.FullBatch()))
    said = f"full batch: this step diverges; stay below {threshold:.4g}.\n"
    assert said in shown(capsys, f"{DRAWN} --alpha 5 --batches 1")
    assert "diverges" not in shown(capsys, f"{DRAWN} --alpha 0.2 --batches 1")
    # Where drawn orders tell of the divergence, there is no word of budgets.
    drawn = "curve --n 60 --p 5 --step 9 --batch-size 2 --scheme sample-reshuffling --epochs 20"
    said = "30 batches, sample reshuffling: this step diverges; reshuffle stability prints the largest step"
    assert said in shown(capsys, drawn)
    assert curve["converges"] is False
    assert curve["limit"]["risk"] == curve["limit"]["distance_from_minimum_norm"] == "inf"
    far = shown(capsys, "curve --n 100 --p 20 --alpha 30 --batches 4 --csv -")
    assert far.splitlines()[-1].endswith(",inf,0.0")


def test_covariances(capsys):
    diagonal, matrix = np.arange(1, 46) ** -1.5, [[2.0, 0.5], [0.5, 1.0]]
    np.save("file.npy", diagonal)
    np.savez("file.npz", covariance=diagonal)
    np.savetxt("file.csv", diagonal)
    np.savetxt("sigma.csv", matrix, delimiter=",")
    # The power law is normalised to the trace of the identity, so that the signal is as large as there.
    given = {"powerlaw:1.5": diagonal * 45 / diagonal.sum()} | dict.fromkeys(
        ("file.npy", "file.npz", "file.csv"), diagonal
    )
    for name, values in given.items():
        (curve,) = answer(capsys, f"{DRAWN} --alpha 0.2 --batches 2 --covariance {name}")["curves"]
        problem = rs.gaussian(30, 45, covariance=values, noise=0.5, seed=3)
        exact = rs.descend(problem, rs.RandomReshuffling(batches=2), alpha=0.2).risk(np.arange(41)).total
        np.testing.assert_allclose(curve["risk"]["total"], exact, rtol=1e-10)
    found = answer(capsys, "curve --n 9 --p 2 --alpha 0.1 --covariance sigma.csv")
    exact = rs.descend(rs.gaussian(9, 2, covariance=matrix), rs.FullBatch(), alpha=0.1).limit().risk.total
    assert found["curves"][0]["limit"]["risk"] == pytest.approx(float(exact), rel=1e-12)
    for exponent in ("0", "1.5", "-3", "400", "1e308"):
        values = covariance_of(f"powerlaw:{exponent}", 50)
        assert values.sum() == pytest.approx(50)
        assert np.isfinite(values).all()


# ------------------------------------------------------------------------------------------------ what is not exact


def test_exact_stands_only_over_exact_answers(capsys):
    exact = shown(capsys, f"{SMALL} --alpha 0.2")
    assert exact.splitlines()[0] == "n = 30, p = 12, noise 0.5: exact, no training"
    assert "±" not in exact
    line = f"{SMALL} --alpha 0.9 --scheme sample-reshuffling --batches 10 --rtol 1e-2"
    sampled = shown(capsys, line)
    assert sampled.splitlines()[0] == "n = 30, p = 12, noise 0.5: no training; ± where not exact"
    assert "sampled" in sampled
    assert "99 of 100 seeds" in sampled


def test_the_error_of_a_sampled_answer_is_the_library_s(capsys):
    # So small a budget that the exact answer, which is known here, has to be estimated.
    line = f"{SMALL} --alpha 0.9 --scheme sample-reshuffling --batches 4 --rtol 1e-2 --budget 1e4"
    (found,) = answer(capsys, line)["curves"]
    scheme, when = rs.SampleReshuffling(batches=4), np.arange(21)
    library = rs.descend(TALL, scheme, alpha=0.9, rtol=1e-2, budget=1e4, seed=3)
    assert found["method"] == library.method == "sampling"
    np.testing.assert_allclose(found["risk"]["error"], library.risk(when).error, rtol=1e-9)
    assert max(found["risk"]["error"]) > 0
    assert max(found["training_loss_error"]) > 0
    # The error of the loss covers that of the iterate.
    exact = rs.descend(TALL, scheme, alpha=0.9)
    assert exact.method == "exact"
    difference = np.abs(np.array(found["training_loss"]) - exact.training_loss(when))
    assert (difference <= np.array(found["training_loss_error"]) + 1e-12).all()


def test_advice_names_options_that_exist(capsys):
    line = f"{SMALL} --alpha 0.9 --scheme sample-reshuffling --batches 10 --budget 1e6 --rtol 1e-9"
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        outcome = run(capsys, line)
    assert outcome.code == 0, outcome.err
    assert "but --rtol is 1e-09" in outcome.err
    assert "a larger --budget, a larger --rtol or a smaller step" in outcome.err


@pytest.mark.slow
def test_the_risk_of_one_run_stands_beside_that_of_the_mean(capsys):
    library = rs.descend(TALL, rs.RandomReshuffling(batches=3), alpha=0.5)
    there = float(library.expected_risk(library.best_epoch().epoch).total)
    line = f"{SMALL} --alpha 0.5 --batches 1,3"
    full, found = answer(capsys, line)["curves"]
    assert found["run_risk_at_best_epoch"]["total"] == pytest.approx(there, rel=1e-10)
    assert found["run_risk"] is None
    assert full["run_risk_at_best_epoch"]["spread"] == pytest.approx(0.0, abs=1e-12)
    assert f"{there:.6g}" in shown(capsys, line)
    # With the mean square, at every epoch, and whether runs converge.
    _, found = answer(capsys, line, "--mean-square")["curves"]
    exact = library.expected_risk(np.arange(21)).total
    np.testing.assert_allclose(found["run_risk"]["total"], exact, rtol=1e-9)
    assert found["mean_square"]["converges"] is True
    assert found["mean_square"]["rate"] == pytest.approx(library.mean_square_stability().rate, rel=1e-9)
    assert ",run_risk,run_risk_error," in shown(capsys, line, "--mean-square", "--csv", "-").splitlines()[0]
    assert "runs converge" in shown(capsys, line, "--mean-square")


def test_where_a_search_would_be_long_the_best_epoch_is_of_those_shown_and_says_so(capsys, monkeypatch):
    monkeypatch.setattr(rs.Run, "best_epoch_operations", math.inf)
    line = f"{SMALL} --alpha 0.1 --scheme cyclic --batches 3"
    said = "3 batches, cyclic: the best epoch is that of the epochs shown and the limit."
    assert said in shown(capsys, line)
    (found,) = answer(capsys, line)["curves"]
    assert found["best_epoch"]["error"] is None
    assert found["best_epoch"]["risk"] == min([*found["risk"]["total"], found["limit"]["risk"]])


@for_all(
    "options, scheme, recipe",
    [
        ("--momentum 0.5 --batches 3", rs.RandomReshuffling(batches=3), {"momentum": 0.5}),
        ("--penalty 0.1 --batches 3", rs.RandomReshuffling(batches=3), {"penalty": 0.1}),
        ("--batch-size 8", rs.RandomReshuffling(batch_size=8), {}),
        (
            "--batch-size 8 --drop-last --scheme sample-reshuffling",
            rs.SampleReshuffling(batch_size=8, drop_last=True),
            {},
        ),
        ("--batch-size 8 --scheme with-replacement", rs.WithReplacement(batch_size=8), {}),
        ("--batch-size 8 --scheme sample-with-replacement", rs.SampleWithReplacement(batch_size=8), {}),
        ("--batches 3 --scheme sample-with-replacement", rs.SampleWithReplacement(batch_size=10), {}),
        ("--batches 3 --scheme sample-subsets", rs.SampleSubsets(batch_size=10), {}),
        ("--batch-size 30", rs.FullBatch(), {}),
        ("--batch-size 30 --scheme sample-subsets", rs.FullBatch(), {}),
    ],
)
def test_recipes_are_the_library_s(capsys, options, scheme, recipe):
    (found,) = answer(capsys, f"{SMALL} --step 0.05 {options}")["curves"]
    library = rs.descend(TALL, scheme, step=0.05, **recipe)
    assert found["batches"] == scheme.steps(30)
    np.testing.assert_allclose(found["risk"]["total"], library.risk(np.arange(21)).total, rtol=1e-9)
    assert found["best_epoch"]["risk"] == pytest.approx(library.best_epoch().risk, rel=1e-9)


def test_what_has_no_bound_on_its_error_is_unknown():
    assert uncertain(9.18, math.inf) == "unknown"
    assert uncertain(9.18, 30.0) == "9 ± 30"
    assert uncertain(0.0, 0.25) == "0.00 ± 0.25"
    assert uncertain(math.inf, math.inf) == "inf"


def test_a_table_a_sketch_and_files(capsys):
    text = shown(
        capsys, f"{DRAWN} --alpha 0.2 --simulate 10 --plot curve.png --csv curve.csv --json curve.json"
    )
    headings = ("best epoch", "risk there", "risk of one run", "limit", "converges")
    for word in (*headings, "full-batch", "reshuffling", "4 batches", "epochs"):
        assert word in text
    assert any(0x2800 < ord(sign) < 0x2900 for sign in text)
    run_ = rs.descend(WIDE, rs.RandomReshuffling(batches=4), alpha=0.2)
    assert f"{run_.best_epoch().risk:.6g}" in text
    assert all(Path(name).stat().st_size > 10_000 for name in ("curve.png", "curve.json"))
    header, *rows = csv.reader(Path("curve.csv").read_text().splitlines())
    assert ",".join(header).startswith(
        "scheme,batches,epoch,risk,risk_error,frozen,bias,cross,variance,training_loss,training_loss_error"
    )
    assert len(rows) == 3 * 41
    assert float(rows[-1][3]) == pytest.approx(float(run_.risk(40).total), rel=1e-13)
    # Far epochs are spaced logarithmically, and what a recipe adds is told in the title and in torch's words.
    line = "curve --n 20 --p 10 --alpha 0.1 --momentum 0.5 --penalty 0.1 --batches 2 --epochs 1000000000"
    found = answer(capsys, f"{line} --plot far.svg")
    epochs = found["curves"][0]["epochs"]
    assert (epochs[0], epochs[-1]) == (0, 1e9)
    assert len(epochs) < 1002
    assert found["recipe"] == {"momentum": 0.5, "weight_decay": 0.1}
    title = "n = 30, p = 12, noise 0.5, momentum 0.5, weight decay 0.1: exact, no training"
    line = f"{SMALL} --alpha 0.1 --momentum 0.5 --penalty 0.1 --batches 2"
    assert shown(capsys, line).startswith(title)


def test_what_cannot_be_answered_says_why(capsys, monkeypatch):
    def refuse(*_, **__):
        raise BudgetError("it would take a year; try something else.")

    monkeypatch.setattr(rs.Run, "expected_risk", refuse)
    monkeypatch.setattr(rs.Run, "mean_square_stability", refuse)
    assert shown(capsys, f"{SMALL} --alpha 0.5 --batches 3 --mean-square --csv -")
    text = shown(capsys, f"{SMALL} --alpha 0.5 --batches 1,3")
    assert "full batch, 3 batches: it would take a year." in text
