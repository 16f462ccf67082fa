"""Tables that nobody can learn from: one line that says what to do, exit code 2, and never a traceback."""

import numpy as np
import pytest

from tests.cli.terminal import run
from tests.looped import for_all

FILES = {
    "good.csv": "a,b,y\n1,2,3\n4,5,7\n7,8,8\n2,9,1\n",
    "other.csv": "a,b,y\n1,2,3\n",
    "empty.csv": "",
    "header.csv": "a,b,y\n",
    "nameless.csv": "1,2,3\n4,5,7\n7,8,8\n",
    "narrow.csv": "y\n1\n2\n3\n",
    "one_row.csv": "a,b,y\n1,2,3\n",
    "two_rows.csv": "a,b,y\n1,2,3\n4,5,6\n",
    "ragged.csv": "a,b,y\n1,2,3\n4,5\n",
    "quoted.csv": "a,b,y\n1,Paris, France,3\n",
    "binary.csv": b"\xff\xfe\x00\x01\x80",
    "twice.csv": "a,y,y\n1,2,2\n4,5,5\n7,7,8\n",
    "copy.csv": "a,z,y\n1,2,2\n4,5,5\n7,8,8\n",
    "constant_target.csv": "a,b,y\n1,2,3\n4,5,3\n7,8,3\n",
    "constant_features.csv": "a,b,y\n1,2,3\n1,2,4\n1,2,5\n",
    "words.csv": "a,city,y\n1,Paris,3\n4,Rome,7\n7,Rome,8\n2,Paris,1\n",
    "many_words.csv": "name,city,y\nx,Paris,3\nz,Rome,7\nv,Rome,8\n",
    "typo.csv": "a,b,y\n1,2,3\n4,5;5,7\n7,8,8\n",
    "word_target.csv": "a,b,y\n1,2,low\n4,5,high\n7,8,low\n",
    "gaps.csv": "a,last year,y\n1,2,3\n4,,7\n7,NA,8\n2,1,1\n",
    "gap_target.csv": "a,b,y\n1,2,3\n4,5,NaN\n7,8,8\n",
    "gap_city.csv": "a,city,y\n1,Paris,3\n4,,7\n7,Rome,8\n2,Paris,1\n",
    "endless.csv": "a,b,y\n1,2,3\n4,inf,7\n7,8,8\n",
    "huge.csv": "a,b,y\n1,2,3\n4,1e200,7\n7,8,8\n",
    "taken.csv": "city_Rome,city,y\n1,Paris,3\n4,Rome,7\n7,Rome,8\n2,Paris,1\n",
    "thousands.csv": 'a,b,y\n1,"1,234",3\n4,"5,000",7\n7,"8,000",8\n',
    "test_lacks.csv": "a,y\n1,2\n3,4\n",
    "test_words.csv": "a,b,y\n1,x,3\n",
    "file.txt": "a,b,y\n1,2,3\n",
    "file": "a,b,y\n1,2,3\n",
    "broken.parquet": "PAR1 not really",
}
GOOD = "--data good.csv --target y"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    np.save("table.npy", np.eye(3))


@for_all(
    "line, message",
    [
        ("", "--data"),
        ("--data good.csv", "--target must name the column of good.csv to be predicted, one of a, b, y"),
        ("--data missing.csv --target y", "missing.csv: No such file or directory"),
        ("--data folder --target y", "advice is for tables with names of columns, .csv or .parquet"),
        ("--data file.txt --target y", "this one ends in '.txt'"),
        ("--data file --target y", "this one ends in ''"),
        ("--data table.npy --target y", "this one ends in '.npy'"),
        ("--data broken.parquet --target y", "is not a readable parquet file"),
        ("--data binary.csv --target y", "is not a text file in UTF-8"),
        ("--data empty.csv --target y", "empty.csv is empty"),
        ("--data header.csv --target y", "has a header but no rows"),
        ("--data nameless.csv --target y", "must name its columns in its first line, which is '1,2,3'"),
        ("--data narrow.csv --target y", "must have a column beside --target to learn from"),
        ("--data one_row.csv --target y", "must have at least 3 rows, to leave one out"),
        ("--data two_rows.csv --target y", "but it has 2"),
        ("--data ragged.csv --target y", "line 3 has 2 cells, but the first line has 3"),
        ("--data quoted.csv --target y", "line 2 has 4 cells, but the first line has 3; entries with commas"),
        ("--data twice.csv --target y", "these share one: columns 2 and 3 (y)"),
        ("--data copy.csv --target y", "column 'z' is a copy of --target y and would give it away"),
        ("--data constant_target.csv --target y", "--target y is 3 in every row of constant_target.csv"),
        ("--data constant_features.csv --target y", "must have a feature that is not constant"),
        (
            "--data words.csv --target y",
            "line 2, column 'city' must be a number, but it is 'Paris', one of 2 different entries; "
            "encode categories with --one-hot city, or leave the column out with --drop city",
        ),
        ("--data many_words.csv --target y", "one of 3 different entries (as in city (2))"),
        (
            "--data many_words.csv --target y --drop city --one-hot name",
            "every row of many_words.csv has another",
        ),
        ("--data taken.csv --target y --one-hot city", "taken.csv has city_Rome already; rename one of them"),
        ("--data typo.csv --target y", "line 3, column 'b' must be a number, but it is '5;5'"),
        ("--data word_target.csv --target y", "line 2, column 'y' must be a number, but it is 'low'"),
        (
            "--data gaps.csv --target y",
            "column 'last year' has 2 missing values, the first in line 3; drop or fill in such rows, "
            "or leave the column out with --drop 'last year'",
        ),
        ("--data gap_target.csv --target y", "column 'y' has 1 missing value, the first in line 3"),
        ("--data gap_city.csv --target y --one-hot city", "column 'city' has 1 missing value"),
        ("--data endless.csv --target y", "line 3, column 'b' must be a finite number, but it is inf"),
        ("--data huge.csv --target y", "X must have entries of at most 1e+100"),
        ("--data thousands.csv --target y", "'1,234' has a comma, and may have one for thousands"),
        (
            "--data good.csv --target price",
            "--target must be a column of good.csv, which has columns a, b, y",
        ),
        (f"{GOOD} --target y", "--target must name each column once, but it names 'y' 2 times"),
        (f"{GOOD} --target z", "but it is 'z'"),
        (f"{GOOD} --drop z", "--drop must be a column of good.csv"),
        (f"{GOOD} --one-hot z", "--one-hot must be a column of good.csv"),
        (f"{GOOD} --drop y", "--drop and --target must name different columns, but both name y"),
        (f"{GOOD} --one-hot y", "--one-hot and --target must name different columns"),
        (f"{GOOD} --one-hot a --drop a", "--one-hot and --drop must name different columns"),
        (f"{GOOD} --drop a,b", "must have a feature that is not constant beside --target"),
        (f"{GOOD} --batch-size 0", "--batch-size must be whole numbers of at least 1"),
        (f"{GOOD} --batch-size 2,5", "--batch-size must be at most 4, the rows of good.csv, but it is 5"),
        (f"{GOOD} --momentum 1", "--momentum must be numbers of at least 0 and below 1"),
        (f"{GOOD} --momentum half", "such as 0,0.5, but it is 'half'"),
        (f"{GOOD} --penalty -1", "--penalty must be numbers of at least 0"),
        (f"{GOOD} --penalty nan", "but it is 'nan'"),
        (f"{GOOD} --epochs 0", "--epochs must be a whole number of at least 1, but it is 0"),
        (f"{GOOD} --epochs 1.5", "it must be a whole number"),
        (f"{GOOD} --seed -1", "--seed must be a whole number of at least 0"),
        (f"{GOOD} --ridge 1", "Did you mean --weight-decay?"),
        (f"{GOOD} --weight-decay -1", "--weight-decay must be numbers of at least 0"),
        (f"{GOOD} --label y", "Did you mean --target?"),
        (f"{GOOD} --test missing.csv", "missing.csv: No such file or directory"),
        (f"{GOOD} --test good.csv", "--test must hold other rows than --data"),
        (f"{GOOD} --test test_lacks.csv", "must have the columns of good.csv, but it lacks b"),
        (f"{GOOD} --test test_words.csv", "test_words.csv: line 2, column 'b' must be a number"),
        (f"{GOOD} --test nameless.csv", "must name its columns in its first line"),
        (f"{GOOD} --plot picture.bmp", "--plot must end in .png, .svg, .pdf"),
        (f"{GOOD} --json good.csv", "--json must not overwrite --data"),
        (f"{GOOD} --test other.csv --csv other.csv", "--csv must not overwrite --test"),
    ],
)
def test_bad_tables_are_one_line_and_exit_code_two(capsys, line, message):
    outcome = run(capsys, "advise", *line.split())
    assert outcome.code == 2, outcome
    assert message in outcome.err
    assert outcome.out == ""
    assert outcome.err.startswith("reshuffle: ")
    assert outcome.err.count("\n") == 1
    assert "Traceback" not in outcome.err


def test_an_index_and_new_categories_are_warned_of(capsys):
    rng = np.random.default_rng(0)
    rows = [f"{k},{rng.normal()},{'xy'[k % 2]},{rng.normal()}" for k in range(30)]
    for name, body in (("train.csv", rows), ("test.csv", ["3,1,z,2", "4,1,x,1"])):
        with open(name, "w") as file:
            file.write("\n".join(["number,a,b,y", *body]) + "\n")
    arguments = ("--target", "y", "--one-hot", "b", "--test", "test.csv", "--json", "-")
    outcome = run(capsys, "advise", "--data", "train.csv", *arguments)
    assert outcome.code == 0, outcome.err
    assert "warning: train.csv has what looks like an index of its rows" in outcome.err
    assert "warning: test.csv: column 'b' has categories that train.csv has not: z." in outcome.err
