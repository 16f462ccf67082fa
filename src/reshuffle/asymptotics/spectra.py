"""Spectra of Sigma (power laws, spikes, stationary series), and the arguments that every limit takes."""

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.typing import ArrayLike, DTypeLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle.free.laws import Discrete, Law

LARGEST_LISTED = 2**27
"""Beyond this many values a power law is not written out."""
_EVEN_ROWS = Discrete([1.0])
_DIRECT = 64
"""Up to this index sums are made term by term; beyond, Euler and Maclaurin's series has all digits."""


@dataclass(frozen=True)
class PowerLaw:
    """The numbers scale j^-exponent for j = 1, ..., size, listed only on request.

    As `covariance` of limits with p/n -> aspect they are eigenvalues of equal shares, finitely many, for any
    exponent >= 0: that a sum over infinitely many would diverge does not matter to them. In one pass over
    fresh data there may be infinitely many, if their exponent is larger than one.

    Parameters
    ----------
    exponent : float
        a; for a spectrum it must be positive.
    size : int or math.inf
        The number of terms.
    scale : float > 0
        The common factor.

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


def aspect(value: float) -> float:
    """Return the limit of p/n, a finite number > 0."""
    return _within("aspect", _arrays.positive("aspect", value, "the limit of p/n"), 1e-12, 1e12)


def alpha(value: float) -> float:
    """Return the full-batch step, a finite number > 0."""
    step = _arrays.positive("alpha", value, "the full-batch step; each of B batches is visited with alpha/B")
    return _within("alpha", step, 1e-50, 1e50)


def batches(value: int) -> int:
    """Return B, a whole number >= 1."""
    return _arrays.whole_number("batches", value, 1)


def _within(name: str, value: float, low: float, high: float) -> float:
    """Return a value whose powers are numbers, so that no formula overflows."""
    if not low <= value <= high:
        raise ValueError(
            f"{name} must lie between {low:g} and {high:g}, but it is {value:g}; check its units."
        )
    return value


@dataclass(frozen=True, eq=False)
class Population:
    """A discrete spectrum of Sigma: distinct eigenvalues >= 0 and the share of each, both (m,).

    `source` (m,) is the squared signal along each eigenvalue, relative to a signal that has no direction: its mean
    over the shares is one. `row_squares` and `row_shares` (k,) are the squared scales of rows, and their shares.
    """

    eigenvalues: FloatArray
    weights: FloatArray
    source: FloatArray
    row_squares: FloatArray
    row_shares: FloatArray

    @property
    def is_isotropic(self) -> bool:
        """True if Sigma is a multiple of the identity."""
        return len(self.eigenvalues) == 1

    @property
    def is_identity(self) -> bool:
        """True if Sigma is the identity, and all rows have the scale one."""
        return self.is_isotropic and float(self.eigenvalues[0]) == 1.0 and self.has_even_rows

    @property
    def has_even_rows(self) -> bool:
        """True if all rows have the scale one."""
        return len(self.row_squares) == 1 and float(self.row_squares[0]) == 1.0

    @property
    def source_is_even(self) -> bool:
        """True if the signal is equally large in all directions."""
        return bool((self.source == 1).all())

    @property
    def null(self) -> float:
        """The share of zero eigenvalues."""
        return float(self.weights[self.eigenvalues == 0].sum())

    @property
    def signal(self) -> float:
        """The risk before anything is learned, tau(S Sigma), for a signal of length one."""
        return float(self.weights @ (self.source * self.eigenvalues))

    def __str__(self) -> str:
        rows = "" if self.has_even_rows else f", rows of {len(self.row_squares)} scales"
        low, high = self.eigenvalues[[0, -1]]
        if self.is_isotropic:
            return f"{low:g}{rows}"
        return f"{len(self.eigenvalues)} eigenvalues from {low:g} to {high:g}{rows}"

    def frozen(self, aspect: float) -> tuple[float, float]:
        """The masses tau(P_0) and tau(P_0 Sigma P_0 S) of the null space of X, in the limit p/n -> aspect.

        P_0 acts like (1 + theta Sigma)^-1, with theta such that aspect tau(theta Sigma (1 + theta Sigma)^-1) = 1,
        for the rank of X is n; twice, it acts like (1 + theta Sigma)^-2 over 1 - aspect tau(theta^2 Sigma^2 (1 +
        theta Sigma)^-2). With aspect (1 - null) <= 1 only the null space of Sigma itself is frozen.

        >>> population(None).frozen(4.0)
        (0.75, 0.75)
        """
        if aspect * (1 - self.null) <= 1:
            return self.null, 0.0
        if self.is_isotropic:
            mass = 1 - 1 / aspect
            return mass, mass * float(self.eigenvalues[0])

        def excess(logarithm: float) -> float:
            scaled = np.exp(logarithm) * self.eigenvalues
            return float(aspect * (self.weights @ (scaled / (1 + scaled))) - 1)

        positive = self.eigenvalues[self.eigenvalues > 0]
        low, high = -np.log(positive.max()) - 50.0, -np.log(positive.min()) + 50.0
        theta = np.exp(scipy.optimize.brentq(excess, low, high, xtol=1e-15, rtol=8.9e-16))
        shrunk = 1 / (1 + theta * self.eigenvalues)
        if self.source_is_even:
            return 1 - 1 / aspect, float(self.weights @ (self.eigenvalues * shrunk))
        # 1 - t^2/(1+t)^2 summed with aspect tau(t/(1+t)) = 1 is aspect tau(t/(1+t)^2): nothing cancels.
        below = aspect * float(self.weights @ (theta * self.eigenvalues * shrunk**2))
        return 1 - 1 / aspect, float(self.weights @ (self.source * self.eigenvalues * shrunk**2)) / below


Covariance: TypeAlias = ArrayLike | PowerLaw | Discrete | Population | None
"""Spectrum of Sigma: None (the identity), eigenvalues (m,) of equal shares, a power law, or a discrete law."""


def population(
    covariance: Covariance, source: ArrayLike | None = None, row_scales: ArrayLike | Discrete | None = None
) -> Population:
    """Check a covariance: None (the identity), a `free.Discrete` law, or eigenvalues (m,) of equal shares.

    And the `source` (m,), shares of the squared signal along each of them; and the scales of rows, alike.

    >>> population([1.0, 4.0, 1.0, 1.0]).weights
    array([0.75, 0.25])
    >>> population([1.0, 4.0], source=[0.1, 0.9]).source
    array([0.2, 1.8])
    """
    if isinstance(covariance, Population):
        return covariance
    points, weights = _spectrum(covariance)
    shares = _shares(source, weights)
    eigenvalues, owner = np.unique(points, return_inverse=True)
    together = np.asarray(np.bincount(owner, weights), dtype=float)
    # Exactly one without a source: the sums round.
    relative = np.ones(len(eigenvalues)) if source is None else np.bincount(owner, shares) / together
    relative = np.ones(1) if len(eigenvalues) == 1 else relative
    if points.min() < 0 or points.max() == 0:
        raise ValueError(
            f"covariance must have eigenvalues >= 0, not all zero, but they go from {points.min():g} to"
            f" {points.max():g}."
        )
    smallest = points[points > 0].min()
    if not (points.max() <= 1e12 * smallest and 1e-50 <= points.max() <= 1e50):
        raise ValueError(
            "covariance must have eigenvalues within a factor 1e12 of each other, and none beyond 1e50, but those"
            f" that are not zero go from {smallest:g} to {points.max():g}; set the small ones to zero, or rescale."
        )
    given = _EVEN_ROWS if row_scales is None else row_scales
    rows = given if isinstance(given, Discrete) else Discrete(_arrays.real_array("row_scales", given))
    low, high = rows.points[[0, -1]]
    if not 1e-6 <= low <= high <= 1e6:
        raise ValueError(
            f"row_scales must lie between 1e-6 and 1e6, but they go from {low:g} to {high:g}; leave out rows of"
            " zeros, or change the units of Sigma."
        )
    return Population(eigenvalues, together, relative, rows.points**2, np.asarray(rows.weights, dtype=float))


def _spectrum(covariance: ArrayLike | PowerLaw | Discrete | None) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues and their shares, in the order in which they were given."""
    if covariance is None:
        return np.ones(1), np.ones(1)
    if isinstance(covariance, Discrete):
        points, weights = np.array(covariance.atoms).T
        return np.asarray(points, dtype=float), np.asarray(weights, dtype=float)
    if isinstance(covariance, PowerLaw) and math.isinf(covariance.size):
        raise ValueError(
            "covariance must be a power law of finite size here, such as"
            f" PowerLaw({covariance.exponent:g}, 200), but it is {covariance!r}: with p/n -> aspect each eigenvalue"
            " has an equal share of all, and of infinitely many it has none; one_pass takes infinitely many."
        )
    if isinstance(covariance, PowerLaw) and covariance.exponent < 0:
        raise ValueError(
            "covariance must have an exponent >= 0, eigenvalues that do not grow, but it is"
            f" {covariance.exponent:g}; the order of eigenvalues does not matter: give a vector."
        )
    if isinstance(covariance, Law):
        raise ValueError(
            f"covariance must be free.Discrete, but it is {covariance!r}; try law.quantile(np.linspace(0.01, 0.99))"
        )
    eigenvalues = np.atleast_1d(_arrays.real_array("covariance", covariance))
    if eigenvalues.ndim != 1 or not eigenvalues.size or np.asarray(covariance).dtype.kind == "b":
        raise ValueError(
            "covariance must be None, a free.Discrete law or a vector of eigenvalues, but its shape is"
            f" {eigenvalues.shape}; try np.linalg.eigvalsh(Sigma)."
        )
    return eigenvalues, np.full(len(eigenvalues), 1 / len(eigenvalues))


def _shares(source: ArrayLike | None, weights: FloatArray) -> FloatArray:
    """The share of the squared signal along each eigenvalue, checked."""
    if source is None:
        return weights
    shares = np.atleast_1d(_arrays.real_array("source", source))
    if shares.shape != weights.shape:
        raise ValueError(
            f"source must have one entry per eigenvalue of covariance, {len(weights)}, but its shape is"
            f" {shares.shape}."
        )
    if shares.min() < 0:
        raise ValueError(f"source must hold shares >= 0 of the squared signal, but one is {shares.min():g}.")
    if not abs(float(shares.sum()) - 1) < 1e-9:
        raise ValueError(
            f"source must add up to 1, as shares of the squared signal, but it adds up to {shares.sum():.12g};"
            " divide it by its sum, and give the length of the signal as signal=."
        )
    return shares


IDENTITY = population(None)
