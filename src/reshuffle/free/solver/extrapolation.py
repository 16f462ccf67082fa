"""Values where the system cannot be solved, from points around: across a point, and towards the axis."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from reshuffle.free.checks import Complex, ConvergenceError, ErrorKind, Real
from reshuffle.free.solver.continuation import ROUNDING

RADII = np.array([0.1, 0.03, 0.01, 0.003, 0.001])
# An even rule would be blind to a pole at the point itself, where the values of both sides cancel.
_NODES = 1.15 * np.cos(np.pi * (np.arange(12) + 0.5) / 12) + 0.15
_WEIGHTS = (chebyshev.chebvander([0.0], 11) @ np.linalg.inv(chebyshev.chebvander(_NODES, 11)))[0]

RELIABLE = 1e-5
"""Error of a value, relative to its size or to one, beyond which it is not given."""
_DOUBTFUL = 1e-9
"""The same, beyond which its neighbours are asked: beside a point at which the joint system is singular and G is
not, a value is good to 1e-13 or to 1e-9, as the last bits of a matrix product happen to be."""

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


def limit(values: Complex) -> Complex:
    """Return the limit of each row, taken at geometrically falling steps, by Wynn's epsilon algorithm.

    Of all entries of the table the one that agrees best with its neighbour is taken, so that rounding in the
    late columns is not mistaken for progress. Source: Wynn (1956).

    >>> steps = 10.0 ** -np.arange(9)
    >>> row = 0.25 + steps**0.5 + 3 * steps
    >>> bool(abs(limit(row[None])[0] - 0.25) < 1e-10)
    True
    """
    if np.isnan(values).any():
        raise ConvergenceError(
            "a limit towards the real axis did not converge; an atom lies too close to an edge"
        )
    older = np.zeros((values.shape[0], values.shape[1] + 1), dtype=complex)
    newer = np.asarray(values, dtype=complex)
    best, spread = newer[:, -1], np.abs(newer[:, -1] - newer[:, -2])
    for column in range(1, values.shape[1]):
        gaps = np.diff(newer, axis=1)
        tiny = np.abs(gaps) < 1e-300
        fresh = older[:, 1 : 1 + gaps.shape[1]] + 1 / np.where(tiny, 1e-300, gaps)
        older, newer = newer, fresh
        if column % 2 == 0 and newer.shape[1] > 1:
            distance = np.abs(np.diff(newer, axis=1))
            pick = np.argmin(distance, axis=1)
            rows = np.arange(len(newer))
            better = distance[rows, pick] < spread
            best = np.where(better, newer[rows, pick + 1], best)
            spread = np.where(better, distance[rows, pick], spread)
    return np.asarray(best)


@dataclass(frozen=True)
class Resolved:
    """An answer at each point, with what is known about it.

    Attributes
    ----------
    value : array
        Is nan where the point failed.
    error : array
        Of its absolute size, inf where the point failed.
    converged : array of bool
        Is False where it failed.
    error_kind : str
        In which sense the error is meant.

    >>> Resolved(np.array([0.25, np.nan]), np.array([1e-15, np.inf]), np.array([True, False]))
    Resolved(2 points, 1 of them converged, +- 1e-15 at most (estimate))
    """

    value: NDArray[Any]
    error: Real
    converged: NDArray[np.bool_]
    error_kind: ErrorKind = "estimate"

    def density(self, unit: float) -> "Resolved":
        """The density -Im G / pi of a law of size `unit`, where these are its Cauchy transform on the real axis."""
        density, error = -self.value.imag / np.pi, self.error / np.pi
        # Close to an atom |G| is large and so is its error, even where the density is small.
        trusted = self.converged & (error <= RELIABLE * np.maximum(np.abs(density), 1 / unit))
        # Outside the support the imaginary part is a rounding of either sign.
        density = np.where(trusted, np.where(density > error, density, 0.0), np.nan)
        return Resolved(density, np.where(trusted, error, np.inf), trusted)

    def __repr__(self) -> str:
        largest = float(self.error[self.converged].max(initial=0.0))
        off = f"+- {largest:.2g} at most ({self.error_kind})"
        if not self.value.ndim:
            return f"Resolved({self.value:.6g} {off})" if self.converged else "Resolved(not converged)"
        return f"Resolved({self.converged.size} points, {self.converged.sum()} of them converged, {off})"


def resolved(solve: Solve, z: Complex, strict: bool = True) -> Resolved:
    """Return matrices at points of either half-plane, from a solver for the upper one.

    Parameters
    ----------
    solve : points (n,) with ``Im z >= 0`` -> values (n, k, k) and errors (n,), inf where it failed.
    z : shape (points,), in units in which the spectrum has size one; strict : ask the neighbours of what
        cannot be trusted, and drop what still cannot.
    """
    mirrored = z.imag < 0
    upper = np.where(mirrored, z.conj(), z)
    values, errors = solve(upper)
    flags = np.isfinite(errors)
    if strict:
        lost = np.flatnonzero(~_within(_DOUBTFUL, values, errors))
        if len(lost):
            across, spread = bridge(solve, upper[lost])
            better = spread < np.where(np.isnan(errors[lost]), np.inf, errors[lost])
            values[lost[better]], errors[lost[better]] = across[better], spread[better]
        flags = _within(RELIABLE, values, errors)
    # Both parts: a density is read off the imaginary one.
    values[~flags], errors[~flags] = complex(np.nan, np.nan), np.inf
    values = np.where(mirrored[:, None, None], values.conj().transpose(0, 2, 1), values)
    return Resolved(values, errors, flags)


def _within(share: float, values: Complex, errors: Real) -> NDArray[np.bool_]:
    size = np.abs(np.nan_to_num(values)).max(axis=(1, 2), initial=0.0)
    return np.asarray(errors <= share * np.maximum(1.0, size))
