"""Values at isolated points where the joint system is singular although its resolvent is not."""

from collections.abc import Callable

import numpy as np
from numpy.polynomial import chebyshev

from reshuffle.free.checks import Complex, Real
from reshuffle.free.continuation import ROUNDING

RADII = np.array([0.1, 0.03, 0.01, 0.003, 0.001])
# An even rule would be blind to a pole at the point itself, where the values of both sides cancel.
_NODES = 1.15 * np.cos(np.pi * (np.arange(12) + 0.5) / 12) + 0.15
_WEIGHTS = (chebyshev.chebvander([0.0], 11) @ np.linalg.inv(chebyshev.chebvander(_NODES, 11)))[0]

Solve = Callable[[Complex], tuple[Complex, Real]]


def bridge(solve: Solve, z: Complex) -> tuple[Complex, Real]:
    """Return values at z, and error estimates, from points on both sides of z.

    Where G is analytic across z, polynomials through 12 neighbours at falling radii agree with one another;
    at an edge, an atom or a singularity of the density they do not, and the estimate says so.

    Parameters
    ----------
    solve : points (n,) -> values (n, k, k) and errors (n,), with nan and inf where it failed.
    z : shape (points,), in units in which the spectrum has size one.

    >>> inverse = lambda z: (1 / (z - 2)[:, None, None], np.zeros(len(z)))
    >>> value, error = bridge(inverse, np.array([0.5 + 0j, 2.0 + 0j]))
    >>> bool(abs(value[0, 0, 0] + 2 / 3) < 1e-13), bool(error[0] < 1e-12), bool(error[1] > 1)
    (True, True, True)
    """
    points = z[:, None, None] + RADII[:, None] * _NODES
    values, errors = solve(points.ravel())
    values = values.reshape(*points.shape, *values.shape[1:])
    middle = np.einsum("k,nrkij->nrij", _WEIGHTS, values)
    rounded = errors + ROUNDING * np.abs(values).max(axis=(3, 4)).ravel()
    noise = rounded.reshape(points.shape) @ np.abs(_WEIGHTS)
    # A singularity of the power 1/3 falls by a third from one radius to the next: a difference is no bound.
    spread = 4 * np.abs(np.diff(middle, axis=1)).max(axis=(2, 3)) + noise[:, 1:]
    spread = np.where(np.isfinite(spread), spread, np.inf)
    best, rows = np.argmin(spread, axis=1), np.arange(len(z))
    return middle[rows, best + 1], spread[rows, best]
