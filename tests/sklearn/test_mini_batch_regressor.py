"""MiniBatchRegressor against trainings done by hand, by torch and by scikit-learn's solvers."""

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import reshuffle as rs
from reshuffle.sklearn import MiniBatchRegressor
from tests.sklearn.training import centred, cut, every_training, train


def data(n, p, seed=0, outputs=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + rng.standard_normal(p)
    beta = rng.standard_normal((p,) if outputs is None else (p, outputs))
    y = X @ beta + 3.0
    return X, y + 0.5 * rng.standard_normal(y.shape)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("shuffle", [True, False, "batches", "once", "replacement"])
def test_mean_and_spread_over_all_shuffles(shuffle, drop_last):
    n, size, epochs = (3, 2, 2) if shuffle == "replacement" else (5, 2, 1) if shuffle is True else (5, 2, 2)
    X, y = data(n, 2, seed=1)
    rows, responses = centred(X, y)
    trained = np.array([
        train(rows, responses, batches, rate=0.2)
        for batches in every_training(n, size, epochs, shuffle, drop_last)
    ])  # fmt: skip
    model = MiniBatchRegressor(
        batch_size=size, learning_rate=0.2, epochs=epochs, shuffle=shuffle, drop_last=drop_last
    ).fit(X, y)
    np.testing.assert_allclose(model.coef_, trained.mean(axis=0), rtol=1e-10)
    assert model.intercept_ == pytest.approx(y.mean() - X.mean(axis=0) @ trained.mean(axis=0), rel=1e-10)
    X_new = np.array([[1.0, 2.0], [-3.0, 0.5]])
    said = y.mean() + (X_new - X.mean(axis=0)) @ trained.T
    mean, deviation = model.predict(X_new, return_std=True)
    np.testing.assert_allclose(mean, said.mean(axis=1), rtol=1e-10)
    np.testing.assert_allclose(deviation, said.std(axis=1), rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(mean, model.predict(X_new))


@pytest.mark.parametrize("outputs", [None, 2])
def test_without_shuffling_it_is_torch(outputs):
    """Half the learning rate and twice the weight decay, since MSELoss has no factor 1/2."""
    X, y = data(23, 4, outputs=outputs)
    model = MiniBatchRegressor(
        batch_size=5,
        learning_rate=0.02,
        epochs=7,
        momentum=0.6,
        nesterov=True,
        weight_decay=0.1,
        shuffle=False,
        fit_intercept=False,
    ).fit(X, y)
    layer = torch.nn.Linear(4, outputs or 1, bias=False, dtype=torch.float64)
    torch.nn.init.zeros_(layer.weight)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.01, momentum=0.6, nesterov=True, weight_decay=0.2)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(y.reshape(23, -1))), batch_size=5
    )
    for _ in range(7):
        for rows, responses in loader:
            optimizer.zero_grad()
            # The mean over rows alone: outputs do not share a divisor.
            torch.nn.functional.mse_loss(layer(rows), responses, reduction="none").mean(0).sum().backward()
            optimizer.step()
    weight = layer.weight.detach().numpy()
    np.testing.assert_allclose(model.coef_, weight if outputs else weight[0], rtol=1e-10)
    np.testing.assert_array_equal(model.intercept_, np.zeros(outputs) if outputs else 0.0)


@pytest.mark.parametrize("shuffle", [True, False])
def test_it_says_what_descend_says(shuffle):
    X, y = data(60, 6)
    rows, responses = centred(X, y)
    scheme = rs.SampleReshuffling(batch_size=16) if shuffle else rs.Cyclic(batch_size=16)
    average = rs.EMA(0.9, per="visit")
    run = rs.descend(
        rs.LeastSquares(rows, responses), scheme, step=0.05, momentum=0.3, penalty=0.1, average=average
    )
    model = MiniBatchRegressor(
        batch_size=16,
        learning_rate=0.05,
        epochs=9,
        momentum=0.3,
        weight_decay=0.1,
        average=average,
        shuffle=shuffle,
        rtol=0.01,
        budget=1e10,
    ).fit(X, y)
    np.testing.assert_allclose(model.coef_, run.iterate(9), rtol=1e-12)
    np.testing.assert_allclose(model.path([1, 4]).coef, run.iterate([1, 4]), rtol=1e-12)
    assert model.run_.method == run.method
    assert model.learning_rate_ == 0.05
    assert (model.run_.accuracy.rtol, model.run_.accuracy.budget) == (0.01, 1e10)


def test_schedules_of_the_learning_rate():
    X, y = data(20, 3)
    model = MiniBatchRegressor(
        batch_size=10, learning_rate=[0.1, 0.05, 0.02], epochs=3, shuffle=False, fit_intercept=False
    ).fit(X, y)
    b = np.zeros(3)
    for rate in (0.1, 0.05, 0.02):
        for rows in cut(range(20), 10):
            b = b - rate * X[rows].T @ (X[rows] @ b - y[rows]) / 10
    np.testing.assert_allclose(model.coef_, b, rtol=1e-12)


@pytest.mark.parametrize(("n", "p"), [(40, 5), (8, 20)])
@pytest.mark.parametrize("outputs", [None, 1, 3])
def test_full_batch_for_ever_is_least_squares(n, p, outputs):
    X, y = data(n, p, outputs=outputs)
    model = MiniBatchRegressor(batch_size=None, epochs=math.inf).fit(X, y)
    known = LinearRegression().fit(X, y)
    np.testing.assert_allclose(model.coef_, known.coef_, rtol=1e-8)
    np.testing.assert_allclose(model.intercept_, known.intercept_, rtol=1e-8)
    assert np.shape(model.coef_) == np.shape(known.coef_)
    assert np.shape(model.intercept_) == np.shape(known.intercept_)
    assert model.predict(X).shape == y.shape
    assert model.n_iter_ == math.inf


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_weight_decay_for_ever_is_ridge(fit_intercept, weighted):
    X, y = data(30, 6)
    weights = np.random.default_rng(3).uniform(0.2, 5.0, 30) if weighted else None
    model = MiniBatchRegressor(
        batch_size=None, epochs=math.inf, weight_decay=0.3, fit_intercept=fit_intercept
    )
    model.fit(X, y, sample_weight=weights)
    total = 30 if weights is None else weights.sum()
    known = Ridge(alpha=0.3 * total, fit_intercept=fit_intercept).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(model.coef_, known.coef_, rtol=1e-9)
    assert model.intercept_ == pytest.approx(known.intercept_, rel=1e-9)


@pytest.mark.parametrize("standardize", [False, True])
def test_weights_are_repetitions_where_one_batch_holds_all(standardize):
    X, y = data(12, 4)
    weights = np.random.default_rng(5).integers(0, 4, 12)
    model = MiniBatchRegressor(
        batch_size=None,
        learning_rate="auto",
        epochs=20,
        momentum=0.3,
        weight_decay=0.01,
        standardize=standardize,
    )
    weighted = model.fit(X, y, sample_weight=weights).path([3, 20])
    repeated = model.fit(X.repeat(weights, axis=0), y.repeat(weights)).path([3, 20])
    np.testing.assert_allclose(weighted.coef, repeated.coef, rtol=1e-10)
    np.testing.assert_allclose(weighted.intercept, repeated.intercept, rtol=1e-10)


def test_weights_in_batches_multiply_gradients():
    X, y = data(13, 3)
    weights = np.random.default_rng(5).uniform(0.5, 3.0, 13)
    weights[4] = 0.0
    model = MiniBatchRegressor(batch_size=4, learning_rate=0.1, epochs=6, shuffle=False).fit(
        X, y, sample_weight=weights
    )
    rows, responses = centred(X, y, weights)
    kept = np.flatnonzero(weights)
    relative = weights[kept] / weights[kept].mean()
    wanted = train(rows[kept], responses[kept], cut(range(12), 4) * 6, rate=0.1, weights=relative)
    np.testing.assert_allclose(model.coef_, wanted, rtol=1e-11)
    again = MiniBatchRegressor(batch_size=4, learning_rate=0.1, epochs=6, shuffle=False).fit(
        X, y, sample_weight=1e6 * weights
    )
    np.testing.assert_allclose(again.coef_, wanted, rtol=1e-11)


def test_standardize_is_a_scaler_before_it():
    X, y = data(50, 4)
    X = X * [1.0, 1e3, 1e-3, 1.0]
    # The mean of this column is not 7.1: rounding must not be scaled to one.
    X[:, 3] = 7.1
    model = MiniBatchRegressor(
        batch_size=16, learning_rate=0.1, epochs=8, standardize=True, weight_decay=0.1
    ).fit(X, y)
    scaled = make_pipeline(
        StandardScaler(), MiniBatchRegressor(batch_size=16, learning_rate=0.1, epochs=8, weight_decay=0.1)
    ).fit(X, y)
    np.testing.assert_allclose(model.predict(X), scaled.predict(X), rtol=1e-9)
    np.testing.assert_allclose(model.coef_, scaled[-1].coef_ / scaled[0].scale_, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_large_means_of_columns_that_vary_little(weighted):
    """More columns than rows: the rounding of the means must not look like one more direction."""
    X, y = data(8, 20)
    X = X * np.geomspace(1e-3, 1e2, 20) + 10.0
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 8) if weighted else None
    model = MiniBatchRegressor(batch_size=None, epochs=3).fit(X, y, sample_weight=weights)
    assert model.run_.problem.rank == 7
    moved = MiniBatchRegressor(batch_size=None, epochs=3).fit(X - 10.0, y, sample_weight=weights)
    np.testing.assert_allclose(model.coef_, moved.coef_, rtol=1e-8)


@pytest.mark.parametrize("outputs", [None, 2])
def test_path(outputs):
    X, y = data(40, 3, outputs=outputs)
    model = MiniBatchRegressor(batch_size=16, learning_rate=0.1, epochs=8).fit(X, y)
    coef, intercept = model.path([[0, 1, 8], [2, 3, math.inf]])
    assert coef.shape == (2, 3, *model.coef_.shape)
    assert intercept.shape == (2, 3, *np.shape(model.intercept_))
    np.testing.assert_allclose(coef[0, 2], model.coef_, rtol=1e-13)
    np.testing.assert_allclose(intercept[0, 2], model.intercept_, rtol=1e-13)
    np.testing.assert_array_equal(coef[0, 0], np.zeros_like(model.coef_))
    np.testing.assert_allclose(intercept[0, 0], y.mean(axis=0))


def test_outputs_are_fitted_side_by_side():
    X, y = data(40, 3, outputs=2)
    both = MiniBatchRegressor(batch_size=16, learning_rate=0.1, epochs=8).fit(X, y)
    mean, deviation = both.predict(X[:5], return_std=True)
    for output in range(2):
        alone = MiniBatchRegressor(batch_size=16, learning_rate=0.1, epochs=8).fit(X, y[:, output])
        np.testing.assert_allclose(both.coef_[output], alone.coef_, rtol=1e-12)
        said = alone.predict(X[:5], return_std=True)
        np.testing.assert_allclose(mean[:, output], said[0], rtol=1e-12)
        np.testing.assert_allclose(deviation[:, output], said[1], rtol=1e-9)


def test_a_single_run_is_one_of_the_shuffles():
    X, y = data(4, 2, seed=1)
    rows, responses = centred(X, y)
    trained = [train(rows, responses, batches, rate=0.2) for batches in every_training(4, 2, 2, True)]
    found = set()
    for seed in range(6):
        model = MiniBatchRegressor(
            batch_size=2, learning_rate=0.2, epochs=2, single_run=True, random_state=seed
        ).fit(X, np.c_[y, y])
        np.testing.assert_array_equal(model.coef_[0], model.coef_[1])
        assert min(np.abs(model.coef_[0] - one).max() for one in trained) < 1e-14
        np.testing.assert_array_equal(model.path([1, 2]).coef[1], model.coef_)
        found.add(model.coef_[0, 0])
    assert len(found) > 2


def test_single_runs_have_the_mean():
    X, y = data(30, 3)
    mean = MiniBatchRegressor(batch_size=4, learning_rate=0.2, epochs=3).fit(X, y).coef_
    draw = MiniBatchRegressor(
        batch_size=4, learning_rate=0.2, epochs=3, single_run=True, random_state=np.random.RandomState(0)
    )
    drawn = np.array([draw.fit(X, y).coef_ for _ in range(200)])
    error = drawn.std(axis=0, ddof=1) / np.sqrt(len(drawn))
    assert (np.abs(drawn.mean(axis=0) - mean) < 4 * error).all()
    fixed = MiniBatchRegressor(
        batch_size=4, learning_rate=0.2, epochs=3, shuffle=False, single_run=True, random_state=1
    ).fit(X, y)
    np.testing.assert_allclose(fixed.coef_, fixed.set_params(single_run=False).fit(X, y).coef_, rtol=1e-12)


@given(
    n=st.integers(2, 6), p=st.integers(1, 4), size=st.integers(1, 7), decay=st.sampled_from([0.0, 0.1]),
    exponent=st.integers(-8, 8), seed=st.integers(0, 2**16), shuffle=st.sampled_from([True, "batches", False]),
)  # fmt: skip
@example(n=2, p=1, size=1, decay=0.1, exponent=-5, seed=0, shuffle=True)
def test_the_automatic_step_suits_every_batch(n, p, size, decay, exponent, seed, shuffle):
    """A step of 1 / (L + decay) or less is a contraction on every batch there is: at least half of the longest."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * 10.0 ** rng.integers(-2, 2, p) * 10.0**exponent
    model = MiniBatchRegressor(
        batch_size=size, epochs=3, weight_decay=decay, shuffle=shuffle, fit_intercept=False
    )
    step = model.fit(X, rng.standard_normal(n)).learning_rate_
    lengths = {len(rows) for rows in cut(range(n), size)}
    batches = (
        [rows for m in lengths for rows in combinations(range(n), m)]
        if shuffle is True
        else cut(range(n), size)
    )
    curvature = max(np.linalg.norm(X[list(rows)], 2) ** 2 / len(rows) for rows in batches)
    assert step * (curvature + decay) <= 1 + 1e-9
    if shuffle is not True or len(lengths) == len(batches) == 1:
        assert step * (curvature + decay) == pytest.approx(1.0)


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("shuffle", [True, False, "once"])
def test_the_automatic_step_with_momentum_converges(shuffle, nesterov):
    X, y = data(24, 8)
    X = X * np.geomspace(1, 300, 8)
    model = MiniBatchRegressor(
        batch_size=3, momentum=0.95, nesterov=nesterov, shuffle=shuffle, epochs=50
    ).fit(X, y)
    assert model.run_.converges


def test_a_learning_rate_that_is_too_large():
    X, y = data(30, 3)
    limit = rs.critical_step(rs.LeastSquares(*centred(X, y)), rs.Cyclic(batch_size=10), mean_square=False)
    model = MiniBatchRegressor(
        batch_size=10, learning_rate=0.99 * float(limit), epochs=math.inf, shuffle=False
    ).fit(X, y)
    assert np.isfinite(model.coef_).all()
    with pytest.warns(UserWarning, match=r"learning_rate=.* is beyond the critical step") as caught:
        MiniBatchRegressor(batch_size=10, learning_rate=1.01 * float(limit), epochs=5, shuffle=False).fit(
            X, y
        )
    assert caught[0].category.__name__ == "ConvergenceWarning"
    with pytest.raises(ValueError, match=r"learning_rate=5\.0 diverges.*critical_step"):
        MiniBatchRegressor(batch_size=10, learning_rate=5.0, epochs=10_000, shuffle=False).fit(X, y)
    with pytest.raises(ValueError, match=r"learning_rate=5\.0 diverges"):
        MiniBatchRegressor(
            batch_size=10, learning_rate=5.0, epochs=1000, single_run=True, random_state=0
        ).fit(X, y)
