"""Tables keep every column at every width; sketches show every curve."""

import re

import numpy as np
import pytest
from rich.console import Console

from reshuffle.cli import render
from reshuffle.cli.sketch import Series, sketch
from tests.cli.terminal import run
from tests.looped import for_all

HEADINGS = ["scheme", "batches", "step", "best epoch shown", "held-out loss there", "limit to min-norm"]
ROWS = [
    ["sample-reshuffling", "16", "0.0125", "113", "12345.6 ± 0.12", "1.23e-05"],
    ["full-batch", "1", "0.2", "7", "0.574", "0.5"],
]


def dots(text):
    """The cells of a sketch, without ticks and axes."""
    return [line.partition("│")[2] for line in str(text).splitlines() if "│" in line]


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


@for_all("top", [2.254e276, 1.7e308, 1e-300])
def test_the_axis_stands_straight_however_long_its_numbers_are(top):
    text = str(sketch([Series("grows", np.arange(5.0), np.geomspace(top / 1e7, top, 5))], "x", "y", 60))
    columns = {line.index("│") for line in text.splitlines() if "│" in line}
    assert len(columns) == 1
    assert f"{top:.4g} │" in text
    assert max(map(len, text.splitlines())) <= 60


def table(headings, rows, keys, width):
    """The lines that a terminal of this width shows."""
    console = Console(width=width, highlight=False)
    with console.capture() as shown:
        for one in render.tables([headings, *rows], keys, width):
            console.print(one, soft_wrap=True)
    return [line.rstrip() for line in shown.get().splitlines()]


def words(lines):
    return re.findall(r"[^\s─]+", "\n".join(lines))


@for_all("width", [30, 40, 60, 80, 120])
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


def drawn(y, x=None, width=60, **settings):
    x = np.arange(float(len(y))) if x is None else x
    return str(sketch([Series("line", x, np.asarray(y, dtype=float))], "x", "y", width, **settings))


def test_a_sketch_shows_what_it_is_given():
    falling = dots(drawn(-np.arange(5.0)))
    assert falling[0].startswith(falling[0].strip(" ")[0])
    assert falling[-1].rstrip(" ") == falling[-1]
    ends = [len(line.rstrip(" ")) for line in falling]
    assert ends == sorted(ends)
    # What spans many orders is logarithmic, and zero can be asked for.
    assert "(logarithmic)" in drawn(10.0 ** np.arange(5))
    straight = drawn(10.0 ** np.arange(5), from_zero=True)
    assert "(logarithmic)" not in straight
    assert "\n        0 │" in straight
    # Gaps, infinities, constants and single points are drawn as they are.
    assert any(line.strip() for line in dots(drawn([1.0, 2.0, np.nan, np.inf, 1.0])))
    for alone in (np.zeros(3), [1.0]):
        assert sum(bool(line.strip()) for line in dots(drawn(alone))) == 1
    assert "nothing finite" in drawn([np.inf, np.inf])
    # A mark is never put into a gap.
    x = np.linspace(0.0, 1.0, 101)
    gap, none = np.where(np.abs(x - 0.5) < 0.3, np.nan, 1.0), np.full(101, np.nan)
    lines = dots(sketch([Series("gap", x, gap), Series("none", x, none)], "x", "y", 71))
    assert not any(line[14:46].strip() for line in lines)
    # On a straight axis all but the last points would share the first cell.
    far = drawn(np.linspace(1.0, 0.0, 201), np.concatenate([[0.0], np.geomspace(1, 1e9, 200)]), far=True)
    assert "x (logarithmic)" in far
    assert sum(bool(line[:3].strip()) for line in dots(far)) < 5


def test_tables_fold_what_does_not_fit_and_cut_nothing():
    narrow, middle, wide = (table(HEADINGS, ROWS, 2, width) for width in (60, 80, 120))
    assert [sum(line.startswith("sample-reshuffling") for line in lines) for lines in (narrow, wide)] == [
        2,
        1,
    ]
    assert len([line for line in narrow if set(line) == {"─"}]) == 2
    assert any("best epoch shown" in line for line in wide)
    assert not any("best epoch shown" in line for line in middle)
    long = " ".join(f"word{k}" for k in range(30))
    lines = table(["scheme", "reason"], [["cyclic", long]], 1, 40)
    assert max(map(len, lines)) <= 40
    assert [word for word in words(lines) if word.startswith("word")] == long.split()
    lines = table(["", "law"], [["support", "[0, 1]\n[2, 3]"], ["atoms", "none"]], 1, 40)
    assert lines[-3:] == ["support  [0, 1]", "         [2, 3]", "atoms      none"]
