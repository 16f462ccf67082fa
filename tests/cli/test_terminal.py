"""Tables keep every column at every width; sketches show every curve."""

import re

import numpy as np
import pytest
from rich.console import Console

from reshuffle.cli import render
from reshuffle.cli.sketch import Series, sketch
from tests.cli.terminal import run

HEADINGS = ["scheme", "batches", "step", "best epoch shown", "held-out loss there", "limit to min-norm"]
ROWS = [
    ["sample-reshuffling", "16", "0.0125", "113", "12345.6 ± 0.12", "1.23e-05"],
    ["full-batch", "1", "0.2", "7", "0.574", "0.5"],
]


def dots(text):
    """The cells of a sketch, without ticks and axes."""
    return [line.partition("│")[2] for line in str(text).splitlines() if "│" in line]


def test_a_falling_line_goes_from_the_upper_left_to_the_lower_right():
    drawing = dots(sketch([Series("line", np.arange(5.0), -np.arange(5.0))], "x", "y", 60))
    assert drawing[0].strip(" ")
    assert drawing[0].startswith(drawing[0].strip(" ")[0])
    assert drawing[-1].rstrip(" ") == drawing[-1]
    ends = [len(line.rstrip(" ")) for line in drawing]
    assert ends == sorted(ends)


def test_what_spans_many_orders_is_logarithmic_and_zero_can_be_asked_for():
    series = [Series("growth", np.arange(5.0), 10.0 ** np.arange(5))]
    assert "(logarithmic)" in str(sketch(series, "x", "y", 60))
    text = str(sketch(series, "x", "y", 60, from_zero=True))
    assert "(logarithmic)" not in text
    assert "\n        0 │" in text


def test_gaps_infinities_and_constants_are_drawn_as_they_are():
    gap = np.array([1.0, 2.0, np.nan, np.inf, 1.0])
    assert any(line.strip() for line in dots(sketch([Series("gap", np.arange(5.0), gap)], "x", "y", 60)))
    flat = dots(sketch([Series("flat", np.arange(3.0), np.zeros(3))], "x", "y", 60))
    assert sum(bool(line.strip()) for line in flat) == 1
    nothing = sketch([Series("none", np.arange(2.0), np.full(2, np.inf))], "x", "y", 60)
    assert "nothing finite" in str(nothing)
    one = sketch([Series("point", np.zeros(1), np.ones(1))], "x", "y", 60)
    assert sum(bool(line.strip()) for line in dots(one)) == 1


def test_curves_are_told_apart_without_colour_even_on_top_of_each_other():
    x = np.linspace(0.0, 1.0, 50)
    series = [Series(name, x, np.sin(3 * x)) for name in ("first", "second", "third")]
    text = str(sketch(series, "x", "y", 60))
    assert text.splitlines()[0] == "o first   x second   + third"
    drawing = "".join(dots(text))
    assert [drawing.count(mark) for mark in "ox+"] == [5, 5, 5]
    alone = str(sketch(series[:1], "x", "y", 60))
    assert "o" not in "".join(dots(alone))


def test_colours_are_the_terminal_s_own_and_never_black():
    x = np.linspace(0.0, 1.0, 50)
    styles = {
        str(span.style)
        for span in sketch([Series(str(k), x, x + k) for k in range(9)], "x", "y", 60).spans
        if span.style
    }
    assert styles <= {"red", "bright_blue", "green", "magenta", "cyan", "dim"}
    assert len(styles) == 6


def test_a_mark_is_never_put_into_a_gap():
    y = np.where(np.abs(np.linspace(0, 1, 101) - 0.5) < 0.3, np.nan, 1.0)
    x = np.linspace(0.0, 1.0, 101)
    lines = dots(sketch([Series("gap", x, y), Series("none", x, np.full(101, np.nan))], "x", "y", 71))
    inside = [line[14:46].strip() for line in lines]
    assert not any(inside)


@pytest.mark.parametrize("top", [2.254e276, 1.7e308, 1e-300])
def test_the_axis_stands_straight_however_long_its_numbers_are(top):
    text = str(sketch([Series("grows", np.arange(5.0), np.geomspace(top / 1e7, top, 5))], "x", "y", 60))
    columns = {line.index("│") for line in text.splitlines() if "│" in line}
    assert len(columns) == 1
    assert f"{top:.4g} │" in text
    assert max(map(len, text.splitlines())) <= 60


def test_far_points_have_an_axis_that_is_logarithmic():
    x = np.concatenate([[0.0], np.geomspace(1, 1e9, 200)])
    text = str(sketch([Series("far", x, np.linspace(1.0, 0.0, 201))], "epochs", "y", 60, far=True))
    assert "epochs (logarithmic)" in text
    # On a straight axis all but the last points would share the first cell.
    assert sum(bool(line[:3].strip()) for line in dots(text)) < 5


def table(headings, rows, keys, width):
    """The lines that a terminal of this width shows."""
    console = Console(width=width, highlight=False)
    with console.capture() as shown:
        for one in render.tables([headings, *rows], keys, width):
            console.print(one, soft_wrap=True)
    return [line.rstrip() for line in shown.get().splitlines()]


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "curve --n 30 --p 20 --alpha 0.1 --scheme sample-reshuffling,cyclic --simulate 4 --epochs 20",
        "spectrum --aspect 1.5 --alpha 0.2 --batches 1,2",
        "limits --aspect 0.5 --alpha 0.2 --batches 1,2 --epochs 20",
    ],
)
def test_every_command_keeps_within_the_terminal(capsys, monkeypatch, line):
    """One answer, shown at three widths: all that the wide table holds is in the narrow ones."""
    found, deliver = [], render.deliver
    with monkeypatch.context() as patch:
        patch.setattr(render, "deliver", lambda *answer: found.append(answer))
        outcome = run(capsys, line)
    assert outcome.code == 0, outcome.err

    def shown(width):
        monkeypatch.setenv("COLUMNS", str(width))
        deliver(*found[0])
        return capsys.readouterr().out

    wide = shown(200).partition("\n\n")[2].partition("\n\n")[0]
    for width in (60, 80):
        narrow = shown(width)
        assert max(map(len, narrow.splitlines())) <= width
        assert set(words(wide.splitlines())) <= set(words(narrow.splitlines()))
