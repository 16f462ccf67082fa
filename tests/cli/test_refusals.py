"""Bad input: exit code 2 (or 1 where a computation failed), one line on standard error, and never a traceback."""

import socket
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas
import pyarrow
import pyarrow.parquet
import pytest

from reshuffle.cli import console, curves, sweep
from reshuffle.errors import BudgetError
from tests.cli.terminal import run
from tests.looped import for_all

CURVE = "curve --n 20 --p 10 --alpha 0.1"
OWN = "curve --step 0.1 --data"
ADVISE = "advise --target y --data"
GOOD = f"{ADVISE} four.csv"
LAW = "spectrum --law x=sc(1) --law y=mp(0.5) --expression"
SWEEP = "sweep --n 20 --p 6 --noise 0.5"
BEST = "limits --aspect 0.5 --best"
WORDS = ["red", "green", "blue", "green", "red", "red", "blue", "red"]
HEADER, ROWS = "a,b,colour,y", [f"{k}.5,{k * k},{WORDS[k]},{3 - k}" for k in range(8)]
COLOURS = f"{ADVISE} {{}}.csv --one-hot colour"

TEXTS = {
    "empty": [],
    "header": ["a,b,y"],
    "text": ["a,b,y", "1,2,3", "4,hello,6"],
    "ragged": ["1,2,3", "4,5"],
    "quoted": ["a,b,y", "1,Paris, France,3"],
    "narrow": ["1", "2", "3"],
    "narrow_named": ["y", "1", "2", "3"],
    "one_row": ["a,b,y", "1,2,3"],
    "nan": ["1,2,3", "4,nan,6", "7,8,9"],
    "blank": ["1,2,3", "4,,6"],
    "good": ["a,b,y", "1,2,3", "4,5,7", "7,8,8"],
    "four": ["a,b,y", "1,2,3", "4,5,7", "7,8,8", "2,9,1"],
    "wide": ["a,b,c,y", "1,2,3,4", "4,5,6,7"],
    "nameless": ["1,2,3", "4,5,7", "7,8,8"],
    "narrower": ["1,2", "4,5"],
    "twice": ["a,y, y", "1,2,3", "4,5,7"],
    "underscore": ["a,y", "1,2", "1_0,3"],
    "blank_lines": ["a,y", "", "1,2", "", "x,3"],
    "thousands": ["a;y", "1,234;2", "3;4"],
    "quoted_thousands": ["a,b,y", '1,"1,234",3', '4,"5,000",7', '7,"8,000",8'],
    "both_signs": ["a;y", "1,5;2.5", "3;4"],
    "commas": ["a,b,y", "1,5,2,5,3,5"],
    "copy": ["a,z,y", "1,2,2", "4,5,5", "7,8,8"],
    "constant_target": ["a,b,y", "1,2,3", "4,5,3", "7,8,3"],
    "constant_features": ["a,b,y", "1,2,3", "1,2,4", "1,2,5"],
    "words": ["a,city,y", "1,Paris,3", "4,Rome,7", "7,Rome,8", "2,Paris,1"],
    "many_words": ["name,city,y", "x,Paris,3", "z,Rome,7", "v,Rome,8"],
    "row_names": [",a,y", "Fiat 128,1,3", "Volvo 142E,2,7", "Mazda RX4,4,8"],
    "word_target": ["a,b,y", "1,2,low", "4,5,high", "7,8,low"],
    "gaps": ["a,last year,y", "1,2,3", "4,NA,7", "7,,8"],
    "trailing": ["a,y,", "1,2,", "2,5,", "4,3,"],
    "endless": ["a,b,y", "1,2,3", "4,inf,7", "7,8,8"],
    "taken": ["city_Rome,city,y", "1,Paris,3", "4,Rome,7", "7,Rome,8", "2,Paris,1"],
    "lacks": ["a,y", "1,2", "3,4"],
    "few_mistakes": [HEADER, *ROWS, *ROWS[1:], "oops,1,red,2"],
    "all_words": [HEADER, *(f"x{row}" for row in ROWS)],
    "many_gaps": [HEADER, *ROWS[:5], ",,red,2", *ROWS[5:], "NaN,1,red,2"],
    "gap_of_target": [HEADER, *ROWS[:5], "1,2,red,"],
    "gap_of_words": [HEADER, *ROWS[:5], "1,1,,2"],
    "dates": ["a,day,colour,y", *(f"{k},2024-01-0{k + 1},{WORDS[k]},{k * k}" for k in range(8))],
    "percentages": ["a,rate,colour,y", *(f"{k},{k}.5%,{WORDS[k]},{k * k}" for k in range(8))],
    "classes": [HEADER, *(f"{k},{k * k},{WORDS[k]},{'yes' if k % 2 else 'no'}" for k in range(8))],
}
"""Lines of csv files."""
BYTES = {
    "binary.csv": b"\xff\xfe\x00\x01\x80",
    "corrupt.npz": b"PK\x03\x04 not a zip",
    "corrupt.npy": b"\x93NUMPY garbage",
    "corrupt.parquet": b"PAR1 not really",
    "file.txt": b"1 2 3",
    "file": b"a,b,y\n1,2,3\n",
}
ARRAYS = {
    "good": {"X": [[1, 2], [4, 5], [7, 8]], "y": [3, 7, 8]},
    "known": {"X": [[1, 2], [4, 5], [7, 9]], "y": [3, 7, 8], "beta_star": [1, 0], "noise": 1},
    "nameless": {"arr_0": np.eye(3)},
    "flat": {"X": np.arange(3.0), "y": np.arange(3.0)},
    "outputs": {"X": np.eye(3), "y": np.ones((3, 2))},
}
PARQUET = {
    "words": ([["x", "y"], [1.0, 2.0]], ["a", "y"]),
    "gaps": ([[None, 1.0], [1.0, 2.0]], ["a", "y"]),
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with all sorts of files in it."""
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    for name, lines in TEXTS.items():
        Path(f"{name}.csv").write_text("".join(f"{line}\n" for line in lines))
    for name, content in BYTES.items():
        Path(name).write_bytes(content)
    for name, arrays in ARRAYS.items():
        np.savez(f"{name}.npz", **arrays)
    for name, (columns, names) in PARQUET.items():
        pyarrow.parquet.write_table(pyarrow.table(columns, names=names), f"{name}.parquet")
    Path("link.csv").symlink_to("good.csv")
    np.save("objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.save("vector.npy", np.arange(5.0))
    with zipfile.ZipFile("zip.npz", "w") as archive:
        archive.writestr("readme", "hello")


@for_all(
    "line, message",
    [
        # Commands and flags.
        ("nonsense", 'Unknown command "nonsense"'),
        (f"{CURVE} --nonsense 3", "--nonsense"),
        ("curve extra --n 3 --p 2 --alpha 0.1", "extra"),
        ("completion tcsh", "fish"),
        ("completion", "requires an argument"),
        ("curve --n", "requires an argument"),
        # Numbers.
        ("curve --n 2.5 --p 3 --alpha 0.1", "2.5"),
        ("curve --n -5 --p 3 --alpha 0.1", "n must be a whole number between 1 and 1000000000, but it is -5"),
        ("curve --alpha 0.1", "give --n and --p to draw data, or --data FILE"),
        ("curve --n 5 --p 3", "exactly one of --alpha and --step must be given, but neither is"),
        (f"{CURVE} --step 0.1", "exactly one of --alpha and --step must be given, but both are"),
        (f"{CURVE} --epochs -1", "--epochs must be a whole number between 0 and 2^53, but it is -1"),
        (f"{CURVE} --batches 0", "--batches must be whole numbers of at least 1"),
        (f"{CURVE} --batches two", "such as 1,2,4, but it is 'two'"),
        (f"{CURVE} --scheme bogosort", "--scheme must be among reshuffling, sample-reshuffling, cyclic"),
        (f"{CURVE} --simulate 5", "runs must be even"),
        # Covariances.
        (f"{CURVE} --covariance diagonal", "--covariance must be identity, powerlaw:EXP or a FILE"),
        (f"{CURVE} --covariance powerlaw:x", "--covariance must be powerlaw:EXP with a number"),
        (f"{CURVE} --covariance missing.npy", "missing.npy: No such file or directory"),
        (f"{CURVE} --covariance vector.npy", "its shape is (5,)"),
        (f"{CURVE} --covariance nameless.npz", "must hold an array named covariance"),
        (f"{CURVE} --covariance text.csv", "must be a number"),
        # Data files.
        (f"{OWN} missing.csv", "missing.csv: No such file or directory"),
        (f"{OWN} file.txt", "file.txt must end in .npz, .npy, .csv or .parquet"),
        (f"{OWN} empty.csv", "empty.csv is empty"),
        (f"{OWN} header.csv", "has a header but no rows"),
        (f"{OWN} text.csv", "text.csv: line 3, column 'b' must be a number, but it is 'hello'"),
        (
            f"{OWN} blank.csv",
            "'column 2' has 1 missing value, the first in line 2; drop or fill in such rows",
        ),
        (f"{OWN} ragged.csv", "line 2 has 2 cells, but the first line has 3"),
        (f"{OWN} narrow.csv", "at least two columns"),
        (f"{OWN} binary.csv", "is not a text file in UTF-8"),
        (f"{OWN} corrupt.npz", "is not a readable numpy file"),
        (f"{OWN} zip.npz", "must hold an array named X"),
        (f"{OWN} objects.npy", "is not a readable numpy file of numbers"),
        (f"{OWN} corrupt.parquet", "is not a readable parquet file"),
        (f"{OWN} words.parquet", "row 1, column 'a' must be a number, but it is 'x'"),
        (f"{OWN} gaps.parquet", "column 'a' has 1 missing value, the first in row 1"),
        (f"{OWN} nameless.npz", "must hold an array named X, but it holds arr_0"),
        (f"{OWN} outputs.npz", "y must be a vector, one response per row, but its shape is (3, 2)"),
        (f"{OWN} flat.npz", "X must be two-dimensional"),
        (f"{OWN} vector.npy", "at least two columns"),
        (f"{OWN} good.csv --target price", "must be a column of good.csv, which has columns a, b, y"),
        (f"{OWN} nan.csv --target price", "which has no header"),
        (f"{OWN} flat.npz --target y", "a npz file holds X and y"),
        (f"{OWN} vector.npy --target y", "a npy file has no names"),
        (f"{OWN} good.csv --n 5", "--data brings its own n and p"),
        (f"{OWN} wide.csv --test good.csv", "must have the columns of wide.csv, but it lacks c"),
        (f"{OWN} good.csv --test nameless.csv", "but good.csv does and nameless.csv does not"),
        (f"{OWN} good.csv --test good.npz", "but good.csv does and good.npz does not"),
        (f"{OWN} nameless.csv --test narrower.csv", "must have 2 features as the data has, but it has 1"),
        (f"{CURVE} --test good.csv", "--test holds out rows of --data, which is not given"),
        (f"{OWN} twice.csv", "these share one: columns 2 and 3 (y)"),
        (f"{OWN} underscore.csv", "line 3, column 'a' must be a number, but it is '1_0'"),
        (f"{OWN} blank_lines.csv", "line 5, column 'a' must be a number, but it is 'x'"),
        (f"{OWN} thousands.csv", "'1,234' has a comma, and may have one for thousands"),
        (f"{OWN} both_signs.csv", "'1,5' has a comma, and '2.5' has a point"),
        (
            f"{OWN} commas.csv",
            "line 2 has 6 cells, but the first line has 3. If its numbers have decimal commas",
        ),
        (f"{OWN} known.npz --intercept", "but beta_star would stay those of the old ones"),
        (f"{CURVE} --intercept", "--intercept speaks of the columns of --data, which is not given"),
        (f"{CURVE} --target y", "--target speaks of the columns of --data, which is not given"),
        # Destinations.
        (f"{CURVE} --plot picture.bmp", "--plot must end in .png, .svg, .pdf"),
        (f"{CURVE} --plot nowhere/picture.png", "there is no folder nowhere"),
        (f"{CURVE} --csv folder", "'folder' is a folder"),
        (f"{CURVE} --json --csv", "--json must name a file or be -"),
        (f"{CURVE} --json - --csv -", "cannot both write to standard output"),
        (f"{CURVE} --csv a --json a", "--json must not overwrite --csv, but both are the file 'a'"),
        (f"{CURVE} --csv good.csv --json link.csv", "--json must not overwrite --csv"),
        (f"{OWN} good.csv --csv good.csv", "--csv must not overwrite --data"),
        (f"{OWN} good.csv --test wide.csv --json wide.csv", "--json must not overwrite --test"),
        (f"{CURVE} --covariance vector.npy --json vector.npy", "--json must not overwrite --covariance"),
        # Options under the names that other programs have for them.
        ("curve --n 5 --p 3 --lr 0.1", "Unknown option: --lr. Did you mean --step?"),
        ("curve --n 5 --p 3 --ridge=0.1", "Unknown option: --ridge. Did you mean --weight-decay?"),
        ("limits --aspect 1 --alpha 1 --lr 0.1", "Unknown option: --lr. Did you mean --alpha?"),
        # Recipes.
        (
            f"{CURVE} --batches 2 --batch-size 3",
            "at most one of --batches and --batch-size must be given, but both are",
        ),
        (f"{CURVE} --drop-last", "--drop-last needs --batch-size"),
        (f"{CURVE} --weight-decay -1", "--weight-decay must be"),
        (f"{CURVE} --scheme sample-with-replacement --batches 11", "give --batch-size"),
        (
            "curve --n 4 --p 3 --step 1e308 --batches 2",
            "try less than the critical one, which reshuffle stability",
        ),
        # Spectra.
        ("spectrum", "give --aspect and --alpha, or --expression"),
        ("spectrum --aspect 0.5 --alpha 0.2 --law x=sc(1)", "--law describes a variable of --expression"),
        (
            "spectrum --aspect 0.5 --alpha 0.2 --moments 0",
            "--moments must be a whole number between 1 and 12",
        ),
        ("spectrum --aspect 0.5 --alpha 0.2 --sample 1", "--sample must be a whole number between 2"),
        (f"{LAW} x --aspect 0.5", "leave out --aspect and --alpha"),
        ("spectrum --expression x", "needs the law of every variable"),
        (f"{LAW} x*y", "self-adjoint"),
        (f"{LAW} z", 'or one of the variables x, y, but there is "z"'),
        ("spectrum --expression x --law x", "expected the name of a variable, = and a law"),
        # Stability and limits.
        ("stability", "give --n and --p"),
        (
            "stability --aspect 1 --n 5",
            "leave out --mean-square and the options of a problem and of a recipe",
        ),
        ("stability --aspect 1 --momentum 0.5", "and the options of a problem and of a recipe"),
        ("stability --aspect 1 --mean-square", "describes the mean over orders of ever larger data"),
        ("stability --aspect 1 --scheme with-replacement", "must be reshuffling or full-batch with --aspect"),
        ("limits --aspect 1.5", "give --alpha, the full-batch step, or --best"),
        ("limits --aspect 1 --alpha 0.1 --budget 3", "--budget is for --best"),
        (f"{BEST} --alpha 0.1", "--best finds the step by itself"),
        (f"{BEST} --budget 0", "--budget must be a whole number of at least 1"),
        (f"{BEST} --covariance power:x", "--covariance must be power:A"),
        ("limits --one-pass --steps 0", "--steps must be a whole number of at least 1"),
        ("limits --one-pass --aspect 1", "--one-pass has no epochs"),
        ("limits --aspect 1 --alpha 0.1 --steps 5", "--one-pass, which is not given"),
        # Influence.
        ("influence --n 20 --p 3 --step 0.1", "--row"),
        ("influence --n 20 --p 3 --row 1", "exactly one of --alpha and --step must be given, but neither is"),
        (
            "influence --n 20 --p 3 --step 0.1 --row 21",
            "must be a whole number between 1 and 20, but it is 21",
        ),
        ("influence --n 20 --p 3 --step 0.1 --row 1 --batches 2,4", "one number or size of batches"),
        ("influence --data four.csv --test one_row.csv --step 0.1 --row 2", "between 1 and 1, but it is 2"),
        # Advice.
        ("advise", "--data"),
        ("advise four.csv --target y", "Did you mean --data four.csv?"),
        (
            "advise --data four.csv",
            "--target must name the column of four.csv to be predicted, one of a, b, y",
        ),
        (f"{ADVISE} folder", "folder must be a table with names of columns, .csv or .parquet, for advice"),
        (f"{ADVISE} file.txt", "but it ends in '.txt'"),
        (f"{ADVISE} nameless.csv", "must name its columns in its first line, but that is '1,2,3'"),
        (f"{ADVISE} narrow_named.csv", "must have a column other than --target to learn from"),
        (f"{ADVISE} one_row.csv", "must have at least 3 rows, to leave one out"),
        (f"{ADVISE} quoted.csv", "line 2 has 4 cells, but the first line has 3; entries with commas"),
        (f"{ADVISE} copy.csv", "column 'z' is a copy of --target y and would give it away"),
        (f"{ADVISE} constant_target.csv", "--target y is 3 in every row of constant_target.csv"),
        (f"{ADVISE} constant_features.csv", "must have a feature that is not constant"),
        (
            f"{ADVISE} words.csv",
            "line 2, column 'city' must be a number, but it is 'Paris', one of 2 different entries; "
            "encode categories with --one-hot city, or leave the column out with --drop city",
        ),
        (
            f"{ADVISE} many_words.csv",
            "column 'name' must be a number, but it is 'x', and no entry comes twice, as in names of rows; leave "
            "the column out with --drop name, or write numbers. No numbers either are in column 'city' (2 "
            "different entries).",
        ),
        (
            f"{ADVISE} row_names.csv",
            "'Fiat 128', and no entry comes twice, as in names of rows; leave the column "
            "out with --drop '', or write numbers.\n",
        ),
        (f"{ADVISE} many_words.csv --drop city --one-hot name", "every row of many_words.csv has another"),
        (f"{ADVISE} taken.csv --one-hot city", "taken.csv has city_Rome already; rename one of them"),
        (
            f"{ADVISE} gaps.csv",
            "column 'last year' has 2 missing values, the first in line 3; drop or fill in such rows, "
            "or leave the column out with --drop 'last year'",
        ),
        (f"{ADVISE} trailing.csv", "column '' is empty; leave it out with --drop ''.\n"),
        (f"{ADVISE} endless.csv", "line 3, column 'b' must be a finite number, but it is inf"),
        (f"{ADVISE} quoted_thousands.csv", "'1,234' has a comma, and may have one for thousands"),
        (f"{GOOD} --target y", "--target must name each column once, but it names 'y' 2 times"),
        (f"{GOOD} --drop z", "--drop must be a column of four.csv"),
        (f"{GOOD} --drop y", "--drop and --target must name different columns, but both name y"),
        (f"{GOOD} --one-hot a --drop a", "--one-hot and --drop must name different columns"),
        (f"{GOOD} --drop a,b", "must have a feature that is not constant, other than --target"),
        (f"{GOOD} --batch-size 2,5", "--batch-size must be at most 4, the rows of four.csv, but it is 5"),
        (f"{GOOD} --momentum 1", "--momentum must be numbers of at least 0 and below 1"),
        (f"{GOOD} --penalty nan", "but it is 'nan'"),
        (f"{GOOD} --epochs 0", "--epochs must be a whole number of at least 1, but it is 0"),
        (f"{GOOD} --label y", "Did you mean --target?"),
        (f"{GOOD} --test four.csv", "--test must hold other rows than --data"),
        (f"{GOOD} --test lacks.csv", "must have the columns of four.csv, but it lacks b"),
        (f"{GOOD} --test one_row.csv --csv one_row.csv", "--csv must not overwrite --test"),
        (
            COLOURS.format("few_mistakes"),
            "line 17, column 'a' must be a number, but it is 'oops'; correct it",
        ),
        (
            COLOURS.format("all_words"),
            "'x0.5', and no entry comes twice, as in names of rows; leave the column out with --drop a, or write",
        ),
        (
            COLOURS.format("many_gaps"),
            "columns 'a' (2), 'b' (1) have missing values, the first in line 7; drop or fill in such rows, or "
            "leave the columns out with --drop a --drop b, or take --fill median.\n",
        ),
        (
            COLOURS.format("gap_of_target"),
            "column 'y' has 1 missing value, the first in line 7; drop or fill in such rows.\n",
        ),
        (
            COLOURS.format("gap_of_words"),
            "column 'colour' has 1 missing value, the first in line 7; write a word for it",
        ),
        (
            COLOURS.format("dates"),
            "line 2, column 'day' must be a number, but it is the date '2024-01-01'; write numbers, such as days "
            "since the first, or leave the column out with --drop day",
        ),
        (
            f"{ADVISE} dates.csv",
            "leave the column out with --drop day. The same goes for column 'colour' (",
        ),
        (
            COLOURS.format("percentages"),
            "column 'rate' must be a number, but it is the percentage '0.5%'; write numbers without the sign",
        ),
        (
            f"{OWN} classes.csv --one-hot colour",
            "column 'y' must be a number, but it is 'no', one of 2 different entries; reshuffle advise --classes "
            "learns classes; here write 0 and 1 for its classes, or name another target.\n",
        ),
        # Sweeps.
        (SWEEP, "out"),
        (f"{SWEEP} --out ''", "--out must name a folder"),
        (f"{SWEEP} --out good.csv", "--out must be a folder, but good.csv is a file."),
        (f"{SWEEP} --out grid --ask luck", "--ask must be among risk, expected-risk"),
        (
            f"{SWEEP} --out grid --batches 2 --batch-size 5",
            "at most one of --batches and --batch-size must be given",
        ),
        (
            f"{SWEEP} --out grid --step 0.1 --alpha 0.1",
            "at most one of --step and --alpha must be given, but both are",
        ),
        (f"{SWEEP} --out grid --step fast", "--step must be numbers of at least 0"),
        (f"{SWEEP} --out grid --epochs 0", "--epochs must be a whole number between 1"),
        (f"{SWEEP} --out grid --jobs 0", "--jobs must be"),
        (f"{SWEEP} --out grid --jobs 2 --scheduler tcp://a:1", "at most one of --jobs and --scheduler"),
        ("sweep --data four.csv --out grid --ask risk", "needs beta_star and noise"),
        # Reproduce and explore.
        ("reproduce figure-seven", "NAME must be among spectra-under"),
        ("reproduce --out file.txt", "--out must be a folder, but file.txt is a file"),
        *((f"explore --no-browser --port {port}", "--port") for port in ("-1", "65536", "web", "80.5")),
        ("explore --host 0.0.0.0", "--host"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(capsys, line, message):
    outcome = run(capsys, line)
    assert outcome.code == 2, outcome
    assert message in outcome.err, outcome.err
    assert outcome.out == ""
    assert outcome.err.startswith("reshuffle: ")
    assert outcome.err.count("\n") == 1
    assert not Path("grid").exists()


@pytest.mark.slow
@for_all(
    "line, message",
    [
        (f"curve --n {10**9} --p {10**9} --alpha 0.1", "not enough memory"),
        ("limits --aspect 1 --alpha 1e8 --batches 4", "alpha is so large"),
        ("limits --aspect 1 --alpha 1e8 --batches 4", "critical_alpha"),
    ],
)
def test_a_computation_that_fails_is_one_line_and_exit_code_one(capsys, line, message):
    outcome = run(capsys, line)
    assert outcome.code == 1, outcome
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


@for_all("address", ["nonsense", "luck://127.0.0.1:1", ""])
def test_a_dead_scheduler_is_one_line(capsys, monkeypatch, address):
    monkeypatch.setattr(sweep, "_PATIENCE", 0.2)
    with socket.socket() as unheard:
        # Bound, so that nobody else answers there, but not listening.
        unheard.bind(("127.0.0.1", 0))
        address = address or f"tcp://127.0.0.1:{unheard.getsockname()[1]}"
        outcome = run(capsys, f"{SWEEP} --batches 1 --step 0.1 --out cluster --scheduler {address}")
    assert outcome.code == 1
    assert f"{address}: no Dask scheduler answers there" in outcome.err
    assert outcome.err.count("\n") == 1


@for_all(
    "error, code",
    [
        (np.linalg.LinAlgError("singular"), console.FAILED),
        (OverflowError("far"), console.FAILED),
        (MemoryError(), console.FAILED),
        (BudgetError("try fewer batches"), console.FAILED),
        (RuntimeError("what"), console.FAILED),
        (KeyError("what"), console.FAILED),
        (ValueError("no"), console.BAD_INPUT),
        (TypeError("no"), console.BAD_INPUT),
        (FileNotFoundError(2, "No such file or directory", "x.csv"), console.BAD_INPUT),
        (OSError(28, "No space left on device"), console.FAILED),
        (ModuleNotFoundError("pictures need matplotlib"), console.BAD_INPUT),
    ],
)
def test_every_error_has_a_code_and_a_message(error, code):
    message, found = console.explain(error)
    assert found == code
    assert message


def test_warnings_are_one_line(capsys, monkeypatch):
    pose = curves.pose

    def warn(options):
        warnings.warn("the answer\nis only as good as it gets", RuntimeWarning, stacklevel=1)
        return pose(options)

    monkeypatch.setattr(curves, "pose", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        outcome = run(capsys, "stability --n 5 --p 3 --batches 1 --json -")
    assert outcome.code == 0
    assert outcome.err == "reshuffle: warning: the answer is only as good as it gets\n"


def test_without_pyarrow_the_error_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    outcome = run(capsys, f"{OWN} corrupt.parquet")
    assert outcome.code == 2
    assert "install pyarrow" in outcome.err
    assert "reshuffle[" not in outcome.err


LONG = {
    "a long cell": [HEADER, *ROWS[:4], f"1,2,red,{'7' * 50_000}x{'7' * 50_000}"],
    "many words": [HEADER, *(f"{'w' * 1000}{k},1,red,2" for k in range(500))],
    "a null": [HEADER, *ROWS[:4], "1\0,2,red,1"],
    "a long name": [f"{'n' * 100_000},b,colour,y", *(f"w{row}" for row in ROWS)],
    "a gap under a long name": [f"{'n' * 100_000},b,colour,y", *ROWS[:4], ",1,red,2"],
    "one name": [",".join(["same"] * 5000), ",".join(["1"] * 5000)],
    "many pairs": [",".join(f"{k // 2}" + "n" * 100 for k in range(5000)), ",".join(["x"] * 5000)],
    "many names": [",".join(["n" * 100 + str(k) for k in range(3000)]), ",".join(["1"] * 3000)],
}


if int(pandas.__version__.split(".")[0]) < 3:
    del LONG["a null"]  # which these versions drop


@for_all("name", LONG)
def test_messages_about_cells_and_names_are_short(capsys, name):
    Path("mine.csv").write_text("\n".join(LONG[name]) + "\n")
    for line in (f"{ADVISE} mine.csv --one-hot colour", f"{OWN} mine.csv --target y"):
        outcome = run(capsys, line)
        assert outcome.code == 2
        assert "mine.csv" in outcome.err
        assert len(outcome.err) < 1100


def test_a_long_cell_is_named_by_its_line_and_its_column(capsys):
    Path("mine.csv").write_text(f"a,y\n1,2\n2,{'z' * 100_000}\n3,4\n")
    said = run(capsys, f"{OWN} mine.csv").err
    assert "line 3, column 'y' must be a number" in said
    assert "(100000 characters)" in said
    assert "correct it, or leave out its row" in said
    assert len(said) < 260
