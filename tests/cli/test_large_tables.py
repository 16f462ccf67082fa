"""Tables that are read in chunks: answers and refusals as of those whose cells are kept, and short messages."""

import numpy as np
import pytest

from reshuffle.cli import advice_data, large_columns
from tests.cli.terminal import run

WORDS = ["red", "green", "blue", "green", "red", "red", "blue", "red"]
HEADER = "a, b,colour,price"
ROWS = [f"{k}.5,{k * k},{WORDS[k]},{3 - k}" for k in range(8)]


@pytest.fixture
def large(monkeypatch):
    """Every file is a large one, and is read three rows at a time."""
    monkeypatch.setattr(large_columns, "LARGE", 0)
    monkeypatch.setattr(large_columns, "_CHUNK", 12)


def written(tmp_path, lines, name="mine.csv"):
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def read(path, drop=(), one_hot=("colour",)):
    return advice_data.read(path, ["price"], drop, one_hot)


@pytest.mark.parametrize(
    "lines",
    [
        [HEADER, *ROWS],
        ["\ufeff" + HEADER, *ROWS[:3], "", *ROWS[3:]],
        [line.replace(",", ";") for line in [HEADER, *ROWS]],
        [HEADER, *(row.replace("red", '"r,\ne""d"') for row in ROWS)],
    ],
)
def test_a_large_table_is_read_as_a_small_one_is(tmp_path, monkeypatch, lines):
    path = written(tmp_path, lines)
    small = read(path)
    monkeypatch.setattr(large_columns, "LARGE", 0)
    monkeypatch.setattr(large_columns, "_CHUNK", 12)
    found = read(path)
    assert isinstance(advice_data._table(path), large_columns.LargeColumns)
    np.testing.assert_array_equal(found.X, small.X)
    np.testing.assert_array_equal(found.y, small.y)
    for name in ("targets", "numeric", "encoded", "dropped", "constant", "separator", "is_padded"):
        assert getattr(found, name) == getattr(small, name)
    assert found.describe() == small.describe()


def test_decimal_commas_are_read(tmp_path, large, capsys):
    lines = [line.replace(",", ";").replace(".", ",") for line in [HEADER, *ROWS]]
    found = read(written(tmp_path, lines))
    assert found.has_decimal_commas
    assert found.X[2, 0] == 2.5
    assert "has decimal commas: 0,5 is read as 0.5" in capsys.readouterr().err


BAD = {
    "word": [HEADER, *ROWS[:7], "oops,1,red,2"],
    "words": [HEADER, *(f"x{row}" for row in ROWS)],
    "gap": [HEADER, *ROWS[:5], ",1,red,2", *ROWS[5:], "NaN,1,red,2"],
    "gap of words": [HEADER, *ROWS[:5], "1,1,,2"],
    "infinite": [HEADER, *ROWS[:5], "inf,1,red,2"],
    "ragged": [HEADER, *ROWS[:5], "1,2,3"],
    "numbers alone": ["1,2,3,4", "1,2,3,4"],
    "no rows": [HEADER],
    "twice": ["a,a,colour,price", *ROWS],
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_refused_in_the_same_words(tmp_path, monkeypatch, capsys, name):
    path = written(tmp_path, BAD[name])
    arguments = ("advise", "--data", path, "--target", "price", "--one-hot", "colour")
    small = run(capsys, *arguments)
    monkeypatch.setattr(large_columns, "LARGE", 0)
    monkeypatch.setattr(large_columns, "_CHUNK", 12)
    large = run(capsys, *arguments)
    assert small.code == 2
    assert large.code == 2
    if name == "no rows":
        assert "rows" in large.err
    else:
        # Of numbers in a column of words nobody keeps account there.
        assert large.err == small.err.replace(
            "8 different entries", "1 different words" if name == "word" else "8 different words"
        )


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("command", ["advise", "curve"])
@pytest.mark.parametrize(
    "lines",
    [
        [HEADER, *ROWS[:4], f"1,2,red,{'7' * 50_000}x{'7' * 50_000}"],
        [HEADER, *(f"{'w' * 1000}{k},1,red,2" for k in range(500))],
        [HEADER, *ROWS[:4], "1\0,2,red,1"],
        [f"{'n' * 100_000},b,colour,price", *(f"w{row}" for row in ROWS)],
        [f"{'n' * 100_000},b,colour,price", *ROWS[:4], ",1,red,2"],
        [",".join(["same"] * 5000), ",".join(["1"] * 5000)],
        [",".join(f"{k // 2}" + "n" * 100 for k in range(5000)), ",".join(["x"] * 5000)],
        [",".join(["n" * 100 + str(k) for k in range(3000)]), ",".join(["1"] * 3000)],
    ],
)
def test_messages_about_cells_and_names_are_short(tmp_path, monkeypatch, capsys, command, lines, is_large):
    if is_large:
        monkeypatch.setattr(large_columns, "LARGE", 0)
    monkeypatch.chdir(tmp_path)
    written(tmp_path, lines)
    extra = ["--one-hot", "colour"] if command == "advise" else ["--step", "0.1"]
    outcome = run(capsys, command, "--data", "mine.csv", "--target", "price", *extra)
    assert outcome.code == 2
    assert "mine.csv" in outcome.err
    assert len(outcome.err) < 1100


def test_a_bad_cell_is_named_by_its_line_and_its_column(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, ["a,price", "1,2", f"2,{'z' * 100_000}", "3,4"])
    said = run(capsys, "curve", "--data", "mine.csv", "--target", "price", "--step", "0.1").err
    assert "line 3, column 'price' must be a number" in said
    assert "(100000 characters)" in said
    assert "leave out its row or its column" in said
    assert len(said) < 260
