"""`reshuffle stability` and `reshuffle limits`."""

import json

import numpy as np
import pytest

import reshuffle as rs
from reshuffle import asymptotics
from tests.cli.terminal import run


def answer(capsys, *arguments):
    outcome = run(capsys, *arguments, "--json", "-")
    assert outcome.code == 0, outcome.err
    assert outcome.err == ""
    return json.loads(outcome.out)


def test_the_largest_steps_on_data_are_the_library_s(capsys):
    found = answer(
        capsys,
        "stability",
        "--n",
        "24",
        "--p",
        "30",
        "--batches",
        "1,2,3",
        "--scheme",
        "reshuffling,with-replacement",
    )["thresholds"]
    problem = rs.gaussian(24, 30)
    assert [(one["name"], one["batches"]) for one in found[:3]] == [
        ("full-batch", 1),
        ("reshuffling", 2),
        ("reshuffling", 3),
    ]
    assert found[2]["step"] == pytest.approx(
        rs.critical_step(problem, rs.RandomReshuffling(batches=3), mean_square=False), rel=1e-8
    )
    assert found[2]["alpha"] == pytest.approx(3 * found[2]["step"])
    assert found[-1]["step"] == pytest.approx(
        rs.critical_step(problem, rs.WithReplacement(batches=3), mean_square=False), rel=1e-8
    )


def test_the_largest_steps_in_the_limit(capsys):
    found = answer(capsys, "stability", "--aspect", "1.5", "--batches", "1,2")["thresholds"]
    assert found[0]["alpha"] == pytest.approx(2 / (1 + 1.5**0.5) ** 2, rel=1e-8)
    assert found[1]["alpha"] == pytest.approx(asymptotics.critical_alpha(1.5, 2), rel=1e-8)


@pytest.mark.slow
def test_the_table_and_the_files_of_stability(capsys, tmp_path):
    arguments = ("stability", "--n", "24", "--p", "30", "--batches", "1,2,3")
    outcome = run(capsys, *arguments, "--plot", str(tmp_path / "stability.svg"))
    assert outcome.code == 0
    assert "converges up to" in outcome.out
    assert (tmp_path / "stability.svg").read_text().startswith("<?xml")
    assert (
        run(capsys, *arguments, "--csv", "-").out.splitlines()[0] == "scheme,batches,step,alpha,error,reason"
    )


def test_learning_curves_in_the_limit_are_the_library_s(capsys):
    found = answer(
        capsys,
        "limits",
        "--aspect",
        "1.5",
        "--alpha",
        "0.2",
        "--noise",
        "0.5",
        "--batches",
        "1,2",
        "--epochs",
        "50",
    )["curves"]
    for one, batches in zip(found, (1, 2), strict=True):
        exact = asymptotics.learning_curve(1.5, 0.2, batches, noise=0.5)
        np.testing.assert_allclose(one["risk"]["total"], exact.risk(np.arange(51)).total, rtol=1e-9)
        assert one["best_epoch"]["epoch"] == exact.best_epoch().epoch
        assert one["limit"] == pytest.approx(float(exact.limit().total), rel=1e-9)
        assert one["converges"] is True


@pytest.mark.slow
def test_the_table_and_the_files_of_limits(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    arguments = ("limits", "--aspect", "0.5", "--alpha", "0.3", "--batches", "1,2", "--epochs", "20")
    outcome = run(capsys, *arguments, "--plot", str(tmp_path / "limits.png"))
    assert outcome.code == 0
    assert "risk there" in outcome.out
    lines = run(capsys, *arguments, "--csv", "-").out.splitlines()
    assert lines[0] == "batches,epoch,risk,frozen,bias,cross,variance"
    assert len(lines) == 1 + 2 * 21


def test_beyond_convergence_the_limit_is_inf(capsys):
    (found,) = answer(
        capsys, "limits", "--aspect", "1.5", "--alpha", "0.5", "--batches", "1", "--epochs", "5"
    )["curves"]
    assert found["converges"] is False
    assert found["limit"] == "inf"
