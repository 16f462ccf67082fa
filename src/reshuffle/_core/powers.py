"""Powers and geometric sums of 1 - x, for any number of terms, infinity included, without losing digits."""

import numpy as np

from reshuffle._core.arrays import FloatArray

_LOG_OF_ZERO = -1e250
"""Stands for log(0): its exponential is 0, and 0 times it is 0."""
_FADED = -750.0
"""Exponents below have an exponential of zero."""
_NEAR = 0.5
"""Exponents nearer to zero than this need expm1; beyond, 1 - exp(e) loses at most a bit."""


def power_and_sum(x: FloatArray, count: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(1 - x)^k and 1 + (1 - x) + ... + (1 - x)^(k - 1), each of shape count.shape + x.shape.

    For x = 0 the sum is k itself: the k P_0 term of Lemma geometric_series_pinv. Where the powers have no
    limit (x < 0 or x >= 2) the infinite ones are +inf: divergence is an answer.

    Parameters
    ----------
    x : (r,)
    count : any shape
        k, whole numbers >= 0 or infinity.

    >>> power, total = power_and_sum(np.array([0.0, 1e-300, 0.5, 2.5]), np.array([4.0, np.inf]))
    >>> print(power)
    [[1.     1.     0.0625 5.0625]
     [1.     0.     0.        inf]]
    >>> print(total)
    [[ 4.000e+000  4.000e+000  1.875e+000 -1.625e+000]
     [        inf  1.000e+300  2.000e+000         inf]]
    """
    forever = np.isinf(count)
    terms = np.where(forever, 0.0, count)
    power, rest = _power_and_rest(x, terms)
    with np.errstate(over="ignore"):
        total = rest / np.where(x == 0, 1.0, x)
    total[..., x == 0] = terms[..., np.newaxis]
    settles = (x > 0) & (x < 2)
    with np.errstate(divide="ignore", over="ignore"):
        power[forever] = np.where(x == 0, 1.0, np.where(settles, 0.0, np.inf))
        total[forever] = np.where(settles, 1 / np.where(x == 0, 1.0, x), np.inf)
    return power, total


def _power_and_rest(x: FloatArray, count: FloatArray) -> tuple[FloatArray, FloatArray]:
    """P = (1 - x)^k and 1 - p, for finite k."""
    with np.errstate(divide="ignore"):
        # x - 2 and 1 - x are exact where their logarithms are near zero.
        logarithm = np.where(x < 1, np.log1p(-np.minimum(x, 1.0)), np.log1p(np.maximum(x, 1.0) - 2))
    logarithm = np.maximum(logarithm, _LOG_OF_ZERO)
    power, rest = np.zeros(count.shape + x.shape), np.ones(count.shape + x.shape)
    # Modes that have faded out before the first count are not worth an exponential, a slow one at that.
    alive = logarithm * count.min(initial=np.inf if count.size else 0.0) > _FADED
    power[..., alive], rest[..., alive] = _alive_power_and_rest(x[alive], logarithm[alive], count)
    return power, rest


def _alive_power_and_rest(
    x: FloatArray, logarithm: FloatArray, count: FloatArray
) -> tuple[FloatArray, FloatArray]:
    exponent = count[..., np.newaxis] * logarithm
    with np.errstate(over="ignore", under="ignore"):
        power = np.exp(exponent)
    rest = 1 - power
    near = np.abs(exponent) < _NEAR
    rest[near] = -np.expm1(exponent[near])
    # Above 1 the base is negative, and so are its odd powers.
    below = x > 1
    if below.any():
        is_odd = (np.mod(count, 2) == 1)[..., np.newaxis] & below
        rest[is_odd] = 1 + power[is_odd]
        power[is_odd] *= -1
    return power, rest
