"""Samples of more rows than columns, which are kept as triangles: against all orders, and left out whole."""

import numpy as np
import pytest

import reshuffle as rs
from tests.problems import close
from tests.schemes.test_group_reshuffling import all_orders

ROWS, STEP = 4, 0.3


def rows_of_samples(samples, p, seed=0):
    """So many samples of ROWS rows, and their responses."""
    rng = np.random.default_rng(seed)
    n = ROWS * samples
    return rng.standard_normal((n, p)), rng.standard_normal(n)


def iterated(A, N, y, epochs):
    """The mean iterate after so many epochs, from zero."""
    found = np.zeros(len(A))
    for _ in range(epochs):
        found = A @ found + N @ y
    return found


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("sizes", [[3, 3], [2, 2, 2], [2, 2, 1, 1], [4, 2]])
@pytest.mark.parametrize("outputs", [None, 2])
def test_the_mean_over_all_orders(p, sizes, outputs):
    X, y = rows_of_samples(6, p)
    A, N = all_orders(X, ROWS, sizes, [ROWS * size for size in sizes], STEP)
    cut = {"batch_size": 4} if sizes == [4, 2] else {"batches": len(sizes)}
    responses = y if outputs is None else np.column_stack([y] * outputs)
    run = rs.descend(rs.LeastSquares(X, responses), rs.GroupReshuffling(ROWS, **cut), step=STEP)
    found, error = run.iterate(3), np.max(run.iterate_error(3))
    expected = iterated(A, N, y, 3)
    expected = expected if outputs is None else np.column_stack([expected] * outputs)
    assert np.abs(found - expected).max() <= error + 1e-13


def test_drawn_orders_take_what_is_kept_of_a_sample():
    X, y = rows_of_samples(6, 2)
    A, N = all_orders(X, ROWS, [2, 2, 2], [8, 8, 8], STEP)
    run = rs.descend(
        rs.LeastSquares(X, y), rs.GroupReshuffling(ROWS, batches=3), step=STEP, method="sampling"
    )
    assert 0 < run.iterate_error(2) < 0.01
    assert np.abs(run.iterate(2) - iterated(A, N, y, 2)).max() <= run.iterate_error(2)


@pytest.mark.parametrize(
    "scheme", [rs.GroupReshuffling(ROWS, batches=1), rs.GroupReshuffling(ROWS, batch_size=1)], ids=repr
)
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_samples_are_left_out_whole_where_batches_are_an_equivalent_scheme(scheme, momentum):
    X, y = rows_of_samples(3, 2)
    epochs = [1, 3]
    found = rs.descend(rs.LeastSquares(X, y), scheme, STEP, momentum=momentum).leave_one_out(epochs)
    for sample in range(3):
        members = slice(ROWS * sample, ROWS * (sample + 1))
        others, responses = X.copy(), y.copy()
        others[members], responses[members] = 0.0, 0.0
        run = rs.descend(rs.LeastSquares(others, responses), scheme, STEP, momentum=momentum)
        close(found.residuals[:, members], y[members] - run.iterate(epochs) @ X[members].T)


@pytest.mark.parametrize(
    "scheme",
    [
        rs.GroupReshuffling(2, batches=1),
        rs.GroupReshuffling(4, batch_size=3),
        rs.GroupReshuffling(4, batch_size=2, drop_last=True),
    ],
    ids=repr,
)
def test_the_critical_step_of_one_batch_of_samples_is_that_of_all_rows(scheme):
    X, y = rows_of_samples(3, 2)
    found = rs.critical_step(rs.LeastSquares(X, y), scheme, mean_square=False)
    close(found, 2 / np.linalg.eigvalsh(X.T @ X / len(X)).max())
