"""Spectra of Sigma that have a name: spikes, and the covariance of a stationary series."""

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from reshuffle._core import FloatArray, checks


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
