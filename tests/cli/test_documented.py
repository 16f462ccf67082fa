"""Every command that the documentation shows works as shown."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.cli.terminal import run

ROOT = Path(__file__).parents[2]
COMMAND = re.compile(
    r"^ {4}reshuffle ((?:advise|curve|sweep|stability|limits|spectrum) [^#|\n]*)", re.MULTILINE
)
SHOWN = [
    line.strip()
    for page in ("README.md", "docs/command_line.md")
    for line in COMMAND.findall((ROOT / page).read_text(encoding="utf-8"))
]


def test_there_are_commands():
    assert len(SHOWN) > 9


@pytest.mark.slow
@pytest.mark.parametrize("line", SHOWN)
def test_a_documented_command_works(capsys, tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("mine.csv", "other.csv"):
        np.savetxt(name, rng.standard_normal((40, 4)), delimiter=",", header="a,price,b,c", comments="")
    outcome = run(capsys, *shlex.split(line))
    assert outcome.code == 0, outcome.err
    assert outcome.err == ""
    assert outcome.out


def test_the_advice_for_diabetes_is_that_of_the_documentation(capsys, tmp_path, monkeypatch):
    from sklearn.datasets import load_diabetes

    monkeypatch.setenv("COLUMNS", "300")
    path = tmp_path / "diabetes.csv"
    load_diabetes(as_frame=True, scaled=False).frame.to_csv(path, index=False)
    outcome = run(capsys, "advise", "--data", str(path), "--target", "target")
    page = (ROOT / "docs/command_line.md").read_text(encoding="utf-8")
    said = re.findall("^(?:> )?(Train with .*)$", page, re.MULTILINE)
    assert len(said) == 1
    assert said[0] in outcome.out


def test_the_options_of_the_documentation_exist(capsys):
    known = "".join(
        run(capsys, command, "--help").out
        for command in ("curve", "advise", "sweep", "stability", "limits", "reproduce")
    )
    page = (ROOT / "docs/command_line.md").read_text(encoding="utf-8")
    options = {option.rstrip("-") for option in re.findall(r"`(--[a-z-]+)", page)}
    assert len(options) > 15
    assert [option for option in sorted(options) if option not in known] == []
