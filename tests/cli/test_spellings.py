"""Options: former spellings, short names, groups, and the same outputs for every command."""

import json

import pytest

from tests.cli.terminal import run

CURVE = ("curve", "--n", "12", "--p", "4", "--step", "0.05", "-b", "2", "-e", "5", "--json", "-")
COMMANDS = ("curve", "advise", "sweep", "stability", "limits", "spectrum")


@pytest.mark.parametrize(
    ("former", "present"),
    [
        ((*CURVE, "--penalty=0.3"), (*CURVE, "--weight-decay=0.3")),
        (
            ("limits", "--one-pass", "--step-size", "0.1", "--steps", "5", "--features", "9", "--json", "-"),
            ("limits", "--one-pass", "--step", "0.1", "--steps", "5", "--features", "9", "--json", "-"),
        ),
        (
            (
                "limits",
                "--aspect",
                "0.5",
                "--alpha",
                "0.1",
                "-b",
                "1",
                "--covariance",
                "power:1:9",
                "-e",
                "3",
                "--json",
                "-",
            ),
            (
                "limits",
                "--aspect",
                "0.5",
                "--alpha",
                "0.1",
                "-b",
                "1",
                "--covariance",
                "powerlaw:1:9",
                "-e",
                "3",
                "--json",
                "-",
            ),
        ),
        (
            ("curve", "--n", "12", "--p", "4", "--alpha", "0.1", "--batches", "2", "-e", "5", "--json", "-"),
            ("curve", "-n", "12", "-p", "4", "-a", "0.1", "-b", "2", "-e", "5", "--json", "-"),
        ),
    ],
)
def test_former_and_short_spellings_give_the_same_answer(capsys, former, present):
    outcome = run(capsys, *present)
    assert outcome.code == 0, outcome.err
    assert run(capsys, *former) == outcome


def test_a_message_has_the_spelling_that_was_typed(capsys):
    assert "--penalty must be" in run(capsys, *CURVE, "--penalty", "-1").err
    assert "--weight-decay must be" in run(capsys, *CURVE, "--weight-decay", "-1").err


def test_json_has_the_words_of_torch(capsys):
    found = json.loads(run(capsys, *CURVE, "--weight-decay", "0.3").out)
    assert found["recipe"] == {"momentum": 0.0, "weight_decay": 0.3}
    assert found["curves"][0]["learning_rate"] == found["curves"][0]["step"] == 0.05


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_the_same_outputs_in_a_group_of_their_own(capsys, command):
    shown = run(capsys, command, "--help").out
    assert "[default: ()]" not in shown
    output = shown.partition("─ Output ─")[2]
    assert all(option in output for option in ("--plot", "--csv", "--json"))


def test_a_sweep_ends_with_its_best_point_and_writes_where_it_is_told(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("reshuffle.cli.render.require_pictures", lambda: None)
    monkeypatch.setattr("reshuffle.cli.render.Answer.picture", Unwritten())
    grid = ("sweep", "-n", "20", "-p", "4", "-b", "1,2", "--step", "0.05,0.1", "-e", "5", "--out", "grid")
    assert "\nBest: batches " in run(capsys, *grid, "--metrics", "risk").out
    found = json.loads(run(capsys, *grid, "--ask", "risk", "--json", "-").out)
    assert found["from_cache"] == 4


class Unwritten:
    """A picture that nobody looks at."""

    def savefig(self, path):
        pass
