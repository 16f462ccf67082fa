"""Moments, free cumulants and recurrences of one law, each from the others, in any kind of numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

Numbers = list[Any]


def moments_from_recurrence(alpha: Sequence[Any], beta: Sequence[Any], order: int) -> Numbers:
    """Return ``[m_1, ..., m_order]`` of the law whose monic orthogonal polynomials obey the recurrence.

    ``x P_n = P_{n+1} + alpha_n P_n + beta_n P_{n-1}``; m_k is the coefficient of P_0 in ``x^k P_0``.

    >>> moments_from_recurrence([0] * 5, [0] + [1] * 5, 8)
    [0, 1, 0, 2, 0, 5, 0, 14]
    """
    vector: Numbers = [1]
    moments = []
    for _ in range(order):
        new: Numbers = [0] * (len(vector) + 1)
        for n, weight in enumerate(vector):
            # Coefficients beyond the list are only reached by paths too long to come back in time.
            if n < len(alpha):
                new[n + 1] += weight
                new[n] += alpha[n] * weight
                if n:
                    new[n - 1] += beta[n] * weight
        vector = new
        moments.append(vector[0])
    return moments


def recurrence_from_moments(moments: Sequence[Any]) -> tuple[Numbers, Numbers]:
    """Return ``(alpha, beta)`` from ``[m_1, m_2, ...]`` by Chebyshev's algorithm; stops where beta vanishes.

    >>> recurrence_from_moments([0, 1, 0, 2, 0, 5, 0])
    ([0, 0.0, 0.0, 0.0], [0, 1.0, 1.0, 1.0])
    """
    sigma_old: Numbers = [0] * (len(moments) + 1)
    sigma: Numbers = [1, *moments]
    alpha, beta = [sigma[1]], [0]
    for k in range(1, (len(moments) + 1) // 2):
        width = len(moments) + 1 - k
        new: Numbers = [0] * (len(moments) + 1)
        for j in range(k, width):
            new[j] = sigma[j + 1] - alpha[-1] * sigma[j] - beta[-1] * sigma_old[j]
        step = new[k] / sigma[k - 1]
        beta.append(step)
        if step == 0:
            break
        alpha.append(new[k + 1] / new[k] - sigma[k] / sigma[k - 1])
        sigma_old, sigma = sigma, new
    return alpha, beta


def cumulants_from_moments(moments: Sequence[Any]) -> Numbers:
    """Return the free cumulants ``[kappa_1, ...]``: ``m_n = sum_s kappa_s [t^(n-s)] M(t)^s``.

    >>> cumulants_from_moments([1, 2, 5, 14])
    [1, 1, 1, 1]
    """
    series: Numbers = [1, *moments]
    cumulants: Numbers = []
    for n in range(1, len(series)):
        rest, power = 0, [1] + [0] * n
        for s in range(1, n):
            power = _product(power, series, n)
            rest += cumulants[s - 1] * power[n - s]
        cumulants.append(series[n] - rest)
    return cumulants


def moments_from_cumulants(cumulants: Sequence[Any]) -> Numbers:
    """Return ``[m_1, ...]``, the inverse of `cumulants_from_moments`.

    >>> moments_from_cumulants([0, 1, 0, 0])
    [0, 1, 0, 2]
    """
    series: Numbers = [1]
    for n in range(1, len(cumulants) + 1):
        total, power = 0, [1] + [0] * n
        padded = series + [0] * (n + 1 - len(series))
        for s in range(1, n + 1):
            power = _product(power, padded, n)
            total += cumulants[s - 1] * power[n - s]
        series.append(total)
    return series[1:]


def _product(left: Numbers, right: Numbers, order: int) -> Numbers:
    return [sum((left[i] * right[n - i] for i in range(n + 1)), start=0 * left[0]) for n in range(order + 1)]


def recurrence_of_points(points: Any, weights: Any, depth: int) -> tuple[Numbers, Numbers]:
    """Return the recurrence of a discrete law by the Lanczos process, which never forms its moments.

    >>> alpha, beta = recurrence_of_points([-1.0, 1.0], [0.5, 0.5], 5)
    >>> [round(float(b), 12) for b in beta]
    [0.0, 1.0, 0.0]
    """
    x, w = np.asarray(points, dtype=float), np.sqrt(np.asarray(weights, dtype=float))
    basis = [w / np.linalg.norm(w)]
    alpha: Numbers = []
    beta: Numbers = [0.0]
    scale = max(float(np.abs(x).max()), 1e-300)
    for _ in range(depth):
        image = x * basis[-1]
        alpha.append(float(image @ basis[-1]))
        # Full reorthogonalisation, twice: the short recurrence alone loses orthogonality within a
        # dozen steps.
        for _ in range(2):
            for vector in basis:
                image = image - (image @ vector) * vector
        norm = float(np.linalg.norm(image))
        if norm <= 1e-13 * scale or len(basis) == len(x):
            beta.append(0.0)
            break
        beta.append(norm**2)
        basis.append(image / norm)
    return alpha, beta
