"""The rate of the mean square where other eigenvalues are nearly as large: momentum, against Kronecker products."""

from itertools import combinations, permutations

import numpy as np
import pytest

import reshuffle as rs
from tests.problems import close

X = np.array(
    [
        [0.49926395, -0.4284545],
        [0.50660397, -0.29641072],
        [1.76777349, 0.21137197],
        [-0.12281678, 0.80508867],
    ]
)
MOMENTUM = 0.9


def visit(rows, step):
    """The map of parameters and buffer of one visit."""
    W, identity = X[rows].T @ X[rows] / len(rows), np.eye(2)
    return np.block([[identity - step * W, -step * MOMENTUM * identity], [W, MOMENTUM * identity]])


@pytest.mark.parametrize(
    ("scheme", "epochs"),
    [
        (
            rs.SampleReshuffling(batch_size=3, drop_last=True),
            [[list(rows)] for rows in combinations(range(4), 3)],
        ),
        (rs.RandomReshuffling(batches=2), [list(order) for order in permutations([[0, 1], [2, 3]])]),
    ],
    ids=repr,
)
def test_it_is_that_of_the_kronecker_products(scheme, epochs):
    step = 0.03155
    squares = []
    for order in epochs:
        once = np.eye(4)
        for rows in order:
            once = visit(rows, step) @ once
        squares.append(np.kron(once, once))
    exact = float(np.abs(np.linalg.eigvals(np.mean(squares, axis=0))).max())
    run = rs.descend(rs.LeastSquares(X, np.zeros(4)), scheme, step, momentum=MOMENTUM)
    found = run.mean_square_stability()
    close(found.rate, exact, 1e-9)
    assert found.bounds[0] - 1e-9 <= exact <= found.bounds[1] + 1e-9
    assert found.error_kind == "exact"


def test_bounds_that_stay_apart_are_an_error(monkeypatch):
    """What stands for larger problems: nothing is known beyond what so many rounds tell."""
    monkeypatch.setattr("reshuffle.run.mean_square.MOST_WRITTEN_OUT", 0)
    monkeypatch.setattr("reshuffle.epoch.moments.matrix.MOST_ENTRIES", 0)
    scheme = rs.SampleReshuffling(batch_size=3, drop_last=True)
    run = rs.descend(rs.LeastSquares(X, np.zeros(4)), scheme, 0.03155, momentum=MOMENTUM)
    found = run.mean_square_stability()
    assert found.error_kind == "bound"
    close(found.error, max(found.rate - found.bounds[0], found.bounds[1] - found.rate))
    assert found.error > 1e-4
