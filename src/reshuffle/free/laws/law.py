"""The base class of laws, given by Cauchy transform, density, support and atoms; and affine images of laws."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from reshuffle.free import checks
from reshuffle.free.checks import Complex, Real, complex_points, count, number
from reshuffle.free.measure import Measure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Pairs = tuple[tuple[float, float], ...]
Numbers = list[Any]


class Law(ABC):
    """A compactly supported probability law on the line.

    A new law needs `support`, `atoms`, `_cauchy` and `_density`; everything else follows from them, and may
    be overridden by a closed form.
    """

    @property
    @abstractmethod
    def support(self) -> Pairs:
        """The intervals of the continuous part, from left to right."""

    @property
    @abstractmethod
    def atoms(self) -> Pairs:
        """Pairs (location, mass), from left to right."""

    @abstractmethod
    def _cauchy(self, z: Complex) -> Complex:
        """Return the Cauchy transform off the real axis and on it outside the support."""

    @abstractmethod
    def _density(self, t: Real) -> Real:
        """Return the density of the continuous part."""

    def _cauchy_derivative(self, z: Complex) -> Complex:
        # Only Newton's Jacobian uses this, so the eight digits of a central difference are plenty.
        step = 1e-5 * np.maximum(np.abs(z.imag), 1e-4 * self.scale)
        return np.asarray((self._cauchy(z + step) - self._cauchy(z - step)) / (2 * step))

    def cauchy(self, z: ArrayLike) -> Complex:
        """Return ``G(z) = E[1/(z - x)]``, with the shape of ``z``; real points mean the limit from above."""
        points = complex_points("z", z)
        return np.asarray(self._cauchy(points + 0j))

    def density(self, t: ArrayLike) -> Real:
        """Return the density of the continuous part, with the shape of ``t``."""
        return np.asarray(self._density(checks.real_points("t", t)))

    @cached_property
    def measure(self) -> Measure:
        """The law as quadrature panels."""
        return Measure(self._density, self.support, self.atoms)

    def cdf(self, t: ArrayLike) -> Real:
        """Return the mass of ``(-inf, t]``, with the shape of ``t``."""
        return self.measure.cdf(t)

    def quantile(self, q: ArrayLike) -> Real:
        """Return the smallest x with ``cdf(x) >= q``, with the shape of ``q``."""
        return self.measure.quantile(q)

    @property
    def scale(self) -> float:
        """The largest absolute value in the spectrum: the norm of a variable with this law."""
        low, high = self.hull
        return max(abs(low), abs(high))

    @property
    def hull(self) -> tuple[float, float]:
        """The smallest and the largest point of the spectrum."""
        ends = [end for interval in self.support for end in interval] + [place for place, _ in self.atoms]
        return min(ends), max(ends)

    def recurrence(self, depth: int) -> tuple[list[Any], list[Any]]:
        """Return ``(alpha, beta)`` down to ``depth``: ``x P_n = P_{n+1} + alpha_n P_n + beta_n P_{n-1}``."""
        x, w = self.measure.quadrature
        points, weights = np.concatenate([np.stack([x, w], axis=1)[w > 0], np.reshape(self.atoms, (-1, 2))]).T
        return recurrence_of_points(points, weights, depth)

    def moments(self, order: int) -> Real:
        """Return the moments ``[m_1, ..., m_order]`` up to ``order``."""
        depth = count("order", order) // 2 + 1
        return np.array(moments_from_recurrence(*self.recurrence(depth), order), dtype=float)

    def cumulants(self, order: int) -> Real:
        """Return the free cumulants ``[kappa_1, ..., kappa_order]`` up to ``order``."""
        return np.array(cumulants_from_moments(list(self.moments(order))), dtype=float)

    def r_transform(self, g: ArrayLike) -> Complex:
        """Return ``R(g) = G^{-1}(g) - 1/g`` near 0, where the law has one in closed form."""
        raise NotImplementedError(
            f"{self!r} has no closed R-transform; use cauchy, or cumulants for its series"
        )

    @property
    def rational_r(self) -> tuple[float, float, float] | None:
        """``(a, b, c)`` when ``R(g) = a + b g / (1 + c g)``, else None."""
        return None

    def sample(self, size: int, seed: int | None = 0) -> Real:
        """Return ``size`` independent draws from ``seed``, a number or a numpy Generator."""
        return self.quantile(np.random.default_rng(seed).random(count("size", size)))

    def matrix(self, size: int, seed: int | None = 0) -> Real:
        """Return a symmetric matrix of ``size`` rows with this limiting law, drawn with ``seed``.

        Its eigenvalues are the quantiles at ``(k - 1/2)/size`` and its eigenvectors Haar distributed, so that
        independent seeds give asymptotically free matrices.
        """
        return self._rotated(count("size", size), seed)

    def _rotated(self, size: int, seed: int | None) -> Real:
        eigenvalues = self.quantile((np.arange(size) + 0.5) / size)
        basis = haar(size, np.random.default_rng(seed))
        return np.asarray((basis * eigenvalues) @ basis.T)

    def plot(self, ax: "Axes | None" = None, *, sample: int | None = None, seed: int | None = 0) -> "Axes":
        """Draw the density, and a histogram of ``matrix(sample, seed)``, on ``ax``, which is returned."""
        from reshuffle.free.plot import plot

        return plot(self, ax, sample=sample, seed=seed)

    def affine(self, scale: float, shift: float = 0.0) -> "Law":
        """Return the law of ``scale x + shift``."""
        return Affine(self, scale, shift)

    def __mul__(self, factor: float) -> "Law":
        return self.affine(number("factor", factor))

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> "Law":
        value = number("divisor", divisor)
        checks.size("abs(divisor)", abs(value), checks.SMALLEST**2, checks.LARGEST**2)
        return self.affine(1 / value)

    def __add__(self, shift: float) -> "Law":
        return self.affine(1.0, number("shift", shift))

    __radd__ = __add__

    def __sub__(self, shift: float) -> "Law":
        return self.affine(1.0, -number("shift", shift))

    def __neg__(self) -> "Law":
        return self.affine(-1.0)


def haar(size: int, generator: np.random.Generator) -> Real:
    """Return a Haar distributed orthogonal matrix."""
    q, r = np.linalg.qr(generator.standard_normal((size, size)))
    return np.asarray(q * np.sign(np.diag(r)))


class Affine(Law):
    """The law of ``scale x + shift`` for x with law ``base``: ``G(z) = G_base((z - shift)/scale)/scale``.

    >>> from reshuffle.free import Projection
    >>> (2 * Projection(0.5) - 1).atoms
    ((-1.0, 0.5), (1.0, 0.5))
    """

    def __init__(self, base: Law, scale: float, shift: float = 0.0):
        a, c = number("scale", scale), checks.location("shift", shift)
        if a == 0:
            raise ValueError(
                "scale must be a non-zero real number, but it is 0; a constant is a Discrete law of one point"
            )
        checks.size("abs(scale)", abs(a), checks.SMALLEST**2, checks.LARGEST**2)
        # Images of images collapse, so that a law normalised many times keeps one rounding.
        inner = base if isinstance(base, Affine) else None
        self.base: Law = inner.base if inner else base
        self.factor: float = a * inner.factor if inner else a
        self.shift: float = a * inner.shift + c if inner else c
        for low, high in self.support:
            checks.require_width(repr(self), low, high)

    @property
    def support(self) -> Pairs:
        """The images of the intervals, from left to right."""
        ends = [sorted((self._image(low), self._image(high))) for low, high in self.base.support]
        return tuple(sorted((low, high) for low, high in ends))

    @property
    def atoms(self) -> Pairs:
        """The images of the atoms, from left to right."""
        return tuple(sorted((self._image(place), mass) for place, mass in self.base.atoms))

    def _image(self, x: Any) -> Any:
        return self.factor * x + self.shift

    def _preimage(self, x: Any) -> Any:
        return (x - self.shift) / self.factor

    def _cauchy(self, z: Complex) -> Complex:
        return self._reflected(self.base._cauchy, z) / self.factor

    def _cauchy_derivative(self, z: Complex) -> Complex:
        return self._reflected(self.base._cauchy_derivative, z) / self.factor**2

    def _reflected(self, function: Any, z: Complex) -> Complex:
        # A negative factor swaps the half-planes: on the cut the limit must be taken from above explicitly.
        inner = self._preimage(z)
        if self.factor > 0:
            return np.asarray(function(inner))
        return np.asarray(np.conj(function(np.conj(inner) + 0j)))

    def _density(self, t: Real) -> Real:
        return np.asarray(self.base._density(self._preimage(t)) / abs(self.factor))

    @cached_property
    def measure(self) -> Measure:
        """The image of the base's measure, errors of its density included.

        Next to a hard edge the density is known less well than it varies: without its errors panels would be
        halved there for as long as halving is possible.
        """
        of_base = self.base.measure
        ends = [sorted((self._image(low), self._image(high))) for low, high in of_base.intervals]
        powers = {self._image(edge): power for edge, power in of_base.powers.items()}
        return Measure(
            self._density_with_error, sorted(map(tuple, ends)), self.atoms, of_base.tolerance, powers
        )

    def _density_with_error(self, t: Real) -> tuple[Real, Real]:
        density, error = self.base.measure.sampled(self._preimage(t))
        return density / abs(self.factor), error / abs(self.factor)

    def quantile(self, q: ArrayLike) -> Real:
        levels = checks.probabilities("q", q)
        return np.asarray(self._image(self.base.quantile(levels if self.factor > 0 else 1 - levels)))

    def recurrence(self, depth: int) -> tuple[list[Any], list[Any]]:
        """Return the base's recurrence down to ``depth``, shifted and scaled."""
        alpha, beta = self.base.recurrence(depth)
        return [self._image(a) for a in alpha], [self.factor**2 * b for b in beta]

    def r_transform(self, g: ArrayLike) -> Complex:
        """Return ``scale R_base(scale g) + shift``."""
        return np.asarray(self._image(self.base.r_transform(self.factor * complex_points("g", g))))

    @property
    def rational_r(self) -> tuple[float, float, float] | None:
        if self.base.rational_r is None:
            return None
        a, b, c = self.base.rational_r
        return self._image(a), self.factor**2 * b, self.factor * c

    def __repr__(self) -> str:
        tail = f" {'+' if self.shift > 0 else '-'} {abs(self.shift):g}" if self.shift else ""
        return f"{self.factor:g}*{self.base!r}{tail}"


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
        # Full reorthogonalisation, twice: the short recurrence alone loses orthogonality within a dozen steps.
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
