"""Bad input: exit code 2 (or 1 where a computation failed), one line on standard error, and never a traceback."""

import zipfile

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from reshuffle.cli import console
from reshuffle.errors import BudgetError
from tests.cli.terminal import run
from tests.looped import for_all

CURVE = "curve --n 20 --p 10 --alpha 0.1"
OWN = "curve --step 0.1 --data"
LAW = "spectrum --law x=sc(1) --law y=mp(0.5) --expression"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with all sorts of files in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("a,b,y\n")
    (tmp_path / "text.csv").write_text("a,b,y\n1,2,3\n4,hello,6\n")
    (tmp_path / "ragged.csv").write_text("1,2,3\n4,5\n")
    (tmp_path / "narrow.csv").write_text("1\n2\n3\n")
    (tmp_path / "nan.csv").write_text("1,2,3\n4,nan,6\n7,8,9\n")
    (tmp_path / "blank.csv").write_text("1,2,3\n4,,6\n")
    (tmp_path / "good.csv").write_text("a,b,y\n1,2,3\n4,5,7\n7,8,8\n")
    (tmp_path / "wide.csv").write_text("a,b,c,y\n1,2,3,4\n4,5,6,7\n")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x01\x80")
    (tmp_path / "corrupt.npz").write_bytes(b"PK\x03\x04 not a zip")
    (tmp_path / "corrupt.npy").write_bytes(b"\x93NUMPY garbage")
    (tmp_path / "corrupt.parquet").write_bytes(b"PAR1 not really")
    (tmp_path / "file.txt").write_text("1 2 3")
    (tmp_path / "link.csv").symlink_to("good.csv")
    (tmp_path / "nameless.csv").write_text("1,2,3\n4,5,7\n7,8,8\n")
    (tmp_path / "narrower.csv").write_text("1,2\n4,5\n")
    (tmp_path / "twice.csv").write_text("a,y, y\n1,2,3\n4,5,7\n")
    (tmp_path / "underscore.csv").write_text("a,y\n1,2\n1_0,3\n")
    (tmp_path / "blank_lines.csv").write_text("a,y\n\n1,2\n\nx,3\n")
    (tmp_path / "thousands.csv").write_text("a;y\n1,234;2\n3;4\n")
    (tmp_path / "both_signs.csv").write_text("a;y\n1,5;2.5\n3;4\n")
    (tmp_path / "commas.csv").write_text("a,b,y\n1,5,2,5,3,5\n")
    np.savez(tmp_path / "good.npz", X=[[1, 2], [4, 5], [7, 8]], y=[3, 7, 8])
    np.savez(tmp_path / "known.npz", X=[[1, 2], [4, 5], [7, 9]], y=[3, 7, 8], beta_star=[1, 0], noise=1)
    table = pyarrow.table([[1.0], [2.0], [3.0]], names=["a", "a", "y"])
    pyarrow.parquet.write_table(table, tmp_path / "twice.parquet")
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "vector.npy", np.arange(5.0))
    np.save(tmp_path / "negative.npy", -np.ones(10))
    np.savez(tmp_path / "nameless.npz", np.eye(3))
    np.savez(tmp_path / "flat.npz", X=np.arange(3.0), y=np.arange(3.0))
    np.savez(tmp_path / "uneven.npz", X=np.eye(3), y=np.arange(4.0))
    np.savez(tmp_path / "complex.npz", X=np.eye(3) * 1j, y=np.arange(3.0))
    with zipfile.ZipFile(tmp_path / "zip.npz", "w") as archive:
        archive.writestr("readme", "hello")
    return tmp_path


@for_all(
    "line, message",
    [
        # Commands and flags.
        ("nonsense", 'Unknown command "nonsense"'),
        ("--nonsense", 'Unknown command "--nonsense"'),
        (f"{CURVE} --nonsense 3", "--nonsense"),
        ("curve extra --n 3 --p 2 --alpha 0.1", "extra"),
        ("completion tcsh", "Choose from"),
        ("completion", "requires an argument"),
        ("limits --aspect 1.5", "--alpha"),
        ("curve --n", "requires an argument"),
        # Numbers.
        ("curve --n abc --p 3 --alpha 0.1", "abc"),
        ("curve --n 2.5 --p 3 --alpha 0.1", "2.5"),
        ("curve --n -5 --p 3 --alpha 0.1", "n must be a whole number of at least 1, but it is -5"),
        ("curve --n 0 --p 3 --alpha 0.1", "n must be a whole number of at least 1, but it is 0"),
        ("curve --n 5 --p 0 --alpha 0.1", "p must be a whole number of at least 1, but it is 0"),
        ("curve --n 5 --p -3 --alpha 0.1 --covariance powerlaw:1", "p must be a whole number of at least 1"),
        ("curve --n 5 --alpha 0.1", "give --n and --p"),
        ("curve --alpha 0.1", "give --n and --p to draw data, or --data FILE"),
        ("curve --n 5 --p 3", "exactly one of --alpha and --step must be given, but neither is"),
        (f"{CURVE} --step 0.1", "exactly one of --alpha and --step must be given, but both are"),
        ("curve --n 5 --p 3 --alpha -1", "alpha must be a finite number >= 0, but it is -1.0"),
        ("curve --n 5 --p 3 --alpha nan", "alpha must be a finite number >= 0, but it is nan"),
        ("curve --n 5 --p 3 --step inf", "step must be a finite number >= 0, but it is inf"),
        (f"{CURVE} --noise -1", "noise must be a finite number >= 0, but it is -1.0"),
        (f"{CURVE} --seed -1", "seed must be a whole number of at least 0, but it is -1"),
        (f"{CURVE} --epochs -1", "--epochs must be a whole number between 0 and 2^53, but it is -1"),
        (f"{CURVE} --batches 0", "--batches must be whole numbers of at least 1"),
        (f"{CURVE} --batches 1,,2", "--batches must be whole numbers of at least 1"),
        (f"{CURVE} --batches two", "such as 1,2,4, but it is 'two'"),
        (f"{CURVE} --batches 2.5", "but it is '2.5'"),
        (f"{CURVE} --batches 21", "batches must be a whole number between 1 and 20, the number of rows"),
        (f"{CURVE} --scheme bogosort", "--scheme must be among reshuffling, sample-reshuffling, cyclic"),
        (f"{CURVE} --simulate 3", "runs must be a whole number of at least 4"),
        (f"{CURVE} --simulate 5", "runs must be even"),
        (f"{CURVE} --simulate -2", "runs must be a whole number of at least 4"),
        # Covariances.
        (f"{CURVE} --covariance diagonal", "--covariance must be identity, powerlaw:EXP or a FILE"),
        (f"{CURVE} --covariance powerlaw", "powerlaw:EXP needs a number"),
        (f"{CURVE} --covariance powerlaw:x", "powerlaw:EXP needs a number"),
        (f"{CURVE} --covariance missing.npy", "missing.npy: No such file or directory"),
        (f"{CURVE} --covariance negative.npy", "covariance must be positive semidefinite"),
        (f"{CURVE} --covariance vector.npy", "its shape is (5,)"),
        (f"{CURVE} --covariance nameless.npz", "must hold an array named covariance"),
        (f"{CURVE} --covariance text.csv", "must be a number"),
        # Data files.
        (f"{OWN} missing.csv", "missing.csv: No such file or directory"),
        (f"{OWN} missing.parquet", "missing.parquet: No such file or directory"),
        (f"{OWN} folder/x.npz", "No such file or directory"),
        (f"{OWN} file.txt", "data files end in .npz, .npy, .csv or .parquet"),
        (f"{OWN} empty.csv", "empty.csv is empty"),
        (f"{OWN} header.csv", "has a header but no rows"),
        (f"{OWN} text.csv", "text.csv: line 3, column 'b' must be a number, but it is 'hello'"),
        (
            f"{OWN} blank.csv",
            "column 'column 2' has 1 missing value, the first in line 2; drop or fill in such rows",
        ),
        (f"{OWN} ragged.csv", "line 2 has 2 cells, but the first line has 3"),
        (f"{OWN} narrow.csv", "at least two columns"),
        (f"{OWN} nan.csv", "column 'column 2' has 1 missing value, the first in line 2"),
        (f"{OWN} binary.csv", "is not a text file in UTF-8"),
        (f"{OWN} corrupt.npz", "is not a readable numpy file"),
        (f"{OWN} zip.npz", "must hold an array named X"),
        (f"{OWN} corrupt.npy", "is not a readable numpy file"),
        (f"{OWN} objects.npy", "is not a readable numpy file of numbers"),
        (f"{OWN} corrupt.parquet", "is not a readable parquet file"),
        (f"{OWN} nameless.npz", "must hold an array named X, but it holds arr_0"),
        (f"{OWN} flat.npz", "X must be two-dimensional"),
        (f"{OWN} uneven.npz", "y must have shape (3,)"),
        (f"{OWN} complex.npz", "X must hold real numbers"),
        (f"{OWN} vector.npy", "at least two columns"),
        (
            f"{OWN} good.csv --target price",
            "--target must be a column of good.csv, which has columns a, b, y",
        ),
        (f"{OWN} nan.csv --target price", "which has no header"),
        (f"{OWN} flat.npz --target y", "a npz file holds X and y"),
        (f"{OWN} vector.npy --target y", "a npy file has no names"),
        (f"{OWN} good.csv --n 5", "--data brings its own n and p"),
        (
            f"{OWN} good.csv --test wide.csv",
            "must have the columns of good.csv, in any order, but it also has c",
        ),
        (
            f"{OWN} wide.csv --test good.csv",
            "must have the columns of wide.csv, in any order, but it lacks c",
        ),
        (f"{OWN} good.csv --test nameless.csv", "but good.csv does and nameless.csv does not"),
        (f"{OWN} nameless.csv --test good.csv", "but good.csv does and nameless.csv does not"),
        (f"{OWN} good.csv --test good.npz", "but good.csv does and good.npz does not"),
        (
            f"{OWN} nameless.csv --test narrower.csv",
            "--test must have 2 features as the data has, but it has 1",
        ),
        (f"{CURVE} --test good.csv", "--test holds out rows of --data, which is not given"),
        (f"{OWN} twice.csv", "these share one: columns 2 and 3 (y)"),
        (f"{OWN} twice.csv --target y", "these share one: columns 2 and 3 (y)"),
        (f"{OWN} twice.csv --target a", "these share one: columns 2 and 3 (y)"),
        (f"{OWN} good.csv --test twice.csv", "these share one: columns 2 and 3 (y)"),
        (f"{OWN} twice.parquet", "these share one: columns 1 and 2 (a)"),
        (f"{OWN} underscore.csv", "line 3, column 'a' must be a number, but it is '1_0'"),
        (f"{OWN} blank_lines.csv", "line 5, column 'a' must be a number, but it is 'x'"),
        (f"{OWN} thousands.csv", "'1,234' has a comma, and may have one for thousands"),
        (f"{OWN} both_signs.csv", "'1,5' has a comma, and stands beside '2.5'"),
        (
            f"{OWN} commas.csv",
            "line 2 has 6 cells, but the first line has 3. If its numbers have decimal commas",
        ),
        (f"{CURVE} --intercept", "--intercept speaks of the columns of --data, which is not given"),
        (f"{CURVE} --standardize", "--standardize speaks of the columns of --data, which is not given"),
        (f"{OWN} known.npz --intercept", "but beta_star would stay those of the old ones"),
        (f"{OWN} good.csv --test missing.csv", "missing.csv: No such file"),
        (f"{CURVE} --target y", "--target speaks of the columns of --data, which is not given"),
        # Destinations.
        (f"{CURVE} --plot picture.bmp", "--plot must end in .png, .svg, .pdf"),
        (f"{CURVE} --plot nowhere/picture.png", "there is no folder nowhere"),
        (f"{CURVE} --csv folder", "'folder' is a folder"),
        (f"{CURVE} --json --csv", "--json must name a file or be -"),
        (f"{CURVE} --json - --csv -", "cannot both write to standard output"),
        (f"{CURVE} --csv a --json a", "--json must not overwrite --csv, but both are the file 'a'"),
        (f"{CURVE} --csv a --json folder/../a", "--json must not overwrite --csv"),
        (f"{CURVE} --csv good.csv --json link.csv", "--json must not overwrite --csv"),
        (f"{CURVE} --plot a.png --csv ./a.png", "--csv must not overwrite --plot"),
        (f"{OWN} good.csv --csv good.csv", "--csv must not overwrite --data"),
        (f"{OWN} good.csv --test wide.csv --json wide.csv", "--json must not overwrite --test"),
        (f"{CURVE} --covariance vector.npy --json vector.npy", "--json must not overwrite --covariance"),
        # Options under the names that other programs have for them.
        ("curve --n 5 --p 3 --lr 0.1", "Unknown option: --lr. Did you mean --step?"),
        ("curve --n 5 --p 3 --ridge=0.1", "Unknown option: --ridge. Did you mean --weight-decay?"),
        ("limits --aspect 1 --alpha 1 --lr 0.1", "Unknown option: --lr. Did you mean --alpha?"),
        # Recipes.
        (f"{CURVE} --batches 2 --batch-size 3", "exactly one of --batches and --batch-size may be given"),
        (f"{CURVE} --drop-last", "--drop-last needs --batch-size"),
        (f"{CURVE} --batch-size 0", "--batch-size must be whole numbers of at least 1"),
        (f"{CURVE} --momentum 1", "momentum must be"),
        (f"{CURVE} --penalty -1", "penalty must be"),
        (f"{CURVE} --rtol 0", "rtol must be"),
        (f"{CURVE} --budget -1", "budget must be"),
        (f"{CURVE} --scheme sample-with-replacement --batches 11", "give --batch-size"),
        (f"{CURVE} --scheme sample-subsets --batches 11", "give --batch-size"),
        ("stability --aspect 1 --momentum 0.5", "leave out the options of a problem and of a recipe"),
        ("stability --aspect 1 --mean-square", "leave out the options of a problem and of a recipe"),
        ("stability --n 20 --p 10 --penalty -1", "penalty must be"),
        # Spectra.
        ("spectrum", "give --aspect and --alpha, or --expression"),
        ("spectrum --aspect 0.5", "give --aspect and --alpha"),
        ("spectrum --aspect -1 --alpha 0.2", "aspect must be"),
        ("spectrum --aspect 0.5 --alpha 0", "alpha must be"),
        ("spectrum --aspect 0.5 --alpha 0.2 --batches 0", "--batches must be whole numbers"),
        ("spectrum --aspect 0.5 --alpha 0.2 --law x=sc(1)", "--law describes a variable of --expression"),
        (
            "spectrum --aspect 0.5 --alpha 0.2 --moments 0",
            "--moments must be a whole number between 1 and 12",
        ),
        ("spectrum --aspect 0.5 --alpha 0.2 --sample 1", "--sample must be a whole number between 2"),
        (f"{LAW} x --aspect 0.5", "leave out --aspect and --alpha"),
        ("spectrum --expression x", "needs the law of every variable"),
        (f"{LAW} x+", "expected + - * / **, brackets, numbers"),
        (f"{LAW} x*y", "self-adjoint"),
        (f"{LAW} z", 'or one of the variables x, y, but there is "z"'),
        (f"{LAW} 1/x", "x"),
        (f"{LAW} __import__('os').system('ls')", "expected + - * / **, brackets, numbers"),
        (f"{LAW} x.__class__.__mro__", "expected + - * / **, brackets, numbers"),
        (f"{LAW} eval('1')", "or one of the variables x, y"),
        ("spectrum --expression x --law x=open('f')", "expected a law"),
        ("spectrum --expression x --law x", "expected the name of a variable, = and a law"),
        ("spectrum --expression x --law x=mp(-1)", "ratio must be a finite real number"),
        (
            "spectrum --expression x --law x=mp(ratio=.5,ratio=.2)",
            "expected an argument that is not given yet",
        ),
        # Stability and limits.
        ("stability", "give --n and --p"),
        ("stability --aspect 0", "aspect must be"),
        ("stability --aspect 1 --n 5", "leave out the options of a problem"),
        (
            "stability --aspect 1 --scheme with-replacement",
            "--scheme must be reshuffling or full-batch with --aspect",
        ),
        ("limits --aspect nan --alpha 0.1", "aspect must be"),
        ("limits --aspect 1 --alpha -0.1", "alpha must be"),
        ("limits --aspect 1 --alpha 0.1 --noise -1", "noise must be"),
        ("limits --aspect 1 --alpha 0.1 --signal -1", "signal must be"),
        ("limits --aspect 1 --alpha 0.1 --epochs -3", "--epochs must be a whole number"),
        (
            "curve --n 4 --p 3 --step 1e308 --batches 2",
            "1e+308; try less than the critical one, which reshuffle stability prints",
        ),
        # Reproduce.
        ("reproduce figure-seven", "NAME must be among spectra-under"),
        ("reproduce --out file.txt", "--out must be a folder, but file.txt is a file"),
        ("reproduce --fast", "--fast"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(capsys, line, message):
    head, _, tail = line.partition(" --expression ")
    # An expression has spaces and quotes of its own.
    text, *rest = tail.split(" --") if tail else ("",)
    arguments = [*head.split(), *(["--expression", text] if tail else [])]
    for option in rest:
        arguments += f"--{option}".split()
    outcome = run(capsys, *arguments)
    assert outcome.code == 2, outcome
    assert message in outcome.err
    assert outcome.out == ""
    assert outcome.err.startswith("reshuffle: ")
    assert outcome.err.count("\n") == 1
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"curve --n {10**9} --p {10**9} --alpha 0.1", "not enough memory"),
    ],
)
def test_a_computation_that_fails_is_one_line_and_exit_code_one(capsys, line, message):
    outcome = run(capsys, *line.split())
    assert outcome.code == 1, outcome
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code"),
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
    import warnings

    import reshuffle.cli.curves as command

    def warn(*_):
        warnings.warn("the answer\nis only as good as it gets", RuntimeWarning, stacklevel=1)
        return []

    monkeypatch.setattr(command, "_on_data", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        outcome = run(capsys, "stability", "--n", "5", "--p", "3", "--json", "-")
    assert outcome.code == 0
    assert outcome.err == "reshuffle: warning: the answer is only as good as it gets\n"


def test_without_pyarrow_the_error_says_what_to_install(capsys, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    outcome = run(capsys, "curve", "--step", "0.1", "--data", "corrupt.parquet")
    assert outcome.code == 2
    assert "install pyarrow" in outcome.err
    assert "reshuffle[" not in outcome.err


def test_a_parquet_file_with_text_in_it(capsys, folder):
    from tests.cli.test_data import write_parquet

    write_parquet(folder / "text.parquet", a=["x", "y"], y=[1.0, 2.0])
    write_parquet(folder / "missing.parquet", a=[None, 1.0], y=[1.0, 2.0])
    for name, message in (
        ("text", "row 1, column 'a' must be a number, but it is 'x'"),
        ("missing", "column 'a' has 1 missing value, the first in row 1"),
    ):
        outcome = run(capsys, "curve", "--step", "0.1", "--data", f"{name}.parquet")
        assert outcome.code == 2
        assert message in outcome.err
