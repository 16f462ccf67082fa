"""Laws from a user's own Cauchy transform or density."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence, Sized
from typing import Any

import numpy as np

from reshuffle.free import checks
from reshuffle.free.checks import Complex, Real, location, number
from reshuffle.free.laws.law import Law, Pairs
from reshuffle.free.measure import Measure


def _is_list_of_pairs(given: object) -> bool:
    """True for lists such as [(-1, 1)]."""
    return isinstance(given, Iterable) and all(isinstance(p, Sized) and len(p) == 2 for p in given)


class _Custom(Law):
    """A law whose support and atoms are the user's own."""

    _support: Pairs
    _atoms: Pairs

    @property
    def support(self) -> Pairs:
        return self._support

    @property
    def atoms(self) -> Pairs:
        return self._atoms

    def _density(self, t: Real) -> Real:
        inside, values = np.zeros(t.shape, dtype=bool), np.zeros(t.shape)
        for low, high in self._support:
            inside |= (t >= low) & (t <= high)
        values[inside] = self._density_inside(t[inside])
        return values

    @abstractmethod
    def _density_inside(self, t: Real) -> Real:
        """The density at points of the support."""

    def _given(self, support: Sequence[tuple[float, float]], atoms: Sequence[tuple[float, float]]) -> None:
        for name, given, form in (("support", support, "(low, high)"), ("atoms", atoms, "(location, mass)")):
            if not _is_list_of_pairs(given):
                raise TypeError(f"{name} must be a list of pairs {form}, but it is {given!r}; try [{form}]")
        pairs = [(location("support", low), location("support", high)) for low, high in support]
        for low, high in pairs:
            if not low < high:
                raise ValueError(
                    f"support must be intervals with low < high, but one is ({low}, {high}); swap its ends"
                )
            checks.require_width("support", low, high)
        places = [(location("atom location", x), number("atom mass", m, low=0.0, high=1.0)) for x, m in atoms]
        if not pairs and not places:
            raise ValueError(
                "support must have an interval or atoms a point, but there is neither; pass one of them"
            )
        self._support, self._atoms = tuple(sorted(pairs)), tuple(sorted(places))

    def _require_mass(self, name: str) -> None:
        if abs(self.measure.mass - 1) > 1e-6:
            raise ValueError(
                f"{name} must have total mass 1 on support and atoms, but it has {self.measure.mass:.8f};"
                " widen support to the whole spectrum, list every atom, and check the normalisation"
            )


class FromCauchy(_Custom):
    """The law with a given Cauchy transform, density ``-Im G(t + i0)/pi``.

    Parameters
    ----------
    cauchy : callable
        From a complex array to one of the same shape, right on the closed upper half-plane.
    support, atoms : lists of (low, high), the intervals of the continuous part, and of (location, mass)

    >>> law = FromCauchy(lambda z: 2 / (z + np.sqrt(z - 2) * np.sqrt(z + 2)), support=[(-2.0, 2.0)])
    >>> [round(float(x), 9) for x in law.moments(4)]
    [0.0, 1.0, 0.0, 2.0]
    """

    def __init__(
        self,
        cauchy: Callable[[Complex], Any],
        support: Sequence[tuple[float, float]],
        atoms: Sequence[tuple[float, float]] = (),
    ):
        self._given(support, atoms)
        low, high = self.hull
        checks.cauchy_transform(cauchy, max(high - low, abs(high), abs(low)) or 1.0, (low + high) / 2)
        self._function = cauchy
        self._require_mass("cauchy")

    def _cauchy(self, z: Complex) -> Complex:
        # The function need be right on the upper half-plane only; the lower one follows by reflection.
        above = np.where(z.imag < 0, np.conj(z), z)
        values = np.asarray(self._function(above), dtype=np.complex128)
        return np.where(z.imag < 0, np.conj(values), values)

    def _density_inside(self, t: Real) -> Real:
        return np.maximum(-self._cauchy(t + 0j).imag / np.pi, 0.0)

    def __repr__(self) -> str:
        return f"FromCauchy(support={self._support})"


class FromDensity(_Custom):
    """The law with a given density; its Cauchy transform is that of the density's own interpolants.

    Each panel's Chebyshev series is integrated against ``1/(z - x)`` in closed form, up to the real axis.

    Parameters
    ----------
    density : callable
        From a float array to one of the same shape.
    support, atoms : lists of (low, high), the intervals outside which it vanishes, and of (location, mass)

    >>> law = FromDensity(lambda t: 0.75 * (1 - t**2), support=[(-1.0, 1.0)])
    >>> round(float(law.moments(2)[1]), 12)
    0.2
    """

    def __init__(
        self,
        density: Callable[[Real], Any],
        support: Sequence[tuple[float, float]],
        atoms: Sequence[tuple[float, float]] = (),
    ):
        self._given(support, atoms)
        checks.callable_or_raise("density", density)
        self._function = density
        self.measure = Measure(self._density, self._support, self._atoms)
        points, masses = self.measure.quadrature
        if masses.min(initial=0.0) < -1e-12:
            where = points[int(np.argmin(masses))]
            raise ValueError(
                f"density must be >= 0, but it has the negative value {float(self._density(where[None])[0]):.6g} at"
                f" {where:.6g}; check its formula"
            )
        self._require_mass("density")

    def _density_inside(self, t: Real) -> Real:
        return np.asarray(self._function(t), dtype=float)

    def _cauchy(self, z: Complex) -> Complex:
        return self.measure.cauchy(z)

    def __repr__(self) -> str:
        return f"FromDensity(support={self._support})"
