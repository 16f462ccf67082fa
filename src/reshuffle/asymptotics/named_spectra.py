"""Spectra of Sigma that have a name: power laws, spikes, and the covariance of a stationary series."""

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from reshuffle._core import FloatArray, checks


def power_law(exponent: float, size: int = 200) -> FloatArray:
    """The eigenvalues j^-exponent, j = 1, ..., size.

    Parameters
    ----------
    exponent : float >= 0
        With one below zero the trace would grow without bound, relative to the first eigenvalue.
    size : int >= 1

    Returns
    -------
    (size,)

    >>> power_law(1.0, 4)
    array([1.        , 0.5       , 0.33333333, 0.25      ])
    """
    power = checks.nonnegative("exponent", exponent)
    count = checks.whole_number("size", size, 1)
    if not power * np.log10(count) <= 12:
        raise ValueError(
            f"exponent must leave the eigenvalues within a factor 1e12 of each other, but {count}^-{power:g} is"
            " smaller; take a smaller exponent or size."
        )
    return np.asarray(np.arange(1.0, count + 1) ** -power)


def spiked(spikes: ArrayLike, size: int = 200) -> FloatArray:
    """`size` eigenvalues, of which some are given and the others one.

    Parameters
    ----------
    spikes : (k,)
    size : int >= k

    Returns
    -------
    (size,)

    >>> spiked([10.0], 4)
    array([10.,  1.,  1.,  1.])
    """
    given = np.atleast_1d(checks.real_array("spikes", spikes))
    count = checks.whole_number("size", size, len(given))
    return np.concatenate([given, np.ones(count - len(given))])


def toeplitz(correlation: float, size: int = 200) -> FloatArray:
    """The eigenvalues of the covariance correlation^|i - j| of `size` neighbouring values of a stationary series.

    Parameters
    ----------
    correlation : float
        Between -1 and 1, exclusive.
    size : int >= 1

    Returns
    -------
    (size,)

    >>> toeplitz(0.5, 2)
    array([0.5, 1.5])
    """
    if not abs(correlation) < 1:
        raise ValueError(f"correlation must lie between -1 and 1, exclusive, but it is {correlation:g}.")
    column = float(correlation) ** np.arange(checks.whole_number("size", size, 1))
    return np.asarray(scipy.linalg.eigvalsh(scipy.linalg.toeplitz(column)))
