"""Laws from laws, without an expression: free sums, free products, their real powers, and corners.

Sums and products are scalar fixed points, each law with its multiplicity. `Convolved` is the law of such a
fixed point: solved at any point, with its support, atoms and measure.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from reshuffle.free.checks import Complex, Real, count, number, size
from reshuffle.free.laws.classical import MarchenkoPastur
from reshuffle.free.laws.law import Law, Pairs, cumulants_from_moments, moments_from_cumulants
from reshuffle.free.laws.pushforward import Corner
from reshuffle.free.measure import exponent
from reshuffle.free.progress import working
from reshuffle.free.solver.continuation import Resolved, follow, resolved
from reshuffle.free.solver.system import FixedPoint
from reshuffle.free.spectrum import SolvedLaw
from reshuffle.free.support import Support
from reshuffle.free.support import support as support_of

COARSE = 1500
"""Points of the first scan of a density, high above the axis."""
TOGETHER = 4096
"""Points that are solved at once."""


def add(*laws: Law) -> "Convolved":
    """Return the free additive convolution: the law of ``x_1 + x_2 + ...`` for free x_j.

    Parameters
    ----------
    *laws : Law
        At least one.

    Returns
    -------
    Convolved

    >>> from reshuffle import free
    >>> [round(x, 8) for x in free.add(free.Bernoulli(), free.Bernoulli()).support[0]]
    [-2.0, 2.0]
    """
    return Convolved(laws, [1.0] * len(laws), product=False)


def multiply(*laws: Law) -> "Convolved":
    """Return the free multiplicative convolution: the law of ``sqrt(x_1) x_2 sqrt(x_1)`` for free x_j >= 0.

    With three, of ``sqrt(x_1) sqrt(x_2) x_3 sqrt(x_2) sqrt(x_1)``, and so on. S-transforms multiply
    (Voiculescu, 1987).

    Parameters
    ----------
    *laws : Law
        At least one, all on the half-line x >= 0.

    Returns
    -------
    Convolved

    >>> from reshuffle import free
    >>> law = free.MarchenkoPastur(1.0)
    >>> free.multiply(law, law).moments(4).round(9)
    array([ 1.,  3., 12., 55.])
    """
    return Convolved(laws, [1.0] * len(laws), product=True)


def gram(sigma: Law, ratio: float) -> Law:
    """Return the law of ``X Sigma X'/n`` for X (n, p) of independent entries of variance one, ``p = ratio n``.

    The matrix of all scalar products of n samples, or a kernel; the covariance of the samples,
    ``sqrt(Sigma) X'X/n sqrt(Sigma)``, is ``multiply(sigma, MarchenkoPastur(ratio))`` and has the same spectrum but
    for zeros. The Cauchy transform g obeys ``z = 1/g + ratio E[t/(1 - t g)]``, where t has the law of Sigma
    (Silverstein, 1995).

    Parameters
    ----------
    sigma : Law
        The law of the eigenvalues of Sigma, on the half-line x >= 0.
    ratio : float
        Columns per row, p/n.

    Returns
    -------
    Law
        A `Corner` of a `Convolved`.

    >>> from reshuffle import free
    >>> free.gram(free.Discrete([1.0, 3.0]), 0.5).moments(2).round(9), free.gram(free.Discrete([1.0]), 0.5).atoms
    (array([1. , 3.5]), ((0.0, 0.5),))
    """
    ratio = size("ratio", ratio)
    return Corner(multiply(sigma, MarchenkoPastur(ratio)), 1 / ratio)


def additive_power(law: Law, times: float) -> "Convolved":
    """Return the free additive power: the law of ``times`` free copies added, ``R(g) -> times R(g)``.

    Source: Nica and Speicher (1996), for every real ``times >= 1``.

    Parameters
    ----------
    law : Law
    times : float
        At least 1.

    Returns
    -------
    Convolved

    >>> from reshuffle import free
    >>> free.additive_power(free.Bernoulli(), 1.5).atoms
    ((-1.5, 0.25), (1.5, 0.25))
    """
    return Convolved([law], [number("times", times, low=1.0, high=1e6)], product=False)


def multiplicative_power(law: Law, times: float) -> "Convolved":
    """Return the free multiplicative power of a law on x >= 0: ``S(m) -> S(m)^times``.

    Source: Belinschi and Bercovici (2005), for every real ``times >= 1``.

    Parameters
    ----------
    law : Law
    times : float
        At least 1.

    Returns
    -------
    Convolved

    >>> from reshuffle import free
    >>> low, high = free.multiplicative_power(free.MarchenkoPastur(1.0), 2).support[0]
    >>> round(low, 8), round(high, 8)
    (0.0, 6.75)
    """
    return Convolved([law], [number("times", times, low=1.0, high=1e3)], product=True)


def compress(law: Law, rank: float) -> Law:
    """Return the law of the corner ``p x p`` that a free projection p of trace ``rank`` cuts out of x.

    In the corner, whose own trace is one: the free additive power ``1/rank``, times ``rank`` (Nica and
    Speicher, 1996).

    Parameters
    ----------
    law : Law
        The law of x.
    rank : float
        In (0, 1].

    Returns
    -------
    Law

    >>> from reshuffle import free
    >>> [round(x, 8) for x in free.compress(free.Semicircle(), 0.25).support[0]]
    [-1.0, 1.0]
    """
    t = number("rank", rank, low=1e-6, high=1.0)
    return additive_power(law, 1 / t).affine(t)


class Convolved(SolvedLaw):
    """The free convolution of laws that enter t_j times each, t_j >= 1 and real: a sum, or a product.

    Made by `add`, `multiply`, `additive_power`, `multiplicative_power` and `compress`; everything is computed
    on first use. The weights are the t_j; ``product`` is True for a product, whose laws must be on the half-line
    x >= 0 and none of them the point 0. Its equations and their sources are those of `WeightedLaws`.
    """

    def __init__(self, laws: Sequence[Law], weights: Sequence[float], *, product: bool):
        if not laws:
            raise TypeError(
                "a convolution needs at least one law, but there is none; pass laws such as Semicircle()"
            )
        for law in laws:
            if not isinstance(law, Law):
                raise TypeError(
                    f"a convolution needs laws such as Semicircle(), "
                    f"but one is {law!r}; wrap points in Discrete(points)"
                )
            if product and law.hull[0] < 0:
                raise ValueError(
                    f"a free product needs laws on x >= 0, but one is {law!r}, which reaches down to"
                    f" {law.hull[0]:g}; for other variables write the expression, such as spectrum(x * y * x)"
                )
            if product and law.scale == 0:
                raise ValueError(
                    f"a free product needs laws that are not the point 0, but one is {law!r}; it would be 0"
                )
        self.laws, self.weights, self.product = tuple(laws), tuple(float(t) for t in weights), product
        # In units in which every mean is one (of sums: every scale), so that high powers stay numbers.
        sizes = [float(law.moments(1)[0]) if product else law.scale or 1.0 for law in self.laws]
        self._unit = self._together(sizes) if product else max(sizes)
        scaled = [law / (size if product else self._unit) for law, size in zip(self.laws, sizes, strict=True)]
        spreads = [float(law.cumulants(2)[1]) if product else law.scale for law in scaled]
        total = sum(t * spread for t, spread in zip(self.weights, spreads, strict=True))
        self._system = WeightedLaws(scaled, self.weights, 1 + total if product else total or 1.0, product)

    def _together(self, values: Sequence[float]) -> float:
        """Return ``prod v_j^t_j`` or ``sum t_j v_j``."""
        if self.product:
            return float(math.prod(v**t for v, t in zip(values, self.weights, strict=True)))
        return math.fsum(t * v for v, t in zip(values, self.weights, strict=True))

    def _transform(self, z: Complex, strict: bool = True) -> Resolved:
        with working(repr(self)):
            solved = resolved(self._chunks, z.ravel() / self._unit, strict)
        return Resolved(
            solved.value[:, 0, 0].reshape(z.shape) / self._unit,
            solved.error.reshape(z.shape) / self._unit,
            solved.converged.reshape(z.shape),
        )

    def _chunks(self, z: Complex) -> tuple[Complex, Real]:
        values, errors = np.zeros((len(z), 1, 1), dtype=complex), np.zeros(len(z))
        for start in range(0, len(z), TOGETHER):
            part = slice(start, start + TOGETHER)
            solved = follow(self._system, z[part], 1)
            values[part] = solved.resolvent
            errors[part] = np.where(solved.converged, solved.error, np.inf)
        return values, errors

    def _density_and_error(self, t: Real) -> tuple[Real, Real]:
        density, error = super()._density_and_error(t)
        return np.where(self.product & (t < 0), 0.0, density), error

    @cached_property
    def atoms(self) -> Pairs:
        """Pairs (location, mass), from left to right.

        Atoms a_j of masses m_j make one of mass ``1 - sum_j t_j (1 - m_j)`` where that is positive; at 0 a
        product has the largest of its factors' masses there. Sources: Bercovici and Voiculescu (1998),
        Belinschi (2003).
        """
        found: dict[float, float] = {}
        zero = max((m for law in self.laws for x, m in law.atoms if x == 0), default=0.0)
        if self.product and zero:
            found[0.0] = zero
        missing = [
            t * (1 - max((m for _, m in law.atoms), default=0.0))
            for law, t in zip(self.laws, self.weights, strict=True)
        ]
        # Those that can make an atom with the heaviest of all others; at 0 a product has been dealt with.
        heavy = [
            [
                (x, m)
                for x, m in law.atoms
                if t * (1 - m) + sum(missing[:j] + missing[j + 1 :]) < 1 and not (self.product and x == 0)
            ]
            for j, (law, t) in enumerate(zip(self.laws, self.weights, strict=True))
        ]
        for choice in itertools.product(*heavy):
            mass = 1 - math.fsum(t * (1 - m) for (_, m), t in zip(choice, self.weights, strict=True))
            if mass > 1e-12:
                place = self._together([x for x, _ in choice])
                found[place] = found.get(place, 0.0) + mass
        return tuple(sorted(found.items()))

    def _seeds(self) -> Real:
        """Return 300 quantiles of the law as it is seen from above: edges are sought around them."""
        if self.product:
            high = self._together([law.scale for law in self.laws])
            x = np.geomspace(1e-8 * self._unit, high, COARSE)
            z, widths = x * (1 + 0.02j), x
        else:
            ends = [law.hull for law in self.laws]
            low, high = (self._together([pair[i] for pair in ends]) for i in (0, 1))
            x = np.linspace(low, high, COARSE)
            z, widths = x + 1j * (high - low) / 300, np.ones(COARSE)
        values = self._transform(z, strict=False).value
        for place, mass in self.atoms:
            values = values - mass / (z - place)
        total = np.cumsum(np.nan_to_num(np.maximum(-values.imag, 0.0)) * widths)
        return np.asarray(np.interp(np.linspace(0.003, 0.997, 300), total / total[-1], x))

    @cached_property
    def _powers(self) -> dict[float, float]:
        """The power of x at 0: factors x^-a_j make x^-a with ``a/(1 - a) = sum_j t_j a_j/(1 - a_j)``.

        From ``S_j(m) ~ (1 + m)^(-a_j/(1 - a_j))`` at m = -1; such a density is a power series in ``x^(1 - a)``.
        """
        if not self.product or any(x == 0 for x, _ in self.atoms):
            return {}
        total = 0.0
        for law, t in zip(self.laws, self.weights, strict=True):
            if law.support and law.support[0][0] == 0:
                found = exponent(law._density, 0.0, law.support[0][1])
                if found is None:
                    return {}
                total += t * max(-found[0], 0) / (found[1] + found[0])
        # The panels know whole powers alone; with a large one nothing but a high, if fractional, power is left.
        whole = [k * (1 + total) for k in range(1, 7) if abs(k * (1 + total) - round(k * (1 + total))) < 1e-9]
        return {0.0: float(round(whole[0]) if whole else np.ceil(4 + 4 * total))} if total else {}

    def _attempts(self) -> Iterator[tuple[Support, Pairs]]:
        if sum(mass for _, mass in self.atoms) > 1 - 1e-9:
            yield Support((), (), {}), self.atoms
            return
        seeds = self._seeds()
        for resolution in (300, 1200, 3000):
            found = support_of(self._density_or_nan, seeds, resolution)
            yield replace(found, powers=self._powers), self.atoms

    def moments(self, order: int) -> Real:
        """Return the moments up to ``order``: of sums from free cumulants, which add; of products by quadrature."""
        if self.product:
            return super().moments(order)
        order = count("order", order)
        pairs = zip(self.laws, self.weights, strict=True)
        total = sum(t * np.array(cumulants_from_moments(list(law.moments(order)))) for law, t in pairs)
        return np.array(moments_from_cumulants(list(np.asarray(total))), dtype=float)

    def __repr__(self) -> str:
        sign, power = (" x ", "^") if self.product else (" + ", " times ")
        parts = [
            repr(law) if t == 1 else f"{law!r}{power}{t:g}"
            for law, t in zip(self.laws, self.weights, strict=True)
        ]
        return f"Convolved({sign.join(parts)})"


class LawsState(NamedTuple):
    """One evaluation of the map: z, what is subtracted from it, the resolvent, the next unknowns, their slopes."""

    z: Complex
    subtracted: Complex
    resolvent: Complex
    image: Complex
    points: Complex
    slopes: Complex


class WeightedLaws(FixedPoint):
    """The joint fixed point of laws mu_j that enter t_j times, t_j real and at least one.

    Every law is known through ``K_j(z) = z - 1/G_j(z)``, and so is what they make together: ``G = 1/(z - K)``. The
    subordinated points zeta_j are where ``K_j`` is evaluated. A `FixedPoint` of the solver, of size one.

    Sums: ``K = sum_j t_j K_j(zeta_j)`` with ``zeta_j = z - K + K_j``; the unknowns are the K_j. For two laws
    these are the subordination functions of Biane (1998) and of Belinschi and Bercovici (2007); for one law of
    multiplicity t the power of Nica and Speicher (1996).

    Products: ``K = prod_j K_j(zeta_j)^t_j`` with ``zeta_j = z K_j / K``, on the half-line; the unknowns are
    ``log K_j``. With ``eta(1/z) = K(z)/z`` this is ``eta^-1(m)/m = prod_j (eta_j^-1(m)/m)^t_j``, S-transforms that
    multiply (Voiculescu, 1987). For two laws the plain iteration is that of Belinschi and Bercovici (2007).

    Parameters
    ----------
    laws : the mu_j; weights : the t_j, as many; norm : of what they make together, in the units of z.
    product : True for products, False for sums.
    """

    size = 1
    direct = True

    def __init__(self, laws: Sequence[Law], weights: Sequence[float], norm: float, product: bool):
        self.laws, self.weights, self.norm = tuple(laws), np.asarray(weights, dtype=float), norm
        self.unknowns, self.product = len(self.laws), product

    def base(self, z: Complex, height: Complex) -> Complex:
        """Return ``z + i height``, shape (points, 1, 1)."""
        return np.asarray((z + 1j * height)[:, None, None])

    def start(self, points: int) -> Complex:
        """Return the unknowns at infinity, where K_j is the mean."""
        means = np.array([law.moments(1)[0] for law in self.laws], dtype=complex)
        return np.tile(self._unknown(means), (points, 1))

    def _unknown(self, k: Complex) -> Complex:
        # With a cut in the upper half-plane, where no K_j is.
        return np.asarray(np.log(1j * k) - 0.5j * np.pi) if self.product else k

    def evaluate(self, base: Complex, unknowns: Complex) -> LawsState:
        z, total = base[:, 0, 0], unknowns @ self.weights
        if self.product:
            k, points = np.exp(total), z[:, None] * np.exp(unknowns - total[:, None])
        else:
            k, points = total, (z - total)[:, None] + unknowns
        images, slopes = np.empty_like(points), np.empty_like(points)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            for j, law in enumerate(self.laws):
                g = law._cauchy(points[:, j])
                images[:, j] = points[:, j] - 1 / g
                slopes[:, j] = 1 + law._cauchy_derivative(points[:, j]) / g**2
            return LawsState(z, k, (1 / (z - k))[:, None, None], self._unknown(images), points, slopes)

    def _derivatives(self, state: LawsState) -> Complex:
        """Return ``dimage_j/dzeta_j`` times the derivative of zeta_j in its unknown, (points, laws)."""
        return np.asarray(
            state.points * state.slopes * np.exp(-state.image) if self.product else state.slopes
        )

    def jacobian(self, state: LawsState) -> Complex:
        return np.asarray(self._derivatives(state)[:, :, None] * (np.eye(self.unknowns) - self.weights))

    def shift_tangent(self, state: LawsState, direction: Complex) -> Complex:
        moved = np.broadcast_to(np.asarray(direction).reshape(-1, 1), (len(state.z), 1))
        slopes = self._derivatives(state)
        # z + k - k would be 0 where z is lost beside k.
        return np.asarray(moved * (slopes / state.z[:, None] if self.product else slopes))

    def resolvent_tangent(self, state: LawsState, direction: Any, unknowns: Complex) -> Complex:
        total = unknowns @ self.weights
        moved = state.subtracted * total if self.product else total
        change = np.zeros_like(state.resolvent) + direction
        return np.asarray(-(state.resolvent**2) * (change - moved[:, None, None]))
