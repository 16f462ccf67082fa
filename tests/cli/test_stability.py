"""`reshuffle stability`: thresholds on data and in the limit, with their errors, or why there is none."""

from pathlib import Path

import pytest

import reshuffle as rs
from reshuffle import asymptotics
from reshuffle.run.critical_steps import CriticalStep
from tests.cli.terminal import answer, run, shown

SAMPLES = "stability --n 24 --p 2 --scheme sample-reshuffling --mean"


def test_the_largest_steps_on_data_are_the_library_s(capsys):
    line = "stability --n 24 --p 30 --batches 1,2,3 --scheme reshuffling,with-replacement --mean"
    found = answer(capsys, line)["thresholds"]
    names = [("full-batch", 1), ("reshuffling", 2), ("reshuffling", 3)]
    assert [(one["name"], one["batches"]) for one in found[:3]] == names
    problem = rs.gaussian(24, 30)
    for one, scheme in (
        (found[2], rs.RandomReshuffling(batches=3)),
        (found[-1], rs.WithReplacement(batches=3)),
    ):
        assert one["step"] == pytest.approx(rs.critical_step(problem, scheme, mean_square=False), rel=1e-8)
        assert one["alpha"] == pytest.approx(3 * one["step"])


def rows_of(text):
    """The rows of shuffled samples in a table."""
    return [line.split() for line in text.splitlines() if line.startswith("sample-reshuffling ")]


@pytest.mark.slow
def test_thresholds_have_their_errors(capsys, monkeypatch):
    known, critical_step = {}, rs.critical_step

    def kept(problem, scheme, **asked):
        known[scheme.batches] = critical_step(problem, scheme, **asked)
        return known[scheme.batches]

    monkeypatch.setattr("reshuffle.grid.metrics.critical_step", kept)
    rows = rows_of(shown(capsys, SAMPLES))
    assert [row[1] for row in rows] == ["2", "4", "8"]
    assert "±" in rows[-1]
    found = answer(capsys, SAMPLES)["thresholds"]
    exact = critical_step(rs.gaussian(24, 2), rs.SampleReshuffling(batches=2), mean_square=False)
    assert found[1]["step"] == pytest.approx(exact, rel=1e-8)
    assert found[2]["step"] == pytest.approx(known[4], rel=1e-8)
    assert found[3]["error"] == pytest.approx(known[8].error, rel=1e-6)


def test_what_is_known_is_printed_and_what_is_not_says_why(capsys, monkeypatch):
    def refuses_eight(problem, scheme, **asked):
        if scheme.batches == 8:
            raise rs.BudgetError("there are 8 batches, but at most 4 are known")
        return CriticalStep(0.5)

    monkeypatch.setattr("reshuffle.grid.metrics.critical_step", refuses_eight)
    text = shown(capsys, SAMPLES)
    assert rows_of(text)[-1][2:] == ["-", "-"]
    assert "sample-reshuffling, 8 batches: " in text
    last = answer(capsys, SAMPLES)["thresholds"][3]
    assert (last["step"], last["alpha"]) == (None, None)
    assert "at most 4" in last["reason"]
    # Without any answer it is an error.
    outcome = run(capsys, f"{SAMPLES} --batches 8")
    assert (outcome.code, outcome.out) == (1, "")
    assert "descend" not in outcome.err


@pytest.mark.slow
def test_single_runs_come_first_and_the_mean_by_name(capsys):
    problem, scheme = rs.gaussian(20, 4), rs.RandomReshuffling(batches=2)
    line = "stability --n 20 --p 4 --batch-size 10"
    for options, asked in {
        "": {"mean_square": True},
        "--mean-square": {"mean_square": True},
        "--mean": {"mean_square": False},
        "--mean --momentum 0.3": {"mean_square": False, "momentum": 0.3},
    }.items():
        told = answer(capsys, f"{line} {options}")
        assert told["mean_square"] == asked["mean_square"]
        expected = rs.critical_step(problem, scheme, **asked)
        assert told["thresholds"][0]["step"] == pytest.approx(expected, rel=1e-5)
    assert "the largest step at which single runs converge in mean square" in shown(capsys, line)
    assert "2% apart" in shown(capsys, f"{line} --mean --momentum 0.3")


@pytest.mark.slow
def test_the_limit_few_rows_the_table_and_the_files(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = answer(capsys, "stability --aspect 1.5 --batches 1,2")["thresholds"]
    assert found[0]["alpha"] == pytest.approx(2 / (1 + 1.5**0.5) ** 2, rel=1e-8)
    assert found[1]["alpha"] == pytest.approx(asymptotics.critical_alpha(1.5, 2), rel=1e-8)
    line = "stability --n 5 --p 3 --mean"
    assert [one["batches"] for one in answer(capsys, line)["thresholds"]] == [1, 2, 4]
    text = shown(capsys, line, "--plot", "stability.svg", "--csv", "stability.csv")
    assert text.startswith("n = 5, p = 3: the largest step at which the mean over all orders converges\n")
    assert Path("stability.svg").read_text().startswith("<?xml")
    assert Path("stability.csv").read_text().startswith("scheme,batches,step,alpha,error,reason\n")
