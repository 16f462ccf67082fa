"""The modes of a diagonal matrix less one square, and how a sum over them is seen: by the secular equation."""

import numpy as np

from reshuffle._arrays import FloatArray

_HALVINGS = 64
"""How often the interval of a root, in the logarithm of its distance from the nearest pole, is halved."""
_FARTHEST = 1e-40
"""A root closer to its pole than this part of the gap stands for a mode that nothing is coupled to."""


def coupled_paces(paces: FloatArray, gains: FloatArray, start: FloatArray) -> tuple[FloatArray, ...]:
    """The eigenvalues x (k,) of diag(paces) - g g', g = sqrt(gains), and how start and noise are seen through them.

    For r' = r - paces r + gains (sum r + q) the sum of r after t steps is sum_i (1 - x_i)^t u_i, plus q times
    sum_i w_i (1 + (1 - x_i) + ... ), over the roots of sum_j gains_j/(paces_j - x) = 1, with

        w_i = 1 / sum_j gains_j/(paces_j - x_i)^2,      u_i = w_i sum_j start_j/(paces_j - x_i).

    One root lies below each pole, between it and the one before: distances from the nearest pole are found by
    halving, so that they have all digits however small, and no vectors are needed.

    >>> x, u, w = coupled_paces(np.array([0.5, 1.0]), np.array([0.1, 0.2]), np.array([3.0, 4.0]))
    >>> matrix = np.diag([0.5, 1.0]) - np.outer([0.1, 0.2], [1.0, 1.0])
    >>> bool(np.allclose(np.sort(np.linalg.eigvals(matrix)), x) and np.isclose(u.sum(), 7.0))
    True
    """
    return secular_modes(paces, gains, start, np.ones(len(paces)))[:3]


def secular_modes(
    paces: FloatArray, gains: FloatArray, start: FloatArray, sight: FloatArray
) -> tuple[FloatArray, ...]:
    """x, u and w of `coupled_paces`, and how much of mode i is seen by sum_j sight_j r_j per unit of sum_j r_j.

    That is the mean of `sight` over the mode, sum_j sight_j gains_j/(paces_j - x_i), for this sum is one for
    sight = 1. Entries of equal pace must have equal sight.
    """
    poles, first, place = np.unique(paces, return_index=True, return_inverse=True)
    together: FloatArray = np.bincount(place, gains).astype(np.float64)
    started: FloatArray = np.bincount(place, start).astype(np.float64)
    origin, offset = _roots(poles, together)
    distances = (poles - origin[:, np.newaxis]) - offset[:, np.newaxis]
    noise = 1 / (together / distances / distances).sum(axis=1)
    seen = (sight[first] * together / distances).sum(axis=1)
    return origin + offset, noise * (started / distances).sum(axis=1), noise, seen


def _roots(poles: FloatArray, gains: FloatArray) -> tuple[FloatArray, FloatArray]:
    """For each root the nearest pole, and how far it is from there."""
    lower = np.concatenate([[poles[0] - 2 * gains.sum()], poles[:-1]])
    half = (poles - lower) / 2
    # It falls from one pole to the next: where it is positive in the middle, the root is in the upper half.
    above = _excess(poles, gains, poles, -half) > 0
    above[0] = True
    origin, sign = np.where(above, poles, lower), np.where(above, -1.0, 1.0)
    near, far = half * _FARTHEST, half.copy()
    far[0] *= 2
    for _ in range(_HALVINGS):
        middle = np.sqrt(near) * np.sqrt(far)
        too_near = (_excess(poles, gains, origin, sign * middle) > 0) != above
        near, far = np.where(too_near, middle, near), np.where(too_near, far, middle)
    return origin, sign * np.sqrt(near) * np.sqrt(far)


def _excess(poles: FloatArray, gains: FloatArray, origin: FloatArray, offset: FloatArray) -> FloatArray:
    """1 - sum_j gains_j/(poles_j - x) at x = origin + offset: falls from one pole to the next."""
    distances = (poles - origin[:, np.newaxis]) - offset[:, np.newaxis]
    return np.asarray(1 - (gains / distances).sum(axis=1))
