"""Seven classical laws: six whose recurrence is constant after its first step, and the uniform one.

One formula, that of `FreeMeixner`, serves the six.
"""

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from reshuffle.free import checks
from reshuffle.free.checks import Complex, Real, complex_points, location, number, size
from reshuffle.free.laws.law import Law, Pairs
from reshuffle.free.measure import Measure

ROUNDING = float(np.finfo(float).eps)


class FreeMeixner(Law):
    """A law with recurrence ``alpha_0, alpha, alpha, ...`` and ``beta_1, beta, beta, ...``.

    With ``S = sqrt(z - low) sqrt(z - high)`` and ``B(z) = (2 beta - beta_1) z - 2 beta alpha_0 + beta_1
    alpha``,

        G(z) = 2 beta / (B + beta_1 S) = (B - beta_1 S) / (2 q(z)),   q = (B^2 - beta_1^2 S^2) / (4 beta).

    The product of two square roots, and not the square root of the product, is analytic off ``[low, high]``.
    The roots of q, given with its leading coefficient, are where atoms can be; those without mass are dropped.
    Source: Anshelevich, Free Meixner states (2007).
    """

    def __init__(
        self,
        first: tuple[float, float],
        tail: tuple[float, float],
        edges: tuple[float, float],
        roots: tuple[float, tuple[float, ...]],
        atoms: Pairs = (),
    ):
        self._first, self._tail, self._roots = first, tail, roots
        # Edges and roots come from the law's own formula: a hard edge at 0 must be 0 exactly, not a rounding of it.
        self._edges = (float(edges[0]), float(edges[1]))
        checks.require_width(f"this {type(self).__name__} law", *self._edges)
        self._atoms = tuple((place, mass) for place, mass in sorted(atoms) if mass > 0)

    @property
    def support(self) -> Pairs:
        return (self._edges,)

    @property
    def atoms(self) -> Pairs:
        return self._atoms

    def _quadratic(self, z: Complex) -> Complex:
        leading, roots = self._roots
        result = np.full(np.shape(z), leading, dtype=complex)
        for root in roots:
            result = result * (z - root)
        return result

    def _cauchy(self, z: Complex) -> Complex:
        (alpha_0, beta_1), (alpha, beta) = self._first, self._tail
        root = beta_1 * (np.sqrt(z - self._edges[0]) * np.sqrt(z - self._edges[1]))
        line = (2 * beta - beta_1) * z - 2 * beta * alpha_0 + beta_1 * alpha
        # Of two equal fractions take the one whose terms do not cancel.
        direct = np.abs(line + root) >= np.abs(line - root)
        with np.errstate(divide="ignore", invalid="ignore"):
            first = 2 * beta / np.where(direct, line + root, 1)
            second = (line - root) / (2 * np.where(direct, 1, self._quadratic(z)))
        return np.where(direct, first, second)

    def _cauchy_derivative(self, z: Complex) -> Complex:
        (_, beta_1), (_, beta) = self._first, self._tail
        low, high = self._edges
        value = self._cauchy(z)
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = (2 * z - low - high) / (2 * np.sqrt(z - low) * np.sqrt(z - high))
            return np.asarray(-(value**2) / (2 * beta) * (2 * beta - beta_1 + beta_1 * slope))

    def _density(self, t: Real) -> Real:
        low, high = self._edges
        inside = (t > low) & (t < high)
        x = np.where(inside, t, (low + high) / 2)
        root = self._first[1] * np.sqrt(x - low) * np.sqrt(high - x)
        return np.where(inside, root / (2 * np.pi * np.abs(self._quadratic(x + 0j).real)), 0.0)

    @cached_property
    def measure(self) -> Measure:
        """The law as quadrature panels, with the rounding errors of the density near the edges."""
        return Measure(self._density_and_error, self.support, self.atoms)

    def _density_and_error(self, t: Real) -> tuple[Real, Real]:
        density = self._density(t)
        low, high = self._edges
        nearest = np.maximum(np.minimum(np.abs(t - low), np.abs(high - t)), np.finfo(float).tiny)
        # A point that was rounded onto the edge itself has lost its density.
        lost = ROUNDING * np.abs(t) / nearest
        return density, np.where((t == low) | (t == high), np.inf, density * np.minimum(lost, 1.0))

    def recurrence(self, depth: int) -> tuple[list[float], list[float]]:
        (alpha_0, beta_1), (alpha, beta) = self._first, self._tail
        return [alpha_0] + [alpha] * (depth - 1), [0.0, beta_1] + [beta] * (depth - 1)

    def r_transform(self, g: ArrayLike) -> Complex:
        """Return ``R(g) = alpha_0 + 2 beta_1 g / (1 + d g + sqrt((1 + d g)^2 + 4 (beta_1 - beta) g^2))``.

        Here ``d = alpha_0 - alpha``; ``g`` has any shape. From ``G = 1/(z - alpha_0 - beta_1 G_tail)``.
        """
        (alpha_0, beta_1), (alpha, beta) = self._first, self._tail
        points = complex_points("g", g)
        line = 1 + (alpha_0 - alpha) * points
        # Two factors keep the branch at g = 0 out of the law's whole domain, as in the Cauchy transform.
        gap = 2 * np.sqrt(complex(beta - beta_1)) * points
        return np.asarray(alpha_0 + 2 * beta_1 * points / (line + np.sqrt(line - gap) * np.sqrt(line + gap)))

    @property
    def rational_r(self) -> tuple[float, float, float] | None:
        """``(a, b, c)`` when ``R(g) = a + b g / (1 + c g)``, which is when ``beta_1 = beta``."""
        (alpha_0, beta_1), (alpha, beta) = self._first, self._tail
        return (alpha_0, beta_1, alpha_0 - alpha) if beta_1 == beta else None


class MarchenkoPastur(FreeMeixner):
    r"""The limiting law of ``variance X'X/n`` for n x p white X with ``p/n -> ratio``.

    With ratio r, variance v and edges a, b it has an atom 1 - 1/r at 0 when r > 1, and

    .. math::
        G(z) = \frac{2}{z - v(1 - r) + \sqrt{z - a}\sqrt{z - b}}, \qquad
        \rho(x) = \frac{\sqrt{(b - x)(x - a)}}{2\pi r v x}, \\ a, b = v (1 \mp \sqrt r)^2 .

    Source: Marchenko and Pastur (1967). For how ``ratio`` and the ``aspect`` of a problem with batches differ, see
    "Aspect and ratio" in docs/asymptotics.md.

    >>> law = MarchenkoPastur(ratio=4.0, variance=0.5)
    >>> law.support, law.atoms
    (((0.5, 4.5),), ((0.0, 0.75),))
    """

    def __init__(self, ratio: float, variance: float = 1.0):
        r = size("ratio", ratio, 1e-15, 1e15)
        v = size("variance", variance)
        self.ratio, self.variance = r, v
        super().__init__(
            first=(v, v * v * r),
            tail=(v * (1 + r), v * v * r),
            edges=(v * (1 - np.sqrt(r)) ** 2, v * (1 + np.sqrt(r)) ** 2),
            roots=(v**3 * r**2, (0.0,)),
            atoms=((0.0, 1 - 1 / r),),
        )

    def __repr__(self) -> str:
        return f"MarchenkoPastur(ratio={self.ratio:g}, variance={self.variance:g})"


class FreePoisson(FreeMeixner):
    """The free Poisson law of rate ``l`` and jump ``a``: all free cumulants are ``kappa_n = l a^n``.

    ``R(g) = l a/(1 - a g)``, edges ``a (1 -+ sqrt l)^2``, an atom ``1 - l`` at 0 when l < 1; a may be
    negative. Laws of equal jump add their rates. Source: Nica and Speicher, Lectures on the combinatorics,
    lecture 12.

    >>> [round(x, 9) for x in FreePoisson(rate=2.0, jump=1.0).moments(3).tolist()]
    [2.0, 6.0, 22.0]
    """

    def __init__(self, rate: float, jump: float = 1.0):
        rate = size("rate", rate, 1e-15, 1e15)
        jump = location("jump", jump)
        if jump == 0:
            raise ValueError(
                "jump must be a non-zero real number, but it is 0; a free Poisson law of jump 0 is the point 0"
            )
        size("abs(jump)", abs(jump))
        self.rate, self.jump = rate, jump
        ends = sorted((jump * (1 - np.sqrt(rate)) ** 2, jump * (1 + np.sqrt(rate)) ** 2))
        super().__init__(
            first=(rate * jump, rate * jump**2),
            tail=((1 + rate) * jump, rate * jump**2),
            edges=(float(ends[0]), float(ends[1])),
            roots=(rate * jump**3, (0.0,)),
            atoms=((0.0, 1 - rate),),
        )

    def __repr__(self) -> str:
        return f"FreePoisson(rate={self.rate:g}, jump={self.jump:g})"


class Semicircle(FreeMeixner):
    r"""The semicircle law with mean m and variance v.

    .. math::
        \rho(x) = \frac{\sqrt{4 v - (x - m)^2}}{2 \pi v}, \qquad R(g) = m + v g, \\
        G(z) = \frac{2}{z - m + \sqrt{z - m - 2 \sqrt v}\, \sqrt{z - m + 2 \sqrt v}} .

    Source: Wigner (1955).

    >>> Semicircle(variance=1.0).moments(6).tolist()
    [0.0, 1.0, 0.0, 2.0, 0.0, 5.0]
    """

    def __init__(self, variance: float = 1.0, mean: float = 0.0):
        v = size("variance", variance, checks.SMALLEST**2, checks.LARGEST**2)
        m = location("mean", mean)
        self.variance, self.mean = v, m
        radius = 2 * np.sqrt(v)
        super().__init__(first=(m, v), tail=(m, v), edges=(m - radius, m + radius), roots=(v * v, ()))

    def __repr__(self) -> str:
        return f"Semicircle(variance={self.variance:g}, mean={self.mean:g})"


class Arcsine(FreeMeixner):
    """The arcsine law on ``[low, high]``, density ``1/(pi sqrt((t - low)(high - t)))``.

    ``G(z) = 1/(sqrt(z - low) sqrt(z - high))``.

    >>> Arcsine(-2.0, 2.0).moments(4).tolist()
    [0.0, 2.0, 0.0, 6.0]
    """

    def __init__(self, low: float = -2.0, high: float = 2.0):
        self.low = location("low", low)
        self.high = number("high", location("high", high), low=self.low, open_low=True)
        mean, radius = (self.low + self.high) / 2, (self.high - self.low) / 2
        beta = radius**2 / 4
        super().__init__(
            first=(mean, 2 * beta),
            tail=(mean, beta),
            edges=(self.low, self.high),
            roots=(-beta, (self.low, self.high)),
        )

    def __repr__(self) -> str:
        return f"Arcsine({self.low:g}, {self.high:g})"


class KestenMcKay(FreeMeixner):
    """The limiting law of the adjacency matrix of random d-regular graphs, any real degree ``d >= 2``.

    Density ``d sqrt(4 (d-1) - t^2) / (2 pi (d^2 - t^2))``. Sources: Kesten (1959), McKay (1981).

    >>> KestenMcKay(3).moments(4).tolist()
    [0.0, 3.0, 0.0, 15.0]
    """

    def __init__(self, degree: float):
        d = number("degree", degree, low=2.0, high=1e15)
        self.degree = d
        radius = 2 * np.sqrt(d - 1)
        super().__init__(first=(0.0, d), tail=(0.0, d - 1), edges=(-radius, radius), roots=(-1.0, (-d, d)))

    def __repr__(self) -> str:
        return f"KestenMcKay({self.degree:g})"


class Wachter(FreeMeixner):
    """The limiting law of ``A (A + B)^-1`` for Wishart A, B with ``n_1, n_2`` degrees of freedom.

    For p x p matrices with ``n_1/p -> first = a``, ``n_2/p -> second = b``: density
    ``(a + b) sqrt((t - l)(h - t)) / (2 pi t (1 - t))``, ``l, h = (sqrt(a (a+b-1)) -+ sqrt b)^2/(a+b)^2``,
    and atoms ``1 - a`` at 0 and ``1 - b`` at 1 where positive. Source: Wachter (1980).

    >>> Wachter(first=1.0, second=1.0).support
    ((0.0, 1.0),)
    """

    def __init__(self, first: float, second: float):
        a = size("first", first, 1e-6, 1e6)
        b = size("second", second, 1e-6, 1e6)
        if a + b <= 1:
            raise ValueError(
                f"first + second must be > 1, but it is {a + b:g}; with fewer degrees A + B is not invertible"
            )
        self.first, self.second = a, b
        total = a + b
        low = (np.sqrt(a * (total - 1)) / total - np.sqrt(b) / total) ** 2
        # 1 - high is a square as well; without it the edge at 1 for b = 1 would be off by a rounding.
        high = 1 - (np.sqrt(a) - np.sqrt(b * (total - 1))) ** 2 / total**2
        super().__init__(
            first=(a / total, a * b / total**3),
            tail=((low + high) / 2, a * b * (total - 1) / total**4),
            edges=(float(low), float(high)),
            # beta - beta_1, whose terms cancel when a or b is large.
            roots=(-a * b / total**4, (0.0, 1.0)),
            atoms=((0.0, 1 - a), (1.0, 1 - b)),
        )

    def __repr__(self) -> str:
        return f"Wachter(first={self.first:g}, second={self.second:g})"


class Uniform(Law):
    """The uniform law on ``[low, high]``, ``G(z) = (log(z - low) - log(z - high))/(high - low)``.

    >>> [round(x, 12) for x in Uniform(-1.0, 1.0).moments(4).tolist()]
    [0.0, 0.333333333333, 0.0, 0.2]
    """

    def __init__(self, low: float = -1.0, high: float = 1.0):
        self.low = location("low", low)
        self.high = number("high", location("high", high), low=self.low, open_low=True)
        checks.require_width(repr(self), self.low, self.high)

    @property
    def support(self) -> Pairs:
        return ((self.low, self.high),)

    @property
    def atoms(self) -> Pairs:
        return ()

    def _cauchy(self, z: Complex) -> Complex:
        # log((z - low)/(z - high)) through atanh of the reciprocal: exact decay far away, cut on [low, high] alone.
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            near = (np.log(z - self.low) - np.log(z - self.high)) / (2 * half)
            far = np.arctanh(half / (z - middle)) / half
        return np.where(np.abs(z - middle) > 2 * half, far, near)

    def _cauchy_derivative(self, z: Complex) -> Complex:
        return np.asarray(-1 / ((z - self.low) * (z - self.high)))

    def _density(self, t: Real) -> Real:
        return np.where((t >= self.low) & (t <= self.high), 1 / (self.high - self.low), 0.0)

    def cdf(self, t: ArrayLike) -> Real:
        return np.asarray(np.clip((checks.real_points("t", t) - self.low) / (self.high - self.low), 0.0, 1.0))

    def quantile(self, q: ArrayLike) -> Real:
        """Return ``low + q (high - low)``."""
        return np.asarray(self.low + checks.probabilities("q", q) * (self.high - self.low))

    def recurrence(self, depth: int) -> tuple[list[float], list[float]]:
        """Return the recurrence of the Legendre polynomials on the interval, down to ``depth``."""
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        return [middle] * depth, [half**2 * n * n / (4 * n * n - 1) for n in range(depth + 1)]

    def r_transform(self, g: ArrayLike) -> Complex:
        """Return ``R(g) = middle + half coth(half g) - 1/g`` near 0; ``g`` has any shape."""
        points = complex_points("g", g)
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        u = half * points
        small = np.abs(u) < 1e-2
        safe = np.where(small, 1.0, u)
        series = u / 3 - u**3 / 45 + 2 * u**5 / 945 - u**7 / 4725
        return np.asarray(middle + half * np.where(small, series, 1 / np.tanh(safe) - 1 / safe))

    def __repr__(self) -> str:
        return f"Uniform({self.low:g}, {self.high:g})"
