"""Where a polynomial of the step with real zeros alone first has the size one, with proof.

A product f of factors 1 - step t with real t obeys, from (1 - x)^2 <= exp(x^2 - 2 x),

    log |f(step + h)| <= log |f| + h f'/f + h^2 / 2 ((f'/f)^2 - f''/f)          for all h:

three numbers at one step tell up to where |f| stays below one, and no interval beyond one is missed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from reshuffle._progress import track

_PRECISION = 1e-12
"""Relative distance of two steps that count as one."""
_BLURRED = 1e-6
"""Share of the largest integrand below which f is too close to a zero for its logarithmic derivatives."""
_APART = 1e-6
"""Relative distance from such a step at which they are tried first."""


@dataclass(frozen=True)
class Local:
    """A polynomial f with real zeros alone, at one step.

    Attributes
    ----------
    log : float
        log |f|.
    slope, square : float
        f'/f and (f'/f)^2 - f''/f, the sum of the squares of 1 / (zero - step).
    size : float
        log of the largest number that f was summed from.
    rounding : float
        Relative to that number.
    """

    log: float
    slope: float
    square: float
    size: float
    rounding: float = 0.0

    @property
    def is_blurred(self) -> bool:
        """Whether the step is so close to a zero of f that little but rounding is left."""
        return not self.log - self.size > math.log(_BLURRED)

    @property
    def has_crossed(self) -> bool:
        """Whether |f| is one, or more, up to rounding."""
        return self.log >= -self._blur

    @property
    def to_touch(self) -> float:
        """How far on log |f|, which is concave between zeros of f, has its maximum; 0 if that is above zero."""
        touches = self.slope > 0 and self.log + self.slope * self.slope / (2 * self.square) <= self._blur
        return self.slope / self.square if touches else 0.0

    @property
    def _blur(self) -> float:
        return self.rounding * math.exp(max(self.size, 0.0))

    @property
    def reach(self) -> float:
        """Up to how much further on |f| is below one for certain.

        >>> Local(-2.0, 0.0, 1.0, 0.0).reach, Local(-2.0, 2.0, 0.0, 0.0).reach
        (2.0, 1.0)
        """
        root = math.sqrt(self.slope * self.slope - 2 * self.square * self.log)
        return -2 * self.log / (self.slope + root) if self.slope > 0 else (root - self.slope) / self.square


def first_crossing(at: Callable[[float], Local], start: float) -> float:
    """The first step from `start` on, up to which |f| <= 1, at which |f| is one."""
    known = start
    for _ in track(count(), None, "following the mean"):
        back, here = 0.0, at(known)
        while here.is_blurred and back < known / 2:
            back = max(2 * back, _APART * known)
            here = at(known - back)
        reach = here.reach - back if not here.has_crossed else 0.0
        if reach <= _PRECISION * known:
            break
        known += reach
    # Next to a step at which |f| touches one, rounding has hidden the rest of the way.
    known += at(known).to_touch
    return known + at(known).to_touch
