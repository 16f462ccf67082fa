"""`reshuffle limits` with --best and --covariance: what the library finds, files, and what is refused."""

import json

import numpy as np
import pytest

from reshuffle import asymptotics
from tests.cli.terminal import run

SETTING = ("limits", "--aspect", "0.5", "--noise", "0.5")


@pytest.mark.slow
def test_best_tells_what_the_library_finds(capsys):
    outcome = run(capsys, *SETTING, "--best", "--budget", "1", "--batches", "1,2", "--json", "-")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    expected = asymptotics.best_recipe(0.5, noise=0.5, batches=[1, 2], epochs=1)
    for recipe, answer in zip(found["recipes"], expected, strict=True):
        assert recipe["risk"] == pytest.approx(answer.risk)
        assert recipe["alpha"] == pytest.approx(answer.alpha)
        assert recipe["error"] == pytest.approx(answer.error)
    assert found["beside"]["Bayes"] == pytest.approx(expected[0].bayes)
    assert found["budget"] == 1


@pytest.mark.slow
def test_best_prints_a_table_and_a_sketch_and_draws(capsys, tmp_path):
    outcome = run(capsys, *SETTING, "--best", "--batches", "1,2", "--plot", str(tmp_path / "best.png"))
    assert outcome.code == 0, outcome.err
    assert "the best recipe of any number of epochs" in outcome.out
    assert "-> 0" in outcome.out
    assert outcome.out.count("best risk") == 0
    assert (tmp_path / "best.png").stat().st_size > 10_000


@pytest.mark.slow
def test_a_covariance_by_name_is_that_of_the_library(capsys, tmp_path):
    recipe = ("--alpha", "0.5", "--batches", "2", "--epochs", "20")
    for text, sigma in (
        ("power:1.2:30", asymptotics.PowerLaw(1.2, 30)),
        ("toeplitz:0.5:20", asymptotics.toeplitz(0.5, 20)),
        ("0.5,1,2", [0.5, 1.0, 2.0]),
    ):
        outcome = run(capsys, *SETTING, *recipe, "--covariance", text, "--json", "-")
        assert outcome.code == 0, outcome.err
        curve = json.loads(outcome.out)["curves"][0]
        expected = asymptotics.risk(0.5, 0.5, 2, curve["epochs"], noise=0.5, covariance=sigma)
        np.testing.assert_allclose(curve["risk"]["total"], expected.total, rtol=1e-9)
    drawn = str(tmp_path / "curve.png")
    outcome = run(capsys, *SETTING, *recipe, "--covariance", "power:1.2:30", "--plot", drawn)
    assert outcome.code == 0, outcome.err
    assert (tmp_path / "curve.png").stat().st_size > 10_000


def test_a_step_beyond_convergence_is_answered(capsys):
    outcome = run(
        capsys, *SETTING, "--alpha", "3", "--batches", "1", "--covariance", "power:1:10", "--epochs", "9"
    )
    assert outcome.code == 0, outcome.err
    assert "inf" in outcome.out or "diverges" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--best --alpha 0.1", "--best finds the step by itself"),
        ("--alpha 0.1 --budget 3", "--budget is for --best"),
        ("--best --budget 0", "--budget must be a whole number of at least 1"),
        ("--best --batches 0", "--batches must be"),
        ("--best --covariance power", "--covariance must be power:A"),
        ("--best --covariance power:x", "--covariance must be power:A"),
        ("--best --covariance power:-1", "covariance must have an exponent >= 0"),
        ("--best --covariance power:30", "within a factor 1e12 of each other"),
        ("--best --covariance power:1:0", "size must be a whole number of at least 1"),
        ("--best --covariance toeplitz:1", "correlation must lie between -1 and 1"),
        ("--best --covariance 1,-2", "covariance must have eigenvalues >= 0"),
        ("--best --signal -1", "signal must be"),
        ("--alpha -1", "alpha must be"),
    ],
)
def test_it_refuses_without_a_traceback(capsys, arguments, message):
    outcome = run(capsys, *SETTING, *arguments.split())
    assert outcome.code == 2
    assert message in " ".join(outcome.err.split())
    assert "Traceback" not in outcome.err
