"""Drawn data: problems with Gaussian features and a known truth, and the features of a random hidden layer."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle.errors import ArgumentError
from reshuffle.problem.least_squares import CovarianceLike, LeastSquares, checked_covariance

_MOST = 1_000_000_000
"""Samples, features and hidden units at most: beyond, arrays have no size."""
_ACTIVATIONS: Mapping[str, Callable[[FloatArray], FloatArray]] = {
    "relu": lambda inputs: np.maximum(inputs, 0.0),
    "tanh": np.tanh,
    "erf": erf,
    "cos": np.cos,
    "identity": lambda inputs: inputs,
}


def random_features(
    X: ArrayLike,
    width: int,
    activation: str | Callable[[FloatArray], ArrayLike] = "relu",
    seed: int | np.random.Generator = 0,
) -> FloatArray:
    """The hidden layer of a network with one, phi(X W / sqrt(d)) / sqrt(width), with W (d, width) standard normal.

    A linear model on these features is the "one-layer network with non-linearities" of the paper: hidden weights
    are drawn once, and only the last layer is learned. The same seed gives the same weights, and so the same
    features of new rows. The features of a smaller width are the first ones of a larger width, up to the factor.

    Parameters
    ----------
    X : (n, d)
        Inputs, a row per sample.
    width : int
        The number of features.
    activation : "relu", "tanh", "erf", "cos", "identity", or a function of arrays
        phi, entry by entry.
    seed : int or numpy Generator
        Where W comes from.

    Returns
    -------
    (n, width)

    >>> import reshuffle as rs
    >>> features = rs.random_features([[2.0, 2.0], [0.0, 1.0]], width=50_000, seed=1)
    >>> features.shape
    (2, 50000)
    >>> round(float(features[0] @ features[0]), 1)  # about |x|^2 / (2 d)
    2.0
    """
    inputs = _arrays.matrix("X", X)
    width = _arrays.whole_number("width", width, 1, _MOST)
    rng = _arrays.generator("seed", seed)
    # Drawn feature by feature, so that more of them do not change the first.
    weights = rng.standard_normal((width, inputs.shape[1]))
    hidden = inputs @ weights.T / np.sqrt(inputs.shape[1])
    return np.asarray(_applied(activation, hidden) / np.sqrt(width))


def _applied(activation: Any, hidden: FloatArray) -> FloatArray:
    if isinstance(activation, str):
        return _ACTIVATIONS[_arrays.choice("activation", activation, tuple(_ACTIVATIONS))](hidden)
    if not callable(activation):
        raise TypeError(
            f"activation must be one of {', '.join(map(repr, _ACTIVATIONS))}, or a function, "
            f"but it is {activation!r}."
        )
    made = _arrays.real_array("activation(X W)", activation(hidden))
    if made.shape != hidden.shape:
        allowed = f"keep the shape of what it is given, {hidden.shape}"
        raise ArgumentError("activation", allowed, f"it returned {made.shape}")
    return made


def gaussian(
    n: int,
    p: int,
    *,
    covariance: CovarianceLike = None,
    noise: float = 1.0,
    beta_star: ArrayLike | None = None,
    seed: int | np.random.Generator = 0,
) -> LeastSquares:
    """Draw a problem with Gaussian features, x ~ N(0, Sigma), and Gaussian noise: y = X beta_star + noise * eta.

    Parameters
    ----------
    n, p : int
        Samples and features.
    covariance : optional
        Sigma, as in LeastSquares; None is the isotropic case.
    noise : float
        The noise level sigma.
    beta_star : (p,), optional
        The truth; by default uniform on the unit sphere.
    seed : int or numpy Generator
        Where the randomness comes from.

    Returns
    -------
    LeastSquares
        X of shape (n, p), y of shape (n,), and the truth that they were drawn from.

    >>> gaussian(100, 150, noise=0.5, seed=1)
    LeastSquares(n=100, p=150, truth known)
    """
    n = _arrays.whole_number("n", n, 1, _MOST)
    p = _arrays.whole_number("p", p, 1, _MOST)
    noise = _arrays.nonnegative("noise", noise)
    rng = _arrays.generator("seed", seed)
    X = checked_covariance(covariance, p).root()(rng.standard_normal((n, p)))
    if beta_star is None:
        direction = rng.standard_normal(p)
        beta_star = direction / np.linalg.norm(direction)
    beta_star = _arrays.vector("beta_star", beta_star, p, "one entry per feature")
    y = X @ beta_star + noise * rng.standard_normal(n)
    return LeastSquares(X, y, beta_star=beta_star, covariance=covariance, noise=noise)
