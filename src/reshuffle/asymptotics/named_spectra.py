"""Spectra of Sigma that have a name: power laws of any length and sums over them, spikes, stationary series."""

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, DTypeLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray

LARGEST_LISTED = 2**27
"""Beyond this many values a power law is not written out."""
_DIRECT = 64
"""Up to this index sums are made term by term; beyond, Euler and Maclaurin's series has all digits."""


@dataclass(frozen=True)
class PowerLaw:
    """The numbers scale j^-exponent for j = 1, ..., size, without a list of them until one is asked for.

    As `covariance` of limits with p/n -> aspect they are eigenvalues of equal shares, finitely many, for any
    exponent >= 0: that a sum over infinitely many would diverge does not matter to them. In one pass over
    fresh data there may be infinitely many, if their exponent is larger than one.

    Parameters
    ----------
    exponent : float
        a; for a spectrum it must be positive.
    size : int or math.inf
        How many there are.
    scale : float > 0
        What all of them are multiplied by.

    >>> PowerLaw(1.0, 4).values()
    array([1.        , 0.5       , 0.33333333, 0.25      ])
    >>> np.asarray(PowerLaw(0.5, 2)).round(4)
    array([1.    , 0.7071])
    >>> round(PowerLaw(2.0).total(), 12) == round(math.pi**2 / 6, 12)
    True
    """

    exponent: float
    size: float = math.inf
    scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "exponent", float(_arrays.real_array("exponent", self.exponent)))
        object.__setattr__(self, "scale", _arrays.positive("scale", self.scale))
        if self.size != math.inf:
            object.__setattr__(self, "size", _arrays.whole_number("size", self.size, 1))

    def __repr__(self) -> str:
        scale = "" if self.scale == 1.0 else f", scale={self.scale:g}"
        return f"PowerLaw({self.exponent:g}, size={self.size:g}{scale})"

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> FloatArray:
        return np.asarray(self.values(), dtype=dtype)

    def total(self) -> float:
        """The sum of all numbers; inf where it has no limit."""
        return self.scale * float(power_sums(self.exponent, 1.0, self.size + 1))

    def values(self) -> FloatArray:
        """All numbers as a vector (size,)."""
        if self.size > LARGEST_LISTED:
            raise ValueError(
                f"size must be at most {LARGEST_LISTED} for a list of all values, but it is {self.size:g};"
                " give both spectrum and source as a PowerLaw."
            )
        return self.scale * np.arange(1.0, self.size + 1) ** -self.exponent


def power_sums(exponent: float, first: ArrayLike, end: ArrayLike) -> FloatArray:
    """The sums of j^-exponent over whole numbers first <= j < end, of the shape of both; inf where they diverge.

    Euler and Maclaurin: int f + (f(first) - f(end))/2 - (f'(first) - f'(end))/12 + ..., six terms beyond index 64.

    >>> float(power_sums(1.0, 1, 11).round(12)) == round(sum(1 / j for j in range(1, 11)), 12)
    True
    >>> power_sums(1.0, 1, math.inf)
    array(inf)
    """
    first, end = np.broadcast_arrays(np.asarray(first, dtype=float), np.asarray(end, dtype=float))
    table = np.concatenate([[0.0], np.cumsum(np.arange(1.0, _DIRECT) ** -exponent)])
    low, high = np.minimum(first, _DIRECT), np.minimum(end, _DIRECT)
    near = table[high.astype(int) - 1] - table[low.astype(int) - 1]
    return np.asarray(near + _far_sums(exponent, np.maximum(first, _DIRECT), np.maximum(end, _DIRECT)))


def _far_sums(exponent: float, first: FloatArray, end: FloatArray) -> FloatArray:
    far = np.isinf(end)
    last = np.where(far, first, end)
    ratio = np.log(last / first)
    with np.errstate(over="ignore"):
        # (end^(1-a) - first^(1-a))/(1 - a), which is log(end/first) at a = 1.
        growth = (1 - exponent) * ratio
        smooth = np.where(growth == 0, 1.0, np.expm1(growth) / np.where(growth == 0, 1.0, growth))
        integral = first ** (1 - exponent) * ratio * smooth
    total = integral + _corrections(exponent, first) - _corrections(exponent, last)
    if exponent > 1:
        beyond = first ** (1 - exponent) / (exponent - 1) + _corrections(exponent, first)
    else:
        beyond = np.full(first.shape, np.inf)
    return np.where(far, beyond, total)


def _corrections(exponent: float, index: FloatArray) -> FloatArray:
    """f/2 - f'/12 + f'''/720 - f^(5)/30240 at an index, of f = j^-exponent."""
    a, square = exponent, index**-2.0
    second = a / 12 / index
    fourth = -a * (a + 1) * (a + 2) / 720 / index * square
    sixth = a * (a + 1) * (a + 2) * (a + 3) * (a + 4) / 30240 / index * square**2
    return np.asarray(index**-a * (0.5 + second + fourth + sixth))


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
    given = np.atleast_1d(_arrays.real_array("spikes", spikes))
    count = _arrays.whole_number("size", size, len(given))
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
    column = float(correlation) ** np.arange(_arrays.whole_number("size", size, 1))
    return np.asarray(scipy.linalg.eigvalsh(scipy.linalg.toeplitz(column)))
