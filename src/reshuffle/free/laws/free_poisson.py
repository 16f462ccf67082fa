"""The free Poisson law: Marchenko-Pastur by its rate and jump."""

import numpy as np

from reshuffle.free.checks import location, size
from reshuffle.free.laws.meixner import FreeMeixner


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
                "jump must be a non-zero real number, got 0; a free Poisson law of jump 0 is the point 0"
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
