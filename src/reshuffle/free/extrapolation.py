"""Limits of sequences whose errors are sums of powers of the step."""

import numpy as np

from reshuffle.free.checks import Complex, ConvergenceError


def limit(values: Complex) -> Complex:
    """Return the limit of each row by Wynn's epsilon algorithm.

    Rows are taken at geometrically falling steps.

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
