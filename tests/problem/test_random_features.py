"""The hidden layer that is never trained: its mean kernel, its weights, its refusals."""

import numpy as np
import pytest

import reshuffle as rs
from tests.looped import for_all

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
def test_bad_input_is_named(arguments, error, match):
    with np.errstate(all="ignore"), pytest.raises(error, match=match):
        rs.random_features(**{"X": X, "width": 5, **arguments})
