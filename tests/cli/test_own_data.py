"""One's own data, told back: which column is y, what looks like an index, what an intercept would gain."""

import json
import re

import numpy as np
import pytest

import reshuffle as rs
from tests.cli.terminal import run

rng = np.random.default_rng(1)
A = rng.standard_normal((40, 3)) * [1.0, 30.0, 0.5] + [0.0, 10.0, 3.0]
PRICE = A @ [1.0, 0.1, -2.0] + 40 + rng.standard_normal(40)
STEP = ("--step", "1e-4", "--batches", "2", "--epochs", "30")


def write(path, names, table, separator=",", form=repr):
    lines = [separator.join(names)] if names else []
    lines += [separator.join(form(float(value)) for value in row) for row in table]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    whole = np.column_stack([A, PRICE])
    write(tmp_path / "train.csv", ["a", "b", "c", "price"], whole[:30])
    write(tmp_path / "test.csv", ["price", "c", "a", "b"], whole[30:][:, [3, 2, 0, 1]])
    write(tmp_path / "plain.csv", None, whole[:30])
    write(tmp_path / "plain_test.csv", None, whole[30:])
    return tmp_path


def curve(capsys, *arguments):
    outcome = run(capsys, "curve", *arguments, *STEP, "--json", "-")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    return found["problem"], found["curves"][0], outcome.err


@pytest.mark.parametrize(
    "files", [("train.csv", "test.csv"), ("plain.csv", "plain_test.csv")], ids=["by name", "by place"]
)
def test_held_out_columns_are_those_of_the_training_rows(capsys, files):
    _, found, _ = curve(capsys, "--data", files[0], "--test", files[1])
    run_ = rs.descend(rs.LeastSquares(A[:30], PRICE[:30]), rs.RandomReshuffling(batches=2), step=1e-4)
    expected = np.square(run_.iterate(30) @ A[30:].T - PRICE[30:]).mean() / 2
    assert found["held_out_loss"][-1] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ((), "y = price (the last column; --target NAME takes another), features = a, b, c."),
        (("--target", "b"), "y = b, features = a, c, price."),
    ],
)
def test_the_target_and_the_features_are_told(capsys, options, line):
    outcome = run(capsys, "curve", "--data", "train.csv", *STEP, *options)
    assert line in outcome.out.splitlines()
    told, _, _ = curve(capsys, "--data", "train.csv", *options)
    assert told["y"] == (options[1] if options else "price")
    assert set(told["features"]) | {told["y"]} == {"a", "b", "c", "price"}


def test_columns_without_names_are_told_by_their_place(capsys):
    shown = run(capsys, "curve", "--data", "plain.csv", *STEP).out
    assert "y = column 4 (the last), features = the other 3 columns." in shown


def test_many_features_are_abbreviated(capsys, folder):
    write(folder / "many.csv", [f"f{k}" for k in range(30)] + ["y"], rng.standard_normal((40, 31)))
    shown = run(capsys, "stability", "--data", "many.csv", "--batches", "1").out
    assert "y = y, features = f0, f1, f2, f3, ..., f29 (30 of them)." in shown


@pytest.mark.parametrize(
    ("names", "column", "told"),
    [
        (["", "a", "y"], rng.permutation(40), "'' (without a name)"),
        (["Unnamed: 0", "a", "y"], rng.permutation(40), "Unnamed: 0 (without a name)"),
        (["row", "a", "y"], np.arange(5, 45), "row (counts 5, 6, 7, ...)"),
        (None, np.arange(40), "column 1 (counts 0, 1, 2, ...)"),
    ],
)
def test_an_index_is_warned_of(capsys, folder, names, column, told):
    write(folder / "index.csv", names, np.column_stack([column, A[:, 0], PRICE]))
    _, _, err = curve(capsys, "--data", "index.csv")
    assert err.startswith("reshuffle: warning: index.csv has what looks like an index of its rows")
    assert told in err
    assert curve(capsys, "--data", "train.csv")[2] == ""


def test_a_header_that_counts_is_warned_of(capsys, folder):
    write(folder / "numbers.csv", ["0", "1", "2"], A)
    assert "line 1 of numbers.csv counts 0, 1, 2" in curve(capsys, "--data", "numbers.csv")[2]


def test_a_missing_intercept_is_told_with_what_it_costs(capsys):
    shown = run(capsys, "curve", "--data", "train.csv", *STEP).out
    without, with_ = map(
        float, re.search(r"stays above (\S+); with --intercept, above (\S+)\.\n", shown).groups()
    )
    for X, told in ((A[:30], without), (np.column_stack([A[:30], np.ones(30)]), with_)):
        residual = PRICE[:30] - X @ np.linalg.lstsq(X, PRICE[:30], rcond=None)[0]
        assert told == pytest.approx(residual @ residual / 60, rel=1e-3)
    assert without > 2 * with_
    assert "no intercept" not in run(capsys, "curve", "--data", "train.csv", *STEP, "--intercept").out


@pytest.mark.parametrize("column", ["ones", "dummies"])
def test_features_that_make_up_an_intercept_are_one(capsys, folder, column):
    first = np.ones(40) if column == "ones" else np.arange(40) % 2
    extra = [first] if column == "ones" else [first, 1 - first]
    write(
        folder / "has.csv",
        [f"d{k}" for k in range(len(extra))] + ["a", "y"],
        np.column_stack([*extra, A[:, 0], PRICE]),
    )
    assert "no intercept" not in run(capsys, "curve", "--data", "has.csv", *STEP).out


def test_features_of_unlike_size_are_told(capsys, folder):
    write(folder / "unlike.csv", ["a", "b", "y"], np.column_stack([A[:, 0], 1e4 * A[:, 2], PRICE]))
    arguments = ("curve", "--data", "unlike.csv", "--step", "1e-10", "--batches", "2")
    assert "--standardize makes them alike" in run(capsys, *arguments).out
    assert "makes them alike" not in run(capsys, *arguments, "--standardize").out


def test_an_intercept_is_a_column_of_ones_here_and_in_held_out_rows(capsys):
    told, found, _ = curve(capsys, "--data", "train.csv", "--test", "test.csv", "--intercept")
    assert told["intercept"] is True
    X, Y = np.column_stack([A[:30], np.ones(30)]), np.column_stack([A[30:], np.ones(10)])
    run_ = rs.descend(rs.LeastSquares(X, PRICE[:30]), rs.RandomReshuffling(batches=2), step=1e-4)
    np.testing.assert_allclose(found["training_loss"], run_.training_loss(np.arange(31)), rtol=1e-9)
    expected = np.square(run_.iterate(30) @ Y.T - PRICE[30:]).mean() / 2
    assert found["held_out_loss"][-1] == pytest.approx(expected, rel=1e-9)


def test_standardised_held_out_rows_have_the_mean_and_deviation_of_the_training_rows(capsys):
    told, found, _ = curve(
        capsys, "--data", "train.csv", "--test", "test.csv", "--standardize", "--intercept"
    )
    assert told["standardized"] is True
    mean, deviation = A[:30].mean(axis=0), A[:30].std(axis=0)
    X, Y = (np.column_stack([(rows - mean) / deviation, np.ones(len(rows))]) for rows in (A[:30], A[30:]))
    run_ = rs.descend(rs.LeastSquares(X, PRICE[:30]), rs.RandomReshuffling(batches=2), step=1e-4)
    expected = np.square(run_.iterate(30) @ Y.T - PRICE[30:]).mean() / 2
    assert found["held_out_loss"][-1] == pytest.approx(expected, rel=1e-9)
    shown = run(capsys, "curve", "--data", "train.csv", *STEP, "--standardize").out
    assert "Features have mean 0 and standard deviation 1 over the rows of train.csv." in shown


def test_what_is_constant_or_huge_is_standardised_without_harm(capsys, folder):
    table = np.column_stack([np.full(40, 7.0), 1e200 * A[:, 0], PRICE])
    write(folder / "constant.csv", ["seven", "huge", "y"], table)
    arguments = ("curve", "--data", "constant.csv", "--standardize", "--step", "0.01", "--batches", "2")
    outcome = run(capsys, *arguments)
    assert outcome.code == 0, outcome.err
    assert "but for what is constant: seven." in outcome.out
    # A constant column is an intercept, and stays one.
    assert "no intercept" not in outcome.out


@pytest.mark.parametrize("separator", [";", "\t"])
@pytest.mark.parametrize("names", [None, ["a", "b", "c", "y"]])
def test_decimal_commas_are_read_where_nothing_else_fits(capsys, folder, separator, names):
    table = np.column_stack([A, PRICE])[:30]
    write(folder / "commas.csv", names, table, separator, lambda value: repr(value).replace(".", ","))
    _, found, err = curve(capsys, "--data", "commas.csv")
    assert err.startswith("reshuffle: warning: commas.csv has decimal commas: ")
    assert found["training_loss"] == curve(capsys, "--data", "train.csv")[1]["training_loss"]


def test_quoted_decimal_commas_are_read(capsys, folder):
    form = lambda value: '"' + repr(value).replace(".", ",") + '"'  # noqa: E731
    write(folder / "quoted.csv", ["a", "b", "c", "y"], np.column_stack([A, PRICE])[:30], ",", form)
    found = curve(capsys, "--data", "quoted.csv")[1]
    assert found["training_loss"] == curve(capsys, "--data", "train.csv")[1]["training_loss"]


def test_names_that_look_like_markup_or_control_a_terminal_are_shown_as_they_are(capsys, folder):
    names = ["[bold]a[/bold]", "b\x1b[31m", ":smile:", "y"]
    write(folder / "odd[red].csv", names, np.column_stack([A, PRICE]))
    shown = run(capsys, "curve", "--data", "odd[red].csv", *STEP).out
    assert r"y = y, features = [bold]a[/bold], 'b\x1b[31m', :smile:." in shown
    assert "odd[red].csv: n = 40" in shown
    assert "\x1b" not in shown


def test_simulated_runs_of_one_s_own_data_reach_the_table(capsys):
    arguments = ("curve", "--data", "train.csv", *STEP, "--simulate", "200")
    shown = run(capsys, *arguments).out
    assert "simulated loss" in shown
    assert "Simulated: 200 real runs" in shown
    _, found, _ = curve(capsys, "--data", "train.csv", "--simulate", "200")
    simulated = found["simulated_training_loss"]
    assert abs(simulated["mean"] - found["training_loss"][-1]) <= simulated["error"]
    assert simulated["error"] < 0.5 * simulated["mean"]
