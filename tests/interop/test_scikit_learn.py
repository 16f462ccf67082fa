"""MLPRegressor without hidden layers, and SGDRegressor, against the exact answers."""

import numpy as np
import pytest
from sklearn.linear_model import SGDRegressor

import reshuffle as rs
from tests.interop.training import agree, mlp_runs, problem
from tests.looped import for_all

EPOCHS = 3


@for_all(
    "n, recipe", [(12, {}), (14, {}), (14, {"momentum": 0.7}), (14, {"momentum": 0.7, "nesterov": True})]
)
def test_mlp_without_shuffling_is_cyclic_to_the_last_digit(n, recipe):
    least_squares = problem(n, 4, intercept=True)
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


def sgd_regressor(least_squares, *, alpha, intercept=False, epochs=EPOCHS, **shuffle):
    settings = {"learning_rate": "constant", "eta0": 0.05, "max_iter": epochs, "tol": None, **shuffle}
    model = SGDRegressor(alpha=alpha, fit_intercept=intercept, **settings)
    model.fit(least_squares.X[:, :-1] if intercept else least_squares.X, least_squares.y)
    return np.concatenate([model.coef_, model.intercept_ if intercept else []])


@for_all("alpha, intercept", [(0.0, False), (0.3, False), (0.3, True)])
def test_sgd_regressor_is_cyclic_over_single_samples_and_does_not_penalize_its_intercept(alpha, intercept):
    least_squares = problem(15, 4, intercept=intercept)
    end = sgd_regressor(least_squares, alpha=alpha, intercept=intercept, shuffle=False)
    free = {"unpenalized": [-1]} if intercept else {}
    run = rs.descend(least_squares, rs.Cyclic(batch_size=1), step=0.05, penalty=alpha, **free)
    np.testing.assert_allclose(end, run.iterate(EPOCHS), rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_sgd_regressor_reshuffles_single_samples_in_its_first_epoch(alpha):
    """Later epochs apply the same permutation again, to the order of the epoch before: no scheme of ours."""
    least_squares = problem(7, 3)
    ends = np.array(
        [sgd_regressor(least_squares, alpha=alpha, epochs=1, random_state=seed) for seed in range(2000)]
    )
    run = rs.descend(least_squares, rs.RandomReshuffling(batch_size=1), step=0.05, penalty=alpha)
    agree(least_squares, ends, run, 1)
