"""Laws of f(x), from that of x, and of a variable in the corner outside which it vanishes.

`Pushforward` cuts f into pieces on which it rises, falls or is constant.
"""

import itertools
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from reshuffle.free.checks import Complex, Real, callable_or_raise, size
from reshuffle.free.laws.law import Law, Pairs
from reshuffle.free.measure import Measure

GRID = 2001
MOST = 64
"""Pieces; a function with more oscillates too much for its law to have a shape."""


class Piece(NamedTuple):
    """An interval of x on which f is monotone or constant, and the images of its ends."""

    low: float
    high: float
    at_low: float
    at_high: float

    @property
    def flat(self) -> bool:
        """True where f is constant, which makes an atom."""
        return self.at_low == self.at_high

    @property
    def image(self) -> tuple[float, float]:
        """The values of f, from the smallest to the largest."""
        return min(self.at_low, self.at_high), max(self.at_low, self.at_high)


class Pushforward(Law):
    """The law of f(x): density ``sum over f(x) = t of density(x)/|f'(x)|``.

    Made by `apply`. Its Cauchy transform is that of its density's own interpolants, good to about 1e-11. The
    function f is continuous on each interval of the support of the base, the law of x; a monotone f may have an
    inverse. The derivative is taken by a complex step or by differences unless given, and the name is printed.
    """

    def __init__(
        self,
        base: Law,
        function: Callable[[Real], Any],
        *,
        inverse: Callable[[Real], Any] | None = None,
        derivative: Callable[[Real], Any] | None = None,
        name: str = "f",
    ):
        callable_or_raise("function", function)
        self.base, self.function, self.inverse, self.name = base, function, inverse, name
        self._given = derivative

    def _values(self, x: Real) -> Real:
        values = np.asarray(self.function(x), dtype=float)
        if values.shape != np.shape(x) or not np.isfinite(values).all():
            raise ValueError(
                f"function must give one finite real number per point of the spectrum of {self.base!r}, but it is"
                f" {values.ravel()[:3].tolist()} at {np.ravel(x)[:3].tolist()}; restrict it, or move the law"
            )
        return values

    @cached_property
    def _pieces(self) -> tuple[Piece, ...]:
        pieces: list[Piece] = []
        for low, high in self.base.support:
            x = (low + high) / 2 - (high - low) / 2 * np.cos(np.linspace(0, np.pi, GRID))
            x[0], x[-1] = low, high
            if self.inverse is not None:
                x = x[[0, -1]]
            values = self._values(x)
            signs = np.sign(np.diff(values))
            cuts = [low]
            for k in np.flatnonzero(signs[1:] != signs[:-1]):
                cuts.append(self._turn(x[k], x[k + 1], x[k + 2]))
            ends = sorted({*cuts, high})
            images = self._values(np.array(ends))
            pairs = zip(itertools.pairwise(ends), itertools.pairwise(images.tolist()), strict=True)
            pieces += [Piece(a, b, at_a, at_b) for (a, b), (at_a, at_b) in pairs]
        if len(pieces) > MOST:
            raise ValueError(
                f"function must have at most {MOST} monotone pieces on the spectrum, but it has {len(pieces)};"
                f" it oscillates too much"
            )
        return tuple(pieces)

    def _turn(self, left: float, middle: float, right: float) -> float:
        """Return where f turns between three neighbouring points, to rounding."""
        rising = self._values(np.array([left, middle, right]))
        flat_left, flat_right = rising[0] == rising[1], rising[1] == rising[2]
        if flat_left or flat_right:
            still, moving, value = (left, right, rising[0]) if flat_left else (right, left, rising[2])
            for _ in range(100):
                half = (still + moving) / 2
                same = float(self._values(np.array([half]))[0]) == value
                still, moving = (half, moving) if same else (still, half)
            return float(still)
        sign = np.sign(rising[1] - rising[0]) or 1.0
        for _ in range(100):
            a, b = left + (right - left) / 3, right - (right - left) / 3
            at_a, at_b = sign * self._values(np.array([a, b]))
            left, right = (a, right) if at_a < at_b else (left, b)
        return float((left + right) / 2)

    def _slope(self, x: Real, low: float, high: float) -> Real:
        """Return |f'|: given, by a complex step where f knows complex numbers, by differences otherwise."""
        if self._given is not None:
            return np.asarray(np.abs(self._given(x)), dtype=float)
        step = 1e-3 * np.maximum(np.minimum(x - low, high - x), 1e-12 * (high - low))
        f = self._values
        differences = (8 * (f(x + step) - f(x - step)) - (f(x + 2 * step) - f(x - 2 * step))) / (12 * step)
        try:
            with np.errstate(all="ignore"):
                exact = np.asarray(self.function(x + 1e-30j)).imag / 1e-30
        except TypeError:
            return np.asarray(np.abs(differences))
        # A function such as abs is no function of a complex variable: its imaginary part says nothing.
        right = np.abs(exact - differences) <= 1e-6 * np.abs(differences)
        return np.asarray(np.abs(np.where(right, exact, differences)))

    def _preimage(self, piece: Piece, t: Real) -> Real:
        if self.inverse is not None:
            return np.asarray(self.inverse(t), dtype=float)
        rising = piece.at_high > piece.at_low
        low, high = np.full(t.shape, piece.low), np.full(t.shape, piece.high)
        for _ in range(80):
            middle = (low + high) / 2
            below = (self._values(middle) < t) == rising
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray((low + high) / 2)

    def _density(self, t: Real) -> Real:
        flat = np.ravel(t)
        total = np.zeros(flat.shape)
        for piece in self._pieces:
            low, high = piece.image
            inside = np.flatnonzero((flat > low) & (flat < high))
            if len(inside):
                x = self._preimage(piece, flat[inside])
                x = np.clip(x, np.nextafter(piece.low, np.inf), np.nextafter(piece.high, -np.inf))
                with np.errstate(divide="ignore"):
                    total[inside] += self.base._density(x) / self._slope(x, piece.low, piece.high)
        return total.reshape(np.shape(t))

    @property
    def support(self) -> Pairs:
        """The union of the pieces' images, from left to right."""
        merged: list[list[float]] = []
        for low, high in sorted(piece.image for piece in self._pieces if not piece.flat):
            if merged and low <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], high)
            else:
                merged.append([low, high])
        return tuple((low, high) for low, high in merged)

    @cached_property
    def atoms(self) -> Pairs:
        """The images of the atoms, and the mass on which f is constant."""
        found: dict[float, float] = {}
        for place, mass in self.base.atoms:
            value = float(self._values(np.array([place]))[0])
            found[value] = found.get(value, 0.0) + mass
        for piece in self._pieces:
            if piece.flat:
                inside = sum(m for x, m in self.base.atoms if piece.low < x <= piece.high)
                mass = float(np.diff(self.base.cdf([piece.low, piece.high]))[0]) - inside
                found[piece.at_low] = found.get(piece.at_low, 0.0) + mass
        return tuple(sorted(found.items()))

    @cached_property
    def measure(self) -> Measure:
        """The law as quadrature panels, cut where pieces begin and end."""
        images = [piece.image for piece in self._pieces if not piece.flat]
        cuts = sorted({end for pair in images for end in pair})
        width = (cuts[-1] - cuts[0]) if cuts else 0.0
        kept = cuts[:1]
        for cut in cuts[1:]:
            if cut - kept[-1] > 1e-13 * width:
                kept.append(cut)
        between = list(itertools.pairwise(kept))
        covered = [(a, b) for a, b in between if any(low < (a + b) / 2 < high for low, high in images)]
        return Measure(self._density, covered, self.atoms)

    def _cauchy(self, z: Complex) -> Complex:
        return self.measure.cauchy(z)

    def __repr__(self) -> str:
        return f"{self.name}({self.base!r})"


class Corner(Law):
    """The law of x in the corner of a projection of trace ``rank`` outside which x vanishes, or in a larger space.

    ``G(z) = (G_base(z) - (1 - rank)/z)/rank``: the base without a mass ``1 - rank`` of its atom at 0, or with more
    of it where the rank is larger than one. For ``p x p`` of a projection p in x, and for rectangular variables.

    A rank beyond 1 is that of a space that is so many times as large, in which x vanishes outside of its own.

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
        """The atoms of the base, with less mass at 0, or more."""
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
