"""MLPRegressor without hidden layers, and SGDRegressor, against the exact answers."""

import numpy as np
import pytest
from sklearn.linear_model import SGDRegressor

import reshuffle as rs
from tests.interop.training import agree, mlp_runs, problem

EPOCHS = 3


@pytest.mark.parametrize(("n", "batch_size"), [(12, 4), (14, 4)])
@pytest.mark.parametrize("momentum", [0.0, 0.7])
def test_mlp_without_shuffling_is_cyclic_to_the_last_digit(n, batch_size, momentum):
    least_squares = problem(n, 4, intercept=True)
    ends = mlp_runs(
        least_squares, epochs=EPOCHS, runs=1, lr=0.05, batch_size=batch_size, shuffle=False, momentum=momentum
    )
    run = rs.descend(least_squares, rs.Cyclic(batch_size=batch_size), step=0.05, momentum=momentum)
    np.testing.assert_allclose(ends[0], run.iterate(EPOCHS), rtol=0, atol=1e-13)


def test_nesterovs_momentum_of_mlp_is_that_of_torch():
    least_squares = problem(14, 4, intercept=True)
    recipe = {"momentum": 0.7, "nesterov": True}
    ends = mlp_runs(least_squares, epochs=EPOCHS, runs=1, lr=0.05, batch_size=4, shuffle=False, **recipe)
    run = rs.descend(least_squares, rs.Cyclic(batch_size=4), step=0.05, **recipe)
    np.testing.assert_allclose(ends[0], run.iterate(EPOCHS), rtol=0, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "batch_size"), [(9, 3), (10, 4)])
def test_mlp_shuffles_samples(n, batch_size):
    least_squares = problem(n, 2, intercept=True)
    ends = mlp_runs(least_squares, epochs=EPOCHS, runs=400, lr=0.2, batch_size=batch_size, shuffle=True)
    run = rs.descend(least_squares, rs.SampleReshuffling(batch_size=batch_size), step=0.2)
    agree(least_squares, ends, run, EPOCHS)


def sgd_regressor(least_squares, seed, *, shuffle, alpha, epochs=EPOCHS):
    model = SGDRegressor(
        penalty="l2",
        alpha=alpha,
        fit_intercept=False,
        learning_rate="constant",
        eta0=0.05,
        max_iter=epochs,
        tol=None,
        shuffle=shuffle,
        random_state=seed,
    )
    return model.fit(least_squares.X, least_squares.y).coef_.copy()


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_sgd_regressor_without_shuffling_is_cyclic_over_single_samples(alpha):
    least_squares = problem(15, 4)
    end = sgd_regressor(least_squares, 0, shuffle=False, alpha=alpha)
    run = rs.descend(least_squares, rs.Cyclic(batch_size=1), step=0.05, penalty=alpha)
    np.testing.assert_allclose(end, run.iterate(EPOCHS), rtol=0, atol=1e-12)


def test_sgd_regressor_does_not_penalize_its_intercept():
    least_squares = problem(15, 4, intercept=True)
    model = SGDRegressor(
        alpha=0.3, learning_rate="constant", eta0=0.05, max_iter=EPOCHS, tol=None, shuffle=False
    ).fit(least_squares.X[:, :-1], least_squares.y)
    run = rs.descend(least_squares, rs.Cyclic(batch_size=1), step=0.05, penalty=0.3, unpenalized=[-1])
    end = np.concatenate([model.coef_, model.intercept_])
    np.testing.assert_allclose(end, run.iterate(EPOCHS), rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_sgd_regressor_reshuffles_single_samples_in_its_first_epoch(alpha):
    """Later epochs apply the same permutation again, to the order of the epoch before: no scheme of ours."""
    least_squares = problem(7, 3)
    ends = np.array(
        [sgd_regressor(least_squares, s, shuffle=True, alpha=alpha, epochs=1) for s in range(2000)]
    )
    run = rs.descend(least_squares, rs.RandomReshuffling(batch_size=1), step=0.05, penalty=alpha)
    agree(least_squares, ends, run, 1)
