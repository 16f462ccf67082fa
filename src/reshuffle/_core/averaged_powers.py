"""Averages over the epochs of powers and geometric sums: what an average of iterates makes of a mode.

A mode with pace x has the power (1 - x)^j and the geometric sum G_j = 1 + (1 - x) + ... + (1 - x)^(j - 1) after j
epochs. Here are their means with the weights of an average, without differences of nearly equal numbers.
"""

import math

import numpy as np

from reshuffle._core import FloatArray
from reshuffle._core.numerics import power_and_sum

_NEAR = 0.5
"""Paces times epochs below which a sum is expanded in them; beyond, its closed form loses a few bits at most."""
_TERMS = 16
"""Of that expansion: the m-th is below (m + 1) 2^-m / (m + 2)!."""


def tail_mean(x: FloatArray, first: int, last: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The means of (1 - x)^j and of G_j over j = first, ..., last, each of shape last.shape + x.shape.

    Parameters
    ----------
    x : (r,)
    first : int
    last : any shape
        Finite, at least `first`.

    >>> power, total = tail_mean(np.array([0.0, 0.5]), 1, np.array([2.0]))
    >>> print(power, total)
    [[1.    0.375]] [[1.5  1.25]]
    """
    count = np.asarray(last - first + 1)
    power, before = power_and_sum(x, np.asarray(float(first)))
    _, total = power_and_sum(x, count)
    terms = count[..., np.newaxis]
    with np.errstate(over="ignore", invalid="ignore"):
        # G_(first + i) = G_first + (1 - x)^first G_i, and of the first G_i, i < count, the mean is the ramp.
        return power * (total / terms), before + power * _ramp(x, terms, total)


def _ramp(x: FloatArray, count: FloatArray, total: FloatArray) -> FloatArray:
    """(G_0 + ... + G_(count - 1)) / count = (1 - G_count / count) / x, of which `total` is G_count."""
    with np.errstate(over="ignore", invalid="ignore"):
        value = (1 - total / count) / np.where(x == 0, 1.0, x)
        near = np.abs(x * count) < _NEAR
        # G_L = sum over m of binom(L, m + 1) (-x)^m.
        series, term = np.zeros(near.shape), (count - 1) / 2 * np.ones(near.shape)
        for m in range(_TERMS):
            series = series + term
            term = term * (-x) * (count - 2 - m) / (m + 3)
    return np.where(near, series, value)


def moving_mean(x: FloatArray, decay: float, count: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The exponential moving averages of (1 - x)^j and of G_j after k = `count` epochs.

    With d the decay, the weights are (1 - d) d^(k - j) for j = 1, ..., k and d^k for j = 0. The averages are

        d^(k + 1) + (1 - d) h_k(1 - x, d)   and   (1 - d) h_(k - 1)(1, 1 - x, d),

    where h_m is the sum of all products of m of its arguments, with repetition: a divided difference of a power.

    Parameters
    ----------
    x : (r,)
    decay : float
        In [0, 1).
    count : any shape
        Finite.

    >>> power, total = moving_mean(np.array([0.0, 0.5]), 0.5, np.array([2.0]))
    >>> print(power, total)
    [[1.  0.5]] [[1.25 1.  ]]
    """
    gap = 1 - decay
    # d^(k + 1) and h_k(1, d), (..., 1).
    left, total = power_and_sum(np.array([gap]), count + 1)
    mixed = _mixed(x, decay, count)
    _, plain = power_and_sum(x, count + 1)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        power = left + gap * mixed
        # The two of the three arguments that are farthest apart are divided by.
        apart = np.where(np.abs(x) > gap, gap * (total - mixed) / np.where(x == 0, 1.0, x), plain - mixed)
        near = count[..., np.newaxis] * np.maximum(np.abs(x), gap) < _NEAR
    return power, np.where(near, gap * _all_near_one(x, gap, count), apart)


def _mixed(x: FloatArray, decay: float, count: FloatArray) -> FloatArray:
    """h_k(1 - x, d) = ((1 - x)^(k + 1) - d^(k + 1)) / (1 - x - d)."""
    rate, gap = 1 - x, 1 - decay
    # With a the larger of the two it is a^k times a geometric sum in the smaller over the larger.
    larger = np.abs(rate) > decay
    highest = np.where(larger, x, gap)
    size = np.where(larger, rate, decay)
    lost = np.where(larger, gap - x, x - gap) / np.where(size == 0, 1.0, size)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(power_and_sum(highest, count)[0] * power_and_sum(lost, count + 1)[1])


def _all_near_one(x: FloatArray, gap: float, count: FloatArray) -> FloatArray:
    """h_(k - 1)(1, 1 - x, 1 - gap) = sum over m of binom(k + 1, m + 2) (-1)^m h_m(x, gap)."""
    terms = count[..., np.newaxis]
    series = np.zeros(count.shape + x.shape)
    binomial, both, power = terms * (terms + 1) / 2, np.ones(x.shape), np.ones(x.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        for m in range(_TERMS):
            series = series + binomial * both
            binomial = -binomial * (terms - 1 - m) / (m + 3)
            power = power * x
            both = gap * both + power
    return series


def moving_power(decay: float, updates: float) -> tuple[float, float]:
    """decay^m and 1 - decay^(2 m) after m updates, the second without a difference of nearly equal numbers.

    >>> moving_power(0.5, 2)
    (0.25, 0.9375)
    """
    if decay == 0:
        return (0.0, 1.0) if updates else (1.0, 0.0)
    exponent = updates * math.log(decay)
    return math.exp(exponent), -math.expm1(2 * exponent)
