"""Kernels and random features: problems posed by products of rows, and a hidden layer that is never trained."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import pairwise_kernels

import reshuffle as rs
from tests.looped import for_all

EPOCHS = [0, 1, 7, 200, math.inf]
RECIPES = {
    "full batch": (rs.FullBatch(), {"step": 0.1}),
    "reshuffled": (rs.RandomReshuffling(batches=3), {"step": 0.1}),
    "shuffled samples": (rs.SampleReshuffling(batches=2), {"step": 0.1}),
    "cavity": (rs.SampleReshuffling(batch_size=3), {"step": 0.05}),
    "cyclic with momentum": (rs.Cyclic(batches=4), {"step": 0.05, "momentum": 0.5}),
    "penalized": (rs.RandomReshuffling(batches=2), {"step": 0.1, "penalty": 0.2}),
}


def draw(n, p, outputs=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) / math.sqrt(p)
    return X, rng.standard_normal(n if outputs is None else (n, outputs)), rng.standard_normal((5, p))


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize(("n", "p", "outputs"), [(13, 4, None), (12, 20, None), (12, 20, 3), (9, 9, None)])
def test_a_linear_kernel_is_its_features(name, n, p, outputs):
    X, y, X_new = draw(n, p, outputs)
    scheme, settings = RECIPES[name]
    explicit = rs.descend(rs.LeastSquares(X, y), scheme, **settings)
    implicit = rs.descend(rs.LeastSquares.from_kernel(X @ X.T, y, X_new @ X.T), scheme, **settings)
    close = {"rtol": 1e-10, "atol": 1e-10}
    np.testing.assert_allclose(implicit.predict(None, EPOCHS), explicit.predict(X_new, EPOCHS), **close)
    np.testing.assert_allclose(implicit.training_loss(EPOCHS), explicit.training_loss(EPOCHS), **close)
    np.testing.assert_allclose(
        implicit.leave_one_out([1, 7]).residuals, explicit.leave_one_out([1, 7]).residuals, **close
    )
    # Over all cuts of the samples the spread takes seconds, and sees nothing but the same features.
    if name != "shuffled samples":
        np.testing.assert_allclose(
            implicit.predict(None, 7, return_std=True)[1],
            explicit.predict(X_new, 7, return_std=True)[1],
            rtol=1e-7,
        )
    if "penalty" not in settings:
        np.testing.assert_allclose(implicit.degrees_of_freedom(7), explicit.degrees_of_freedom(7), **close)


@for_all(
    "kernel, parameters",
    [("rbf", {"gamma": 0.3}), ("laplacian", {}), ("polynomial", {"degree": 2}), ("linear", {})],
)
def test_kernels_by_name_end_in_kernel_ridge(kernel, parameters):
    X, y, X_new = draw(15, 3, seed=1)
    problem = rs.LeastSquares.from_kernel(kernel, y, X=X, X_new=X_new, **parameters)
    penalty = 0.05
    run = rs.descend(problem, rs.FullBatch(), step=0.1, penalty=penalty)
    K = pairwise_kernels(X, metric=kernel, **parameters)
    ridge = KernelRidge(alpha=15 * penalty, kernel="precomputed").fit(K, y)
    K_new = pairwise_kernels(X_new, X, metric=kernel, **parameters)
    np.testing.assert_allclose(run.predict(None, math.inf), ridge.predict(K_new), rtol=1e-9, atol=1e-10)


@given(st.integers(0, 10**6), st.integers(2, 12), st.integers(1, 5))
def test_kernels_of_any_rank(seed, n, rank):
    X, y, X_new = draw(n, rank, seed=seed)
    run = rs.descend(rs.LeastSquares.from_kernel(X @ X.T, y, X_new @ X.T), rs.FullBatch(), step=0.1)
    assert run.problem.rank == min(n, rank)
    explicit = rs.descend(rs.LeastSquares(X, y), rs.FullBatch(), step=0.1)
    np.testing.assert_allclose(
        run.predict(None, [3, 50]), explicit.predict(X_new, [3, 50]), rtol=0, atol=1e-7
    )


def test_kernels_in_single_precision_have_the_rounding_of_that():
    X, y, _ = draw(40, 3)
    K = pairwise_kernels(X, metric="rbf", gamma=0.01).astype(np.float32)
    assert rs.LeastSquares.from_kernel(K, y).rank < 40
    # The same numbers as float64 have eigenvalues that float64 does not round to.
    with pytest.raises(ValueError, match="positive semidefinite"):
        rs.LeastSquares.from_kernel(K.astype(np.float64), y)


@for_all(
    "arguments, error, match",
    [
        ({"K": np.ones((3, 2))}, ValueError, "square"),
        ({"K": np.triu(np.ones((3, 3)))}, ValueError, "symmetric"),
        ({"K": np.diag([1.0, 1.0, -0.1])}, ValueError, "positive semidefinite"),
        ({"K": np.zeros((3, 3))}, ValueError, "not zero"),
        ({"K": np.full((3, 3), np.nan)}, ValueError, "K"),
        ({"K_new": np.ones((2, 4))}, ValueError, r"K_new must have shape \(new points, 3\)"),
        ({"y": [1.0, 2.0]}, ValueError, "y must"),
        ({"gamma": 1.0}, TypeError, "must come with its name"),
        ({"K": "rbf"}, TypeError, "X must be given"),
        ({"K": "rbg", "X": np.eye(3)}, ValueError, "K must be"),
        ({"K": "rbf", "X": np.eye(3), "X_new": np.ones((1, 2))}, ValueError, "X_new must have 3 columns"),
    ],
)
def test_bad_input_is_named(arguments, error, match):
    with pytest.raises(error, match=match):
        rs.LeastSquares.from_kernel(**{"K": np.eye(3), "y": np.arange(3.0), **arguments})


def test_a_plan_for_a_kernel_is_that_for_its_features():
    X, y, _ = draw(40, 6, seed=3)
    asked = {"batch_sizes": [10, 40], "epochs": 50}
    kernel = rs.plan(rs.LeastSquares.from_kernel(X @ X.T, y), **asked)
    rows = rs.plan(X, y, standardize=False, intercept=False, **asked)
    assert kernel.best.mean_square == pytest.approx(rows.best.mean_square, rel=1e-8)
    assert (kernel.best.batch_size, kernel.best.epochs) == (rows.best.batch_size, rows.best.epochs)
    np.testing.assert_allclose(kernel.mean_squares, rows.mean_squares, rtol=1e-7)


@for_all("given", [{"y": np.arange(3.0)}, {"standardize": True}, {"sample_weight": np.ones(3)}])
def test_a_problem_is_planned_for_as_it_stands(given):
    with pytest.raises(TypeError, match="must not be given with a problem"):
        rs.plan(rs.LeastSquares.from_kernel(np.eye(3), np.arange(3.0)), **given)
    with pytest.raises(TypeError, match="y must be given"):
        rs.plan(np.eye(3))


def test_new_points_must_have_been_given():
    run = rs.descend(rs.LeastSquares.from_kernel(np.eye(3), np.arange(3.0)), rs.FullBatch(), step=0.1)
    with pytest.raises(ValueError, match="posed without any"):
        run.predict(None, 1)


X = np.array([[1.0, 2.0, -1.0], [0.5, -1.0, 2.0], [3.0, 0.0, 1.0]])


def arc_cosine_kernel(inputs):
    """E relu(w'x) relu(w'z) over standard normal w (Cho and Saul, 2009)."""
    sizes = np.linalg.norm(inputs, axis=1)
    scale = np.multiply.outer(sizes, sizes)
    angle = np.arccos(np.clip(inputs @ inputs.T / scale, -1, 1))
    return scale * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)


def arc_sine_kernel(inputs):
    """E erf(w'x) erf(w'z) over standard normal w (Williams, 1998)."""
    squares = 1 + 2 * (inputs**2).sum(axis=1)
    return 2 / np.pi * np.arcsin(2 * inputs @ inputs.T / np.sqrt(np.multiply.outer(squares, squares)))


@pytest.mark.parametrize(("activation", "kernel"), [("relu", arc_cosine_kernel), ("erf", arc_sine_kernel)])
def test_wide_layers_have_the_kernel_of_their_activation(activation, kernel):
    width = 100_000
    features = rs.random_features(X, width, activation, seed=2)
    products = features[:, np.newaxis] * features * width
    error = products.std(axis=2, ddof=1) / np.sqrt(width)
    assert (np.abs(products.mean(axis=2) - kernel(X / np.sqrt(3))) <= 4.5 * error).all()
    assert error.max() < 0.02


def test_new_rows_and_more_features_meet_the_same_weights():
    features = rs.random_features(X, 40, "tanh", seed=5)
    assert np.array_equal(rs.random_features(X[1:], 40, "tanh", seed=5), features[1:])
    fewer = rs.random_features(X, 10, "tanh", seed=5) * np.sqrt(10)
    np.testing.assert_allclose(fewer, (features * np.sqrt(40))[:, :10], rtol=1e-13)
    assert not np.allclose(rs.random_features(X, 40, "tanh", seed=6), features)


def test_any_function_of_arrays_is_an_activation():
    cubes = rs.random_features(X, 7, lambda inputs: inputs**3, seed=1)
    plain = rs.random_features(X, 7, "identity", seed=1)
    np.testing.assert_allclose(cubes * np.sqrt(7), (plain * np.sqrt(7)) ** 3)


@for_all(
    "arguments, error, match",
    [
        ({"width": 0}, ValueError, "width must be a whole number"),
        ({"activation": "sigmoid"}, ValueError, "activation must be"),
        ({"activation": 3}, TypeError, "or a function, but it is 3"),
        ({"activation": lambda inputs: inputs[0]}, ValueError, "keep the shape"),
        ({"activation": lambda inputs: inputs / 0}, ValueError, "activation"),
        ({"X": [1.0, 2.0]}, ValueError, "X must"),
    ],
)
def test_layers_that_make_no_sense(arguments, error, match):
    with np.errstate(all="ignore"), pytest.raises(error, match=match):
        rs.random_features(**{"X": X, "width": 5, **arguments})
