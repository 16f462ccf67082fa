"""What leave-one-out promises is what held-out rows find, on data nobody knows the truth of."""

import math

import numpy as np
import pytest
from sklearn import datasets

import reshuffle as rs

EPOCHS = [1, 10, 100]


def standardized(columns):
    return (columns - columns.mean(axis=0)) / columns.std(axis=0)


def in_standard_errors(differences):
    """Splits are drawn independently of each other: given the data, so are what they find."""
    return differences.mean(axis=0) / differences.std(axis=0, ddof=1) * math.sqrt(len(differences))


def split(X, y, scheme, step, rng):
    """Leave-one-out, the error on held-out rows, and that on the training rows: (3, epochs), means over outputs."""
    kept, penalty_matrix = np.split(rng.permutation(len(X)), [round(0.7 * len(X))])
    run = rs.descend(rs.LeastSquares(X[kept], y[kept]), scheme, step)
    learned = run.iterate(EPOCHS)
    errors = [np.square(y[rows] - X[rows] @ learned).mean(axis=(1, 2)) for rows in (penalty_matrix, kept)]
    return [run.leave_one_out(EPOCHS).mean_square.mean(axis=1), *errors]


CASES = {
    "linnerud": (datasets.load_linnerud, rs.FullBatch(), 0.2, 250),
    "linnerud in two batches": (datasets.load_linnerud, rs.RandomReshuffling(batches=2), 0.1, 250),
    "diabetes in three batches": (datasets.load_diabetes, rs.RandomReshuffling(batches=3), 0.05, 60),
    "breast cancer": (datasets.load_breast_cancer, rs.FullBatch(), 0.1, 60),
}


@pytest.mark.slow
def test_held_out_rows_find_what_was_promised():
    promised, naive, rng = {}, {}, np.random.default_rng(0)
    for name, (load, scheme, step, splits) in CASES.items():
        X, y = load(return_X_y=True)
        X = np.column_stack([np.ones(len(X)), standardized(X)])
        y = standardized(y.reshape(len(y), -1).astype(float))
        found = np.array([split(X, y, scheme, step, rng) for _ in range(splits)])
        promised[name] = in_standard_errors(found[:, 0] - found[:, 1])
        naive[name] = in_standard_errors(found[:, 2] - found[:, 1])
    assert np.abs(list(promised.values())).mean() < 2, promised
    # The error on the rows that were trained on is no promise, and these splits are enough to see it.
    assert all(apart[-1] < -3 for apart in naive.values()), naive
