"""Random features: a hidden layer that is drawn once and never trained."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf

from reshuffle._core import FloatArray, checks

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
    are drawn and stay, and the last layer is learned. The same seed gives the same weights, so that new rows are
    taken to the same features; those of a smaller width are the first of a larger one, up to the factor.

    Parameters
    ----------
    X : (n, d)
        Inputs, a row per sample.
    width : int
        How many features are made.
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
    inputs = checks.matrix("X", X)
    width = checks.whole_number("width", width, 1)
    rng = checks.generator("seed", seed)
    # Drawn feature by feature, so that more of them do not change the first.
    weights = rng.standard_normal((width, inputs.shape[1]))
    hidden = inputs @ weights.T / np.sqrt(inputs.shape[1])
    return np.asarray(_applied(activation, hidden) / np.sqrt(width))


def _applied(activation: Any, hidden: FloatArray) -> FloatArray:
    if isinstance(activation, str):
        return _ACTIVATIONS[checks.choice("activation", activation, tuple(_ACTIVATIONS))](hidden)
    if not callable(activation):
        raise TypeError(
            f"activation must be one of {', '.join(map(repr, _ACTIVATIONS))}, or a function, "
            f"but it is {activation!r}."
        )
    made = checks.real_array("activation(X W)", activation(hidden))
    if made.shape != hidden.shape:
        raise ValueError(
            f"activation must keep the shape of what it is given, {hidden.shape}, but it returned {made.shape}."
        )
    return made
