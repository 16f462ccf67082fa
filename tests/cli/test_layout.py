"""Tables keep every column at every width."""

import re

import pytest

from reshuffle.cli.layout import table
from tests.cli.terminal import run

HEADINGS = ["scheme", "batches", "step", "best epoch shown", "held-out loss there", "limit to min-norm"]
ROWS = [
    ["sample-reshuffling", "16", "0.0125", "113", "12345.6 ± 0.12", "1.23e-05"],
    ["full-batch", "1", "0.2", "7", "0.574", "0.5"],
]


def words(lines):
    return re.findall(r"[^\s─]+", "\n".join(lines))


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120])
def test_nothing_is_lost_and_nothing_is_too_wide(width):
    lines = table(HEADINGS, ROWS, 2, width)
    assert max(map(len, lines)) <= max(width, 45)
    shown = words(lines)
    for row in ROWS:
        for cell in row:
            for word in cell.split():
                assert word in shown
    for heading in HEADINGS:
        assert all(word in shown for word in heading.split())


def test_what_does_not_fit_goes_on_below_with_its_keys():
    lines = table(HEADINGS, ROWS, 2, 60)
    assert sum(line.startswith("sample-reshuffling") for line in lines) == 2
    assert len([line for line in lines if set(line) == {"─"}]) == 2
    assert sum(line.startswith("sample-reshuffling") for line in table(HEADINGS, ROWS, 2, 120)) == 1


def test_headings_fold_only_where_they_must():
    assert any("best epoch shown" in line for line in table(HEADINGS, ROWS, 2, 120))
    assert not any("best epoch shown" in line for line in table(HEADINGS, ROWS, 2, 80))


def test_a_cell_longer_than_the_terminal_is_folded_and_not_cut():
    long = " ".join(f"word{k}" for k in range(30))
    lines = table(["scheme", "reason"], [["cyclic", long]], 1, 40)
    assert max(map(len, lines)) <= 40
    assert [word for word in words(lines) if word.startswith("word")] == long.split()


def test_cells_of_several_lines_stay_beside_their_row():
    lines = table(["", "law"], [["support", "[0, 1]\n[2, 3]"], ["atoms", "none"]], 1, 40)
    assert lines[-3:] == ["support  [0, 1]", "         [2, 3]", "atoms      none"]


@pytest.mark.parametrize("width", ["60", "80"])
@pytest.mark.parametrize(
    "line",
    [
        "curve --n 30 --p 20 --alpha 0.1 --scheme sample-reshuffling,cyclic --simulate 4 --epochs 20",
        "spectrum --aspect 1.5 --alpha 0.2 --batches 1,2",
        "limits --aspect 0.5 --alpha 0.2 --batches 1,2 --epochs 20",
    ],
)
def test_every_command_keeps_within_the_terminal(capsys, monkeypatch, width, line):
    monkeypatch.setenv("COLUMNS", width)
    outcome = run(capsys, *line.split())
    assert outcome.code == 0, outcome.err
    assert max(map(len, outcome.out.splitlines())) <= int(width)
    monkeypatch.setenv("COLUMNS", "200")
    wide = run(capsys, *line.split()).out.partition("\n\n")[2].partition("\n\n")[0]
    # All that the wide table holds is in the narrow one.
    assert set(words(wide.splitlines())) <= set(words(outcome.out.splitlines()))
