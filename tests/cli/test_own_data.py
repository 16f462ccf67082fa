"""One's own data: every format gives the same problem, and the answer tells what was made of it."""

import gzip
import io
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import reshuffle as rs
from reshuffle.cli import reader
from reshuffle.cli.options import ProblemOptions
from reshuffle.cli.problem import pose
from tests.cli.terminal import answer, run, shown
from tests.looped import for_all

rng = np.random.default_rng(1)
A = rng.standard_normal((40, 3)) * [1.0, 30.0, 0.5] + [0.0, 10.0, 3.0]
PRICE = A @ [1.0, 0.1, -2.0] + 40 + rng.standard_normal(40)
TABLE = pd.DataFrame(A, columns=["a", "b", "c"]).assign(price=PRICE)
STEP = "--step 1e-4 --batches 2 --epochs 30"
WORDS = ["red", "green", "blue", "green", "red", "red", "blue", "red"]
HEADER = "a, b,colour,price"
ROWS = [f"{k}.5,{k * k},{WORDS[k]},{3 - k}" for k in range(8)]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    TABLE[:30].to_csv("train.csv", index=False)
    # In another order, and with a column more.
    TABLE[30:].assign(d=7.0)[["price", "c", "a", "d", "b"]].to_csv("test.csv", index=False)
    TABLE[:30].to_csv("plain.csv", index=False, header=False)
    TABLE[30:].to_csv("plain_test.csv", index=False, header=False)


def curve(capsys, line):
    """What is said of the problem, the curve, and standard error."""
    outcome = run(capsys, f"curve {STEP} --json - --data {line}")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    return found["problem"], found["curves"][0], outcome.err


def descended(X, y=PRICE[:30]):
    """The run that the curves belong to."""
    return rs.descend(rs.LeastSquares(X, y), rs.RandomReshuffling(batches=2), step=1e-4)


# ---------------------------------------------------------------------------------------------------------- formats


@for_all(
    "name, target",
    [
        ("a.npz", None),
        ("a.npy", None),
        ("a.csv", None),
        ("named.csv", None),
        ("other.csv", None),
        ("other.csv", "price"),
        ("middle.tsv", "price"),
        ("a.csv.gz", None),
        ("a.parquet", None),
        ("a.parquet", "y"),
    ],
)
def test_every_format_gives_the_same_problem(name, target):
    X, y = A, PRICE
    np.savez("a.npz", X=X, y=y)
    np.save("a.npy", np.column_stack([X, y]))
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame.assign(y=y).to_csv("a.csv", index=False, header=False)
    frame.assign(y=y).to_csv("a.csv.gz", index=False)
    frame.assign(y=y)[["a", "y", "b", "c"]].to_csv("named.csv", index=False)
    frame.assign(price=y).to_csv("other.csv", index=False, sep=";")
    frame.assign(price=y)[["a", "price", "b", "c"]].to_csv("middle.tsv", index=False, sep="\t")
    frame.assign(y=y)[["a", "b", "y", "c"]].to_parquet("a.parquet")
    found = reader.read(name, () if target is None else (target,))
    np.testing.assert_array_equal(found.X, X)
    np.testing.assert_array_equal(found.y[:, 0], y)
    assert found.truth == {}


@for_all(
    "lines",
    [
        ["\ufeff" + HEADER, *ROWS[:3], "", *ROWS[3:]],
        [line.replace(",", ";") for line in [HEADER, *ROWS]],
        [line.replace(",", "\t") for line in [HEADER, *ROWS]],
        [HEADER, *(row.replace("red", '"r,\ne""d"') for row in ROWS)],
    ],
)
def test_separators_blank_lines_and_quotes_change_no_number(lines):
    Path("mine.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = reader.read("mine.csv", ["price"], one_hot=["colour"])
    np.testing.assert_array_equal(found.X[:, :2], [[k + 0.5, k * k] for k in range(8)])
    np.testing.assert_array_equal(found.X[:, 2:4], [[word == "blue", word == "green"] for word in WORDS])
    np.testing.assert_array_equal(found.y[:, 0], 3 - np.arange(8))
    assert found.numeric == ["a", "b"]


@for_all("packed", [False, True])
def test_standard_input_is_read_as_a_file(monkeypatch, packed):
    content = Path("train.csv").read_bytes()
    reader._standard_input.cache_clear()
    bytes_ = io.BytesIO(gzip.compress(content) if packed else content)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(bytes_))
    found = reader.read("-", ["price"])
    np.testing.assert_array_equal(found.X, A[:30])
    reader._standard_input.cache_clear()


@for_all("form", ["semicolons", "tabs", "semicolons without names", "quotes"])
def test_decimal_commas_are_read_where_nothing_else_fits(capsys, form):
    if form == "quotes":
        cells = TABLE[:30].map(lambda value: repr(value).replace(".", ","))
        cells.to_csv("commas.csv", index=False, quoting=1)
    else:
        separator, header = "\t" if form == "tabs" else ";", not form.endswith("names")
        TABLE[:30].to_csv("commas.csv", index=False, sep=separator, decimal=",", header=header)
    _, found, err = curve(capsys, "commas.csv")
    assert err.startswith("reshuffle: warning: commas.csv has decimal commas: ")
    assert found["training_loss"] == curve(capsys, "train.csv")[1]["training_loss"]


def test_flags_are_zero_and_one_in_every_command(capsys):
    flags = pd.DataFrame({"flag": [k % 3 == 0 for k in range(8)], "b": range(8), "colour": WORDS})
    flags.assign(price=np.arange(8) ** 2).to_csv("mine.csv", index=False)
    found = reader.read("mine.csv", ["price"], drop=["colour"])
    np.testing.assert_array_equal(found.X[:, 0], flags.flag)
    for command in ("curve --step 0.001 --epochs 3", "stability --batches 1"):
        text = shown(capsys, f"{command} --data mine.csv --drop b --one-hot colour")
        assert "features = flag, colour_blue, colour_green, colour_red." in text


def test_missing_values_are_filled_with_medians_here_and_in_held_out_rows(capsys):
    table = pd.DataFrame(np.random.default_rng(0).standard_normal((40, 3)), columns=["a", "b", "price"])
    table.loc[[3, 7], "a"] = np.nan
    table.loc[5, "b"] = np.nan
    table[:30].to_csv("mine.csv", index=False)
    table[30:].assign(b=np.nan).to_csv("other.csv", index=False)
    line = "advise --data mine.csv --target price --batch-size 15 --epochs 20"
    assert run(capsys, line).code == 2
    found = answer(capsys, f"{line} --fill median --test other.csv")
    assert found["data"]["filled"] == pytest.approx(table[:30][["a", "b"]].median().to_dict())
    left: dict[str, pd.DataFrame] = {}
    exec(found["snippets"]["torch"].partition("x_mean")[0], left)
    pd.testing.assert_frame_equal(left["X"], table[:30][["a", "b"]].fillna(table[:30].median()))
    X, y = reader.read("mine.csv", ["price"], fill="median").held_out("other.csv")
    assert (X[:, 1] == table[:30]["b"].median()).all()
    assert len(y) == 10
    assert "Missing values of a, b" in shown(capsys, "curve --data mine.csv --step 0.1 --fill median")


# ----------------------------------------------------------------------------------------------------- what is told


def test_the_truth_is_unknown_and_the_training_loss_is_not(capsys):
    _, found, _ = curve(capsys, "train.csv")
    exact = descended(A[:30])
    np.testing.assert_allclose(found["training_loss"], exact.training_loss(np.arange(31)), rtol=1e-10)
    assert "risk" not in found
    assert found["best_epoch"] is None
    distance = found["limit"]["distance_from_minimum_norm"]
    assert distance == pytest.approx(exact.compare_limit().distance, rel=1e-9)
    assert found["limit"]["training_loss_error"] == 0
    line = f"curve --data train.csv {STEP}"
    assert "The truth behind this data is unknown" in shown(capsys, line)
    header = shown(capsys, line, "--csv", "-").splitlines()[0]
    assert header == "scheme,batches,epoch,training_loss,training_loss_error"


def test_a_file_that_knows_the_truth_gives_the_risk(capsys):
    truth = {"beta_star": [1.0, -2.0, 0.5], "noise": 0.1, "covariance": [1.0, 2.0, 3.0]}
    np.savez("known.npz", X=A, y=PRICE, **truth)
    _, found, _ = curve(capsys, "known.npz")
    exact = rs.descend(rs.LeastSquares(A, PRICE, **truth), rs.RandomReshuffling(batches=2), step=1e-4)
    np.testing.assert_allclose(found["risk"]["total"], exact.risk(np.arange(31)).total, rtol=1e-10)
    # The noise and the covariance of the command line override those of the file.
    asked = ProblemOptions(data="known.npz", noise=0.3, covariance="powerlaw:1")
    problem = pose(asked).problem
    assert problem.noise == 0.3
    np.testing.assert_allclose(problem.covariance.value, np.array([1, 1 / 2, 1 / 3]) * 18 / 11)


def test_the_target_and_the_features_are_told(capsys):
    names = [f"f{k}" for k in range(30)] + ["y"]
    pd.DataFrame(rng.standard_normal((40, 31)), columns=names).to_csv("many.csv", index=False)
    for options, line in (
        ("train.csv", "y = price (the last column; --target NAME takes another), features = a, b, c."),
        ("train.csv --target b", "y = b, features = a, c, price."),
        ("plain.csv", "y = column 4 (the last), features = the other 3 columns."),
        ("many.csv", "y = y, features = f0, f1, f2, f3, ..., f29 (30 of them)."),
    ):
        assert line in shown(capsys, f"curve {STEP} --data {options}").splitlines()
    for options, target in (("", "price"), ("--target b", "b")):
        told, _, _ = curve(capsys, f"train.csv {options}")
        assert told["y"] == target
        assert {*told["features"], told["y"]} == {"a", "b", "c", "price"}


@for_all(
    "names, column, told",
    [
        (["", "a", "y"], rng.permutation(40), "'' (without a name)"),
        (["Unnamed: 0", "a", "y"], rng.permutation(40), "Unnamed: 0 (without a name)"),
        (["row", "a", "y"], np.arange(5, 45), "row (counts 5, 6, 7, ...)"),
        (None, np.arange(40), "column 1 (counts 0, 1, 2, ...)"),
    ],
)
def test_an_index_is_warned_of(capsys, names, column, told):
    frame = pd.DataFrame(np.column_stack([column, A[:, 0], PRICE]))
    frame.to_csv("index.csv", index=False, header=names or False)
    _, _, err = curve(capsys, "index.csv")
    assert err.startswith("reshuffle: warning: index.csv has what looks like an index of its rows")
    assert told in err
    assert curve(capsys, "train.csv")[2] == ""
    pd.DataFrame(A).to_csv("numbers.csv", index=False)
    assert "line 1 of numbers.csv counts 0, 1, 2" in curve(capsys, "numbers.csv")[2]


@for_all("header", ['"a\nb",price', '\n\n"a\r\nb","pri\nce"', "\na,price", "a,price\n"])
def test_a_header_over_several_lines_takes_no_row(capsys, header):
    Path("lines.csv").write_text(f"{header}\n1,2\n3,5\n\n4,4\n", newline="")
    assert curve(capsys, "lines.csv")[0]["n"] == 3


def test_names_of_rows_are_left_out_though_their_column_has_none(capsys):
    TABLE[:30].set_index(pd.Index([f"row {k}" for k in range(30)])).to_csv("named_rows.csv")
    outcome = run(capsys, f"curve {STEP} --data named_rows.csv")
    assert outcome.code == 2
    assert "as in names of rows; leave the column out with --drop ''" in outcome.err
    assert curve(capsys, "named_rows.csv --drop ''")[1] == curve(capsys, "train.csv")[1]


def test_a_missing_intercept_is_told_with_what_it_costs(capsys):
    text = shown(capsys, f"curve --data train.csv {STEP}")
    found = re.search(r"stays above (\S+); with --intercept, above (\S+)\.\n", text).groups()
    for X, told in zip((A[:30], np.column_stack([A[:30], np.ones(30)])), map(float, found), strict=True):
        residual = PRICE[:30] - X @ np.linalg.lstsq(X, PRICE[:30], rcond=None)[0]
        assert told == pytest.approx(residual @ residual / 60, rel=1e-3)
    assert "no intercept" not in shown(capsys, f"curve --data train.csv {STEP} --intercept")
    # Features that make up an intercept are one.
    for column in ({"one": 1.0}, {"even": np.arange(40) % 2, "odd": 1 - np.arange(40) % 2}):
        TABLE[["a", "price"]].assign(**column)[[*column, "a", "price"]].to_csv("has.csv", index=False)
        assert "no intercept" not in shown(capsys, f"curve --data has.csv {STEP}")


def test_features_of_unlike_size_are_told(capsys):
    TABLE.assign(c=1e4 * TABLE.c).to_csv("unlike.csv", index=False)
    line = "curve --data unlike.csv --step 1e-10 --batches 2"
    assert "--standardize makes them alike" in shown(capsys, line)
    assert "makes them alike" not in shown(capsys, f"{line} --standardize")


@for_all(
    "files, options",
    [
        ("train.csv --test test.csv", ""),
        ("plain.csv --test plain_test.csv", ""),
        ("train.csv --test test.csv", "--intercept"),
        ("train.csv --test test.csv", "--intercept --standardize"),
    ],
)
def test_held_out_rows_are_prepared_as_the_training_rows(capsys, files, options):
    told, found, _ = curve(capsys, f"{files} {options}")
    X, Y = A[:30], A[30:]
    if "--standardize" in options:
        mean, deviation = X.mean(axis=0), X.std(axis=0)
        X, Y = ((rows - mean) / deviation for rows in (X, Y))
    if "--intercept" in options:
        X, Y = (np.column_stack([rows, np.ones(len(rows))]) for rows in (X, Y))
    when, exact = np.arange(31), descended(X)
    assert (told["intercept"], told["standardized"]) == ("--int" in options, "--sta" in options)
    np.testing.assert_allclose(found["training_loss"], exact.training_loss(when), rtol=1e-9)
    expected = np.square(exact.iterate(when) @ Y.T - PRICE[30:]).mean(axis=1) / 2
    np.testing.assert_allclose(found["held_out_loss"], expected, rtol=1e-9)
    header = shown(capsys, f"curve {STEP} --data {files} {options} --csv -").splitlines()[0]
    assert header.endswith("training_loss_error,held_out_loss,held_out_loss_error")


def test_what_is_constant_or_huge_is_standardised_without_harm(capsys):
    TABLE[["a", "price"]].assign(seven=7.0, a=1e200 * TABLE.a)[["seven", "a", "price"]].to_csv(
        "constant.csv", index=False
    )
    text = shown(capsys, "curve --data constant.csv --standardize --step 0.01 --batches 2")
    assert (
        "mean 0 and standard deviation 1 over the rows of constant.csv, but for what is constant: seven."
        in text
    )
    # A constant column is an intercept, and stays one.
    assert "no intercept" not in text


def test_names_that_look_like_markup_or_control_a_terminal_are_shown_as_they_are(capsys):
    TABLE.set_axis(["[bold]a[/bold]", "b\x1b[31m", ":smile:", "y"], axis=1).to_csv(
        "odd[red].csv", index=False
    )
    text = shown(capsys, f"curve --data 'odd[red].csv' {STEP}")
    assert r"y = y, features = [bold]a[/bold], 'b\x1b[31m', :smile:." in text
    assert "odd[red].csv: n = 40" in text
    assert "\x1b" not in text


def test_influence_is_that_of_rows_really_deleted(capsys):
    line = "influence --data train.csv --test test.csv --standardize --step 0.1 --row 4 --epochs 50"
    found = answer(capsys, line)
    mean, deviation = A[:30].mean(axis=0), A[:30].std(axis=0)
    X, new, epochs = (A[:30] - mean) / deviation, (A[33:34] - mean) / deviation, found["epochs"]

    def predicted(rows):
        # The gradient is still divided by 30.
        problem = rs.LeastSquares(X[rows], PRICE[:30][rows])
        return rs.descend(problem, rs.FullBatch(), 0.1 * len(rows) / 30).predict(new, epochs)[:, 0]

    whole = predicted(np.arange(30))
    np.testing.assert_allclose(found["predicted"], whole, rtol=1e-10)
    assert found["y"] == PRICE[33]
    for row in (1, 17, 30):
        change = predicted(np.delete(np.arange(30), row - 1)) - whole
        np.testing.assert_allclose(np.array(found["changes"])[:, row - 1], change, rtol=1e-8, atol=1e-9)
    last = np.abs(found["changes"][-1])
    assert [one["row"] for one in found["rows"]] == (1 + np.argsort(-last, kind="stable")[:10]).tolist()
    text = shown(capsys, line, "--plot", "rows.png", "--csv", "rows.csv")
    assert f"without row {found['rows'][0]['row']}" in text
    table = pd.read_csv("rows.csv")
    np.testing.assert_allclose(table[table.row == 17].change, np.array(found["changes"])[:, 16], rtol=1e-12)
    assert "This step diverges" in shown(capsys, line.replace("0.1", "9"))


def test_simulated_runs_of_one_s_own_data_reach_the_table(capsys):
    text = shown(capsys, f"curve --data train.csv {STEP} --simulate 200")
    assert "simulated loss" in text
    assert "Simulated: 200 real runs" in text
    _, found, _ = curve(capsys, "train.csv --simulate 200")
    simulated = found["simulated_training_loss"]
    assert abs(simulated["mean"] - found["training_loss"][-1]) <= simulated["error"]
    assert simulated["error"] < 0.5 * simulated["mean"]
