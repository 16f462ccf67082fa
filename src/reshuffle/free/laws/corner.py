"""The law of a variable in the corner outside which it vanishes."""

import numpy as np

from reshuffle.free.checks import Complex, Real, size
from reshuffle.free.laws.law import Law, Pairs


class Corner(Law):
    """The law of x in the corner of a projection of trace ``rank`` outside which x vanishes, or in a larger space.

    ``G(z) = (G_base(z) - (1 - rank)/z)/rank``: the base without a mass ``1 - rank`` of its atom at 0, or with more
    of it where the rank is larger than one. For ``p x p`` of a projection p in x, and for rectangular variables.

    Parameters
    ----------
    base : Law
        With an atom of at least ``1 - rank`` at 0.
    rank : float
        > 0; beyond 1 for a space that is so many times as large, in which x vanishes outside of its own.

    >>> from reshuffle import free
    >>> free.Corner(free.Projection(0.25), 0.5).atoms, free.Corner(free.Discrete([2.0]), 4).atoms
    (((0.0, 0.5), (1.0, 0.5)), ((0.0, 0.75), (2.0, 0.25)))
    """

    def __init__(self, base: Law, rank: float):
        if not isinstance(base, Law):
            raise TypeError(f"base must be a law such as Projection(0.5), but it is {base!r}")
        self.base, self.rank = base, size("rank", rank)
        at_zero = sum(mass for place, mass in base.atoms if place == 0)
        if at_zero < 1 - self.rank - 1e-9:
            raise ValueError(
                f"rank must be at least 1 less the mass at 0, {1 - at_zero:g}, but it is {rank:g}; outside of"
                f" the corner x must be 0"
            )

    @property
    def support(self) -> Pairs:
        """The intervals of the base."""
        return self.base.support

    @property
    def atoms(self) -> Pairs:
        """Those of the base, with less mass at 0, or more."""
        masses = dict(self.base.atoms)
        masses[0.0] = masses.get(0.0, 0.0) - (1 - self.rank)
        return tuple((x, m / self.rank) for x, m in sorted(masses.items()) if m > 1e-9 * self.rank)

    def _cauchy(self, z: Complex) -> Complex:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((self.base._cauchy(z) - (1 - self.rank) / z) / self.rank)

    def _density(self, t: Real) -> Real:
        return np.asarray(self.base._density(t) / self.rank)

    def __repr__(self) -> str:
        return f"Corner({self.base!r}, {self.rank:g})"
