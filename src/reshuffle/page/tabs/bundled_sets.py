"""Data that are there without a file: those that scikit-learn brings along, and a set that is drawn."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class BundledSet:
    """A set of data.

    Attributes
    ----------
    words : str
        For people.
    target : str
        The column that is usually predicted.
    imports, lines : str
        Python that makes a DataFrame named `table` of it.
    loader : str
        The function of scikit-learn that has it; empty if it is drawn.
    """

    words: str
    target: str
    imports: str
    lines: str
    loader: str = ""


def _of_scikit_learn(words: str, loader: str, target: str = "target") -> BundledSet:
    return BundledSet(
        words,
        target,
        f"from sklearn.datasets import {loader}",
        f"table = {loader}(as_frame=True).frame",
        loader,
    )


_DRAWN = BundledSet(
    "Drawn: 200 rows, 20 columns",
    "y",
    "import reshuffle as rs",
    "problem = rs.gaussian(200, 20, noise=1.0, seed=0)\n"
    'table = pd.DataFrame(problem.X, columns=[f"x{k}" for k in range(1, 21)]).assign(y=problem.y)',
)
_SCIKIT_LEARN = {
    "diabetes": _of_scikit_learn("Diabetes: 442 patients, progression after a year", "load_diabetes"),
    "breast-cancer": _of_scikit_learn("Breast cancer: 569 samples, benign or not", "load_breast_cancer"),
    "wine": _of_scikit_learn("Wine: 178 bottles, which of three growers", "load_wine"),
    "linnerud": _of_scikit_learn("Linnerud: 20 people, exercise and weight", "load_linnerud", "Weight"),
}
SETS = (_SCIKIT_LEARN if find_spec("sklearn") else {}) | {"drawn": _DRAWN}
"""All sets by name; without scikit-learn, the drawn one alone."""


def write(name: str, folder: Path) -> Path:
    """A set as a CSV file in this folder, with every digit."""
    names, rows = _table(SETS[name])
    path = folder / f"{name}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows([repr(float(value)) for value in row] for row in rows)
    return path


def _table(wanted: BundledSet) -> tuple[Sequence[str], Any]:
    import numpy as np

    if not wanted.loader:
        import reshuffle as rs

        problem = rs.gaussian(200, 20, noise=1.0, seed=0)
        return [*(f"x{k}" for k in range(1, 21)), "y"], np.column_stack([problem.X, problem.y])
    from sklearn import datasets

    found = getattr(datasets, wanted.loader)()
    targets = np.reshape(found.target, (len(found.data), -1))
    names = list(found.target_names) if targets.shape[1] > 1 else ["target"]
    return [*map(str, found.feature_names), *map(str, names)], np.column_stack([found.data, targets])
