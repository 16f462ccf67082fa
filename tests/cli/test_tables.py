"""Tables as they come: large cells, quotes, gaps, categories, dates; answers in few words."""

import gzip
import io
import json

import numpy as np
import pandas as pd
import pytest

from reshuffle.cli import reader
from tests.cli.terminal import run

WORDS = ["red", "green", "blue", "green", "red", "red", "blue", "red"]
HEADER = "a, b,colour,price"
ROWS = [f"{k}.5,{k * k},{WORDS[k]},{3 - k}" for k in range(8)]
ADVISE = ("advise", "--data", "mine.csv", "--target", "price")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def written(lines, name="mine.csv"):
    with open(name, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return name


@pytest.mark.parametrize(
    "lines",
    [
        ["\ufeff" + HEADER, *ROWS[:3], "", *ROWS[3:]],
        [line.replace(",", ";") for line in [HEADER, *ROWS]],
        [line.replace(",", "\t") for line in [HEADER, *ROWS]],
        [HEADER, *(row.replace("red", '"r,\ne""d"') for row in ROWS)],
    ],
)
def test_separators_blank_lines_and_quotes_change_no_number(lines):
    plain = reader.read(written([HEADER, *ROWS]), ["price"], one_hot=["colour"])
    found = reader.read(written(lines), ["price"], one_hot=["colour"])
    np.testing.assert_array_equal(found.X[:, :4], plain.X[:, :4])
    np.testing.assert_array_equal(found.y, plain.y)
    assert found.numeric == ["a", "b"]


@pytest.mark.parametrize("name", ["mine.tsv", "mine.csv.gz", "-"])
def test_packed_files_and_standard_input_are_read_as_plain_ones(monkeypatch, name):
    plain = reader.read(written([HEADER, *ROWS]), ["price"], ["colour"])
    text = "\n".join([HEADER, *ROWS]).encode()
    if name == "mine.tsv":
        written([line.replace(",", "\t") for line in [HEADER, *ROWS]], name)
    elif name == "mine.csv.gz":
        with gzip.open(name, "wb") as file:
            file.write(text)
    else:
        reader._standard_input.cache_clear()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    found = reader.read(name, ["price"], ["colour"])
    np.testing.assert_array_equal(found.X, plain.X)
    reader._standard_input.cache_clear()


BAD = {
    "few mistakes": (
        [HEADER, *ROWS, *ROWS[1:], "oops,1,red,2"],
        "line 17, column 'a' must be a number, but it is 'oops'; correct it",
    ),
    "words": (
        [HEADER, *(f"x{row}" for row in ROWS)],
        "'x0.5', one of 8 different entries; encode categories with --one-hot a",
    ),
    "gaps": (
        ["a,b,colour,price", *ROWS[:5], ",,red,2", *ROWS[5:], "NaN,1,red,2"],
        "columns 'a' (2), 'b' (1) have missing values, the first in line 7; drop or fill in such rows, or leave "
        "the columns out with --drop a --drop b, or take --fill median.",
    ),
    "gap of the target": (
        [HEADER, *ROWS[:5], "1,2,red,"],
        "column 'price' has 1 missing value, the first in line 7; drop or fill in such rows.\n",
    ),
    "gap of words": (
        [HEADER, *ROWS[:5], "1,1,,2"],
        "column 'colour' has 1 missing value, the first in line 7; write a word for it",
    ),
    "dates": (
        ["a,day,colour,price", *(f"{k},2024-01-0{k + 1},{WORDS[k]},{k * k}" for k in range(8))],
        "line 2, column 'day' must be a number, but it is the date '2024-01-01'; write numbers, such as days since "
        "the first, or leave the column out with --drop day",
    ),
    "percentages": (
        ["a,rate,colour,price", *(f"{k},{k}.5%,{WORDS[k]},{k * k}" for k in range(8))],
        "column 'rate' must be a number, but it is the percentage '0.5%'; write numbers without the sign",
    ),
    "classes": (
        ["a,b,colour,price", *(f"{k},{k * k},{WORDS[k]},{'yes' if k % 2 else 'no'}" for k in range(8))],
        "column 'price' must be a number, but it is 'no', one of 2 different entries; write a number for each "
        "class, such as 0, 1, or name another target.\n",
    ),
    "infinite": (
        [HEADER, *ROWS[:5], "inf,1,red,2"],
        "line 7, column 'a' must be a finite number, but it is inf",
    ),
    "ragged": ([HEADER, *ROWS[:5], "1,2,3"], "line 7 has 3 cells, but the first line has 4"),
    "no rows": ([HEADER], "has a header but no rows"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_said_with_what_to_do(capsys, name):
    lines, message = BAD[name]
    written(lines)
    outcome = run(capsys, *ADVISE, "--one-hot", "colour")
    assert outcome.code == 2
    assert message in outcome.err


def test_missing_values_are_filled_with_medians_here_and_in_held_out_rows(capsys):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((40, 3)), columns=["a", "b", "price"])
    table.loc[[3, 7], "a"] = np.nan
    table.loc[5, "b"] = np.nan
    table[:30].to_csv("mine.csv", index=False)
    table[30:].assign(b=np.nan).to_csv("other.csv", index=False)
    assert run(capsys, *ADVISE).code == 2
    options = ("--fill", "median", "--batch-size", "15", "--epochs", "20", "--test", "other.csv")
    outcome = run(capsys, *ADVISE, *options, "--json", "-")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert found["data"]["filled"] == pytest.approx(table[:30][["a", "b"]].median().to_dict())
    left: dict[str, pd.DataFrame] = {}
    exec(found["snippets"]["torch"].partition("x_mean")[0], left)
    pd.testing.assert_frame_equal(left["X"], table[:30][["a", "b"]].fillna(table[:30].median()))
    X, y = reader.read("mine.csv", ["price"], fill="median").held_out("other.csv")
    assert (X[:, 1] == table[:30]["b"].median()).all()
    assert len(y) == 10
    assert run(capsys, "curve", "--data", "mine.csv", "--step", "0.1", "--fill", "median").code == 0


def test_flags_are_zero_and_one_in_every_command(capsys):
    rows = [f"{k % 3 == 0},{k},{WORDS[k]},{k * k}" for k in range(8)]
    written(["flag,b,colour,price", *rows])
    found = reader.read("mine.csv", ["price"], drop=["colour"])
    np.testing.assert_array_equal(found.X[:, 0], [k % 3 == 0 for k in range(8)])
    for command in ("curve --step 0.001 --epochs 3", "stability --batches 2"):
        outcome = run(capsys, *command.split(), "--data", "mine.csv", "--drop", "b", "--one-hot", "colour")
        assert outcome.code == 0, outcome.err
        assert "features = flag, colour_blue, colour_green, colour_red." in " ".join(outcome.out.split())


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
def test_messages_about_cells_and_names_are_short(capsys, command, lines):
    written(lines)
    extra = ["--one-hot", "colour"] if command == "advise" else ["--step", "0.1"]
    outcome = run(capsys, command, "--data", "mine.csv", "--target", "price", *extra)
    assert outcome.code == 2
    assert "mine.csv" in outcome.err
    assert len(outcome.err) < 1100


def test_a_bad_cell_is_named_by_its_line_and_its_column(capsys):
    written(["a,price", "1,2", f"2,{'z' * 100_000}", "3,4"])
    said = run(capsys, "curve", "--data", "mine.csv", "--target", "price", "--step", "0.1").err
    assert "line 3, column 'price' must be a number" in said
    assert "(100000 characters)" in said
    assert "correct it, or leave out its row" in said
    assert len(said) < 260
