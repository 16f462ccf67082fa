"""`reshuffle curve`: the numbers it prints are the library's."""

import csv
import io
import json

import numpy as np
import pytest

import reshuffle as rs
from tests.cli.terminal import run

DRAWN = ("curve", "--n", "30", "--p", "45", "--noise", "0.5", "--seed", "3", "--epochs", "40")


def answer(capsys, *arguments):
    outcome = run(capsys, *arguments, "--json", "-")
    assert outcome.code == 0, outcome.err
    assert outcome.err == ""
    return json.loads(outcome.out)


def test_the_json_holds_the_library_s_numbers(capsys):
    found = answer(
        capsys, *DRAWN, "--alpha", "0.2", "--batches", "1,3", "--scheme", "reshuffling,with-replacement"
    )
    problem = rs.gaussian(30, 45, noise=0.5, seed=3)
    expected = [
        ("full-batch", rs.FullBatch()),
        ("reshuffling", rs.RandomReshuffling(batches=3)),
        ("with-replacement", rs.WithReplacement(batches=1)),
        ("with-replacement", rs.WithReplacement(batches=3)),
    ]
    assert [(c["scheme"], c["batches"]) for c in found["curves"]] == [(n, s.batches) for n, s in expected]
    for curve, (_, scheme) in zip(found["curves"], expected, strict=True):
        exact = rs.descend(problem, scheme, alpha=0.2)
        when = np.arange(41)
        assert curve["epochs"] == when.tolist()
        assert curve["step"] == 0.2 / scheme.batches
        for part in ("total", "frozen", "bias", "cross", "variance"):
            np.testing.assert_allclose(curve["risk"][part], getattr(exact.risk(when), part), rtol=1e-13)
        np.testing.assert_allclose(curve["training_loss"], exact.training_loss(when), rtol=1e-10)
        assert curve["best_epoch"]["epoch"] == exact.best_epoch().epoch
        assert curve["best_epoch"]["risk"] == pytest.approx(exact.best_epoch().risk, rel=1e-13)
        assert curve["limit"]["risk"] == pytest.approx(float(exact.limit().risk.total), rel=1e-13)
        assert curve["converges"] is True
    assert found["problem"]["n"] == 30


def test_the_csv_has_its_header_and_every_epoch(capsys):
    outcome = run(capsys, *DRAWN, "--step", "0.05", "--batches", "2", "--csv", "-")
    header, *rows = csv.reader(io.StringIO(outcome.out))
    assert header == [
        "scheme",
        "batches",
        "epoch",
        "risk",
        "risk_error",
        "frozen",
        "bias",
        "cross",
        "variance",
        "training_loss",
        "training_loss_error",
    ]
    assert len(rows) == 41
    risk = rs.descend(
        rs.gaussian(30, 45, noise=0.5, seed=3), rs.RandomReshuffling(batches=2), step=0.05
    ).risk(40)
    assert float(rows[-1][3]) == pytest.approx(float(risk.total), rel=1e-13)


def test_simulated_runs_come_with_standard_errors(capsys):
    arguments = (*DRAWN, "--alpha", "0.2", "--batches", "2", "--simulate", "100")
    (curve,) = answer(capsys, *arguments)["curves"]
    result = rs.simulate(
        rs.gaussian(30, 45, noise=0.5, seed=3),
        rs.RandomReshuffling(batches=2),
        step=0.1,
        epochs=np.arange(41),
        runs=100,
        seed=3,
        fresh_noise=True,
    )
    np.testing.assert_array_equal(curve["simulated_risk"]["mean"], result.risk.mean)
    np.testing.assert_array_equal(
        curve["simulated_run_risk"]["standard_error"], result.expected_risk.standard_error
    )
    header = run(capsys, *arguments, "--csv", "-").out.splitlines()[0]
    assert header.endswith(
        "training_loss_error,simulated_run_risk,simulated_run_risk_standard_error,simulated_risk,simulated_risk_standard_error"
    )


def test_what_diverges_is_inf_and_strict_json(capsys):
    outcome = run(capsys, *DRAWN, "--alpha", "5", "--batches", "1", "--json", "-")
    (curve,) = json.loads(outcome.out, parse_constant=pytest.fail)["curves"]
    assert curve["converges"] is False
    assert curve["limit"]["risk"] == "inf"
    assert curve["limit"]["distance_from_minimum_norm"] == "inf"
    far = run(capsys, "curve", "--n", "100", "--p", "20", "--alpha", "30", "--batches", "4", "--csv", "-")
    assert far.err == ""
    assert far.out.splitlines()[-1].endswith(",inf,0.0")


def test_a_reader_sees_a_table_and_a_sketch(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    outcome = run(capsys, *DRAWN, "--alpha", "0.2")
    assert outcome.code == 0
    for word in (
        "best epoch",
        "risk there",
        "limit",
        "converges",
        "full-batch",
        "reshuffling",
        "4 batches",
        "epochs",
    ):
        assert word in outcome.out
    assert any(0x2800 < ord(sign) < 0x2900 for sign in outcome.out)
    best = rs.descend(
        rs.gaussian(30, 45, noise=0.5, seed=3), rs.RandomReshuffling(batches=4), alpha=0.2
    ).best_epoch()
    assert f"{best.risk:.6g}" in outcome.out


def test_files_are_written(capsys, tmp_path):
    targets = {kind: tmp_path / f"curve.{kind}" for kind in ("png", "csv", "json")}
    outcome = run(
        capsys,
        *DRAWN,
        "--alpha", "0.2", "--simulate", "10",
        "--plot", str(targets["png"]), "--csv", str(targets["csv"]), "--json", str(targets["json"]),
    )  # fmt: skip
    assert outcome.code == 0
    assert targets["png"].stat().st_size > 10_000
    assert len(json.loads(targets["json"].read_text())["curves"]) == 3
    assert len(targets["csv"].read_text().splitlines()) == 1 + 3 * 41


def test_far_epochs_are_spaced_logarithmically(capsys, tmp_path):
    (curve,) = answer(
        capsys, "curve", "--n", "20", "--p", "10", "--alpha", "0.1", "--batches", "2",
        "--epochs", "1000000000", "--plot", str(tmp_path / "far.svg"),
    )["curves"]  # fmt: skip
    assert curve["epochs"][0] == 0
    assert curve["epochs"][-1] == 1e9
    assert len(curve["epochs"]) < 1002


@pytest.mark.parametrize("covariance", ["powerlaw:1.5", "file.npy", "file.npz", "file.csv"])
def test_covariances(capsys, tmp_path, monkeypatch, covariance):
    monkeypatch.chdir(tmp_path)
    diagonal = np.arange(1, 46) ** -1.5
    np.save("file.npy", diagonal)
    np.savez("file.npz", covariance=diagonal)
    np.savetxt("file.csv", diagonal)
    (curve,) = answer(capsys, *DRAWN, "--alpha", "0.2", "--batches", "2", "--covariance", covariance)[
        "curves"
    ]
    if covariance == "powerlaw:1.5":
        # Normalised to the trace of the identity, so that the signal is as large as there.
        diagonal *= 45 / diagonal.sum()
    problem = rs.gaussian(30, 45, covariance=diagonal, noise=0.5, seed=3)
    exact = rs.descend(problem, rs.RandomReshuffling(batches=2), alpha=0.2).risk(np.arange(41)).total
    np.testing.assert_allclose(curve["risk"]["total"], exact, rtol=1e-10)


def test_a_matrix_as_covariance(capsys, tmp_path):
    np.savetxt(tmp_path / "sigma.csv", [[2.0, 0.5], [0.5, 1.0]], delimiter=",")
    found = answer(
        capsys, "curve", "--n", "9", "--p", "2", "--alpha", "0.1", "--covariance", str(tmp_path / "sigma.csv")
    )
    problem = rs.gaussian(9, 2, covariance=[[2.0, 0.5], [0.5, 1.0]])
    exact = rs.descend(problem, rs.FullBatch(), alpha=0.1).limit().risk.total
    assert found["curves"][0]["limit"]["risk"] == pytest.approx(float(exact), rel=1e-12)
