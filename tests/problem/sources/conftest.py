"""Data as arrays, and the same data as every source."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import reshuffle as rs
from reshuffle.problem import sources

N, P = 1300, 4


@pytest.fixture
def streaming(monkeypatch):
    """Read every file in chunks, however small it is, of a few hundred rows."""
    monkeypatch.setattr(sources, "IN_MEMORY", 0.0)
    monkeypatch.setattr("reshuffle.problem.sources.CHUNK", 300 * P)


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, P)) * [1, 2, 3, 1]
    # Not all rows are alike, so that it matters which of them are in a batch.
    X[:400] *= 2
    return X, X @ [1.0, 0.0, -1.0, 2.0] + rng.standard_normal(N)


@pytest.fixture(scope="module")
def frame(arrays):
    X, y = arrays
    made = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    made.insert(2, "answer", y)
    return made


@pytest.fixture
def in_memory(arrays):
    return rs.LeastSquares(*arrays)


def cut(values, parts):
    """Parts of different lengths."""
    ends = np.linspace(0, len(values), parts + 1).astype(int) ** 2 // len(values)
    return [values[start:stop] for start, stop in pairwise(ends)]


def npy_folder(folder, values, parts):
    folder.mkdir()
    for number, part in enumerate(cut(values, parts)):
        np.save(folder / f"{number:02}.npy", part)
    return folder


def parquet_folder(folder, frame, parts):
    folder.mkdir()
    for number, part in enumerate(cut(frame, parts)):
        part.to_parquet(folder / f"{number:02}.parquet", row_group_size=170)
    return folder


def mapped(path, values):
    stored = np.memmap(path, dtype=values.dtype, mode="w+", shape=values.shape)
    stored[:] = values
    stored.flush()
    return np.memmap(path, dtype=values.dtype, mode="r", shape=values.shape)
