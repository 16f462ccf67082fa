"""A law that is known through a scalar fixed point: solved at any point, with its support, atoms and measure."""

import itertools
import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from reshuffle.free.checks import Complex, ConvergenceError, Real, complex_points, count, real_points
from reshuffle.free.convolution.weighted_laws import Products, Sums, WeightedLaws
from reshuffle.free.laws.law import Law, Pairs
from reshuffle.free.measure import Measure
from reshuffle.free.progress import working
from reshuffle.free.recurrence import cumulants_from_moments, moments_from_cumulants
from reshuffle.free.singularities import exponent
from reshuffle.free.solver.continuation import Resolved, follow, resolved
from reshuffle.free.support import support as support_of

COARSE = 1500
"""Points of the first look at a density, from high above the axis."""
TOGETHER = 4096
"""Points that are solved at once."""


class Convolved(Law):
    """The free convolution of laws that enter t_j times each, t_j >= 1 and real: a sum, or a product.

    Made by `add`, `multiply`, `additive_power`, `multiplicative_power` and `compress`; everything is computed
    when first asked for. Real points mean the limit from the upper half-plane itself, as for a `Spectrum`.

    Parameters
    ----------
    laws : list of Law
        Of products: on the half-line x >= 0, none of them the point 0.
    weights : list of float
        t_j, as many.
    product : bool
        Whether they are multiplied, and not added.
    """

    def __init__(self, laws: Sequence[Law], weights: Sequence[float], *, product: bool):
        self.laws, self.weights, self.product = tuple(laws), tuple(float(t) for t in weights), product
        # In units in which every mean is one (of sums: every scale), so that high powers stay numbers.
        sizes = [float(law.moments(1)[0]) if product else law.scale or 1.0 for law in self.laws]
        self._unit = self._together(sizes) if product else max(sizes)
        scaled = [law / (size if product else self._unit) for law, size in zip(self.laws, sizes, strict=True)]
        self._system: WeightedLaws
        if product:
            spread = sum(t * float(law.cumulants(2)[1]) for law, t in zip(scaled, self.weights, strict=True))
            self._system = Products(scaled, self.weights, 1 + spread)
        else:
            norm = sum(t * law.scale for law, t in zip(scaled, self.weights, strict=True)) or 1.0
            self._system = Sums(scaled, self.weights, norm)

    def _together(self, values: Sequence[float]) -> float:
        """Return ``prod v_j^t_j`` or ``sum t_j v_j``."""
        if self.product:
            return float(math.prod(v**t for v, t in zip(values, self.weights, strict=True)))
        return math.fsum(t * v for v, t in zip(values, self.weights, strict=True))

    def _trace(self, z: Complex, strict: bool) -> Resolved:
        with working(repr(self)):
            solved = resolved(self._chunks, z.ravel() / self._unit, strict)
        shape = z.shape
        return Resolved(
            solved.value[:, 0, 0].reshape(shape) / self._unit,
            solved.error.reshape(shape) / self._unit,
            solved.converged.reshape(shape),
        )

    def _chunks(self, z: Complex) -> tuple[Complex, Real]:
        values, errors = np.zeros((len(z), 1, 1), dtype=complex), np.zeros(len(z))
        for start in range(0, len(z), TOGETHER):
            part = slice(start, start + TOGETHER)
            solved = follow(self._system, z[part], 1)
            values[part] = solved.resolvent
            errors[part] = np.where(solved.converged, solved.error, np.inf)
        return values, errors

    def cauchy(self, z: ArrayLike) -> Complex:
        """Return ``G(z)``; real z means the limit from above, nan where it could not be solved."""
        return np.asarray(self._trace(complex_points("z", z), strict=True).value)

    def resolve(self, t: ArrayLike) -> Resolved:
        """Return the density at t with error estimates and convergence flags."""
        return self._trace(real_points("t", t).astype(complex), strict=True).density(self._unit)

    def _density(self, t: Real) -> Real:
        return np.asarray(self.resolve(t).value)

    def _cauchy(self, z: Complex) -> Complex:
        # A larger system asks for this at every step of its own: the solver of this one would be run each time.
        return self.measure.cauchy(z)

    def _untested(self, t: Real) -> tuple[Real, Real]:
        solved = self._trace(t.astype(complex), strict=False)
        density = np.where(solved.converged, np.maximum(-solved.value.imag / np.pi, 0.0), 0.0)
        if self.product:
            density = np.where(t < 0, 0.0, density)
        return density, np.where(solved.converged, solved.error / np.pi, np.inf)

    def _known(self, t: Real) -> Real:
        density, error = self._untested(t)
        return np.asarray(np.where(np.isfinite(error), density, np.nan))

    @cached_property
    def atoms(self) -> Pairs:
        """Pairs (location, mass), from left to right.

        Atoms a_j of masses m_j make one of mass ``1 - sum_j t_j (1 - m_j)`` where that is positive; at 0 a
        product has the largest of its factors' masses there. Sources: Bercovici and Voiculescu (1998),
        Belinschi (2003).
        """
        found: dict[float, float] = {}
        zero = (
            max((m for law in self.laws for x, m in law.atoms if x == 0), default=0.0)
            if self.product
            else 0.0
        )
        if zero:
            found[0.0] = zero
        for choice in itertools.product(
            *(self._heavy(law, t) for law, t in zip(self.laws, self.weights, strict=True))
        ):
            mass = 1 - math.fsum(t * (1 - m) for (_, m), t in zip(choice, self.weights, strict=True))
            if mass > 1e-12:
                place = self._together([x for x, _ in choice])
                found[place] = found.get(place, 0.0) + mass
        return tuple(sorted(found.items()))

    def _heavy(self, law: Law, weight: float) -> list[tuple[float, float]]:
        """Return the atoms that can make one of the convolution, those at 0 of a product left out."""
        others = sum(
            t * (1 - max((m for _, m in other.atoms), default=0.0)) for other, t in self._others(law, weight)
        )
        return [
            (x, m) for x, m in law.atoms if weight * (1 - m) + others < 1 and not (self.product and x == 0)
        ]

    def _others(self, law: Law, weight: float) -> list[tuple[Law, float]]:
        pairs = list(zip(self.laws, self.weights, strict=True))
        pairs.remove((law, weight))
        return pairs

    def _seeds(self) -> Real:
        """Return 300 quantiles of the law as it is seen from above: edges are sought around them."""
        if self.product:
            high = self._together([law.scale for law in self.laws])
            x = np.geomspace(1e-8 * self._unit, high, COARSE)
            z, widths = x * (1 + 0.02j), x
        else:
            ends = [_hull(law) for law in self.laws]
            low, high = (self._together([pair[i] for pair in ends]) for i in (0, 1))
            x = np.linspace(low, high, COARSE)
            z, widths = x + 1j * (high - low) / 300, np.ones(COARSE)
        values = self._trace(z, strict=False).value
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

    @cached_property
    def _structure(self) -> tuple[Pairs, Measure]:
        if sum(mass for _, mass in self.atoms) > 1 - 1e-9:
            return (), Measure(self._untested, (), self.atoms)
        with working(repr(self)):
            return self._found()

    def _found(self) -> tuple[Pairs, Measure]:
        seeds = self._seeds()
        for resolution in (300, 1200, 3000):
            found = support_of(self._known, seeds, resolution)
            measure = Measure(self._untested, found.pieces, self.atoms, 1e-11, self._powers)
            if abs(measure.mass - 1) < 1e-7:
                return found.intervals, measure
        raise ConvergenceError(
            f"{self!r} has mass {measure.mass:.9f} on {found.intervals} and atoms {self.atoms}, should be 1; it has"
            " parts too narrow to be found: use density(t) and resolve(t) at chosen points"
        )

    @property
    def support(self) -> Pairs:
        """The intervals of the continuous part, from left to right."""
        return self._structure[0]

    @cached_property
    def measure(self) -> Measure:
        """The law as quadrature panels."""
        return self._structure[1]

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


def _hull(law: Law) -> tuple[float, float]:
    ends = [end for pair in law.support for end in pair] + [place for place, _ in law.atoms]
    return min(ends), max(ends)
