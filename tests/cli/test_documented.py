"""Every command that the documentation shows works as shown, on a real table and in bounded work."""

import itertools
import re
from importlib import import_module
from pathlib import Path

import pytest

from tests.cli.terminal import run
from tests.counted import TooMuchWork, at_most

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"(?:^ {4}|`)reshuffle ([a-z]+(?: [^`#|\n]*)?)", re.MULTILINE)
SHOWN = list(
    dict.fromkeys(
        line.strip() for page in PAGES for line in COMMAND.findall(page.read_text(encoding="utf-8"))
    )
)
EXEMPT = {
    "explore": "it serves a page until it is ended: tests/page starts it",
    "reproduce": "it takes minutes at the sizes of the paper: tests/reproduction runs every figure at small ones",
    "sweep --data mine.csv --batch-size 16,64,256 --step auto --out grid --scheduler tcp://scheduler:8786": (
        "it needs a cluster: tests/grid/test_cluster.py has one"
    ),
}
COMMANDS = {"curve", "advise", "sweep", "stability", "influence", "limits", "spectrum"}
NAMED = {*COMMANDS, "completion bash", "limits --one-pass"}
"""What is named in a sentence or a table, without the options that a problem needs."""
RUN = [line for line in SHOWN if line not in NAMED and line not in EXEMPT and line.split()[0] not in EXEMPT]

LIBRARIES = ("matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg", "xarray", "rich.table")
MOST_EVENTS = 15_000_000
"""Calls and returns of functions that a command may take, imports left out. The largest, the sweep of the
documentation, takes 10 million; with ten refits for every point it took 27 million."""


def test_there_are_commands():
    assert len(RUN) > 15
    assert {line.split()[0] for line in RUN} == COMMANDS


def test_what_is_exempt_is_in_the_documentation():
    assert [line for line in EXEMPT if line not in SHOWN] == []
    assert [line for line in NAMED if line not in SHOWN] == []


def test_what_goes_on_for_ever_is_ended():
    with pytest.raises(TooMuchWork), at_most(1000):
        # Calls that a loop of C makes are not counted: those of a generator are.
        all(len(letter) for letter in itertools.repeat("x"))


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """The 442 rows of diabetes, under the names of columns that the commands use, and some of them held out."""
    from sklearn.datasets import load_diabetes

    # Imports are no part of the work that is counted: which command loads a library first is chance.
    for name in (*LIBRARIES, "reshuffle.grid.sweep", "reshuffle.planning", "reshuffle.asymptotics"):
        import_module(name)
    frame = load_diabetes(as_frame=True, scaled=False).frame
    frame = frame.rename(columns={"target": "price", "age": "a", "sex": "c"})
    monkeypatch.chdir(tmp_path)
    frame.to_csv("mine.csv", index=False)
    frame[::4].to_csv("other.csv", index=False)


@pytest.mark.slow
@pytest.mark.parametrize("line", RUN)
def test_a_documented_command_works(capsys, tables, line):
    with at_most(MOST_EVENTS):
        outcome = run(capsys, line)
    assert outcome.code == 0, outcome.err
    assert outcome.err == ""
    assert outcome.out


def test_the_advice_for_diabetes_is_that_of_the_documentation(capsys, tmp_path, monkeypatch):
    from sklearn.datasets import load_diabetes

    monkeypatch.setenv("COLUMNS", "300")
    path = tmp_path / "diabetes.csv"
    load_diabetes(as_frame=True, scaled=False).frame.to_csv(path, index=False)
    outcome = run(capsys, f"advise --data {path} --target target")
    page = (ROOT / "docs/command_line.md").read_text(encoding="utf-8")
    said = re.findall("^(?:> )?(Train with .*)$", page, re.MULTILINE)
    assert len(said) == 1
    assert said[0] in outcome.out


def test_the_options_of_the_documentation_exist(capsys):
    known = "".join(run(capsys, f"{command} --help").out for command in (*COMMANDS, "reproduce"))
    page = (ROOT / "docs/command_line.md").read_text(encoding="utf-8")
    options = {option.rstrip("-") for option in re.findall(r"`(--[a-z-]+)", page)}
    assert len(options) > 15
    assert [option for option in sorted(options) if option not in known] == []
