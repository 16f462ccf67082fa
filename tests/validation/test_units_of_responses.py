"""The standard error of a promise has the unit of the test error, however large or small responses are."""

import numpy as np
import pytest

import reshuffle as rs
from tests.problems import close

SIZES = [2.0**-330, 2.0**-200, 2.0**300]


def responses():
    rng = np.random.default_rng(0)
    return rng.standard_normal((8, 2)), rng.standard_normal(8)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", [rs.FullBatch(), rs.RandomReshuffling(batches=2)], ids=repr)
@pytest.mark.parametrize("momentum", [0.0, 0.1])
def test_leave_one_out(size, scheme, momentum):
    X, y = responses()
    plain, scaled = (
        rs.descend(rs.LeastSquares(X, unit * y), scheme, 0.1, momentum=momentum).leave_one_out([1, 5])
        for unit in (1.0, size)
    )
    squares = np.square(plain.residuals)
    close(plain.standard_error, squares.std(axis=1, ddof=1) / np.sqrt(8))
    for part in ("mean_square", "standard_error"):
        close(getattr(scaled, part) / size / size, getattr(plain, part))


@pytest.mark.parametrize("size", SIZES)
def test_plan(size):
    X, y = responses()
    plain, scaled = rs.plan(X, y), rs.plan(X, size * y)
    assert plain.standard_error > 0
    close(scaled.standard_error / size / size, plain.standard_error)
