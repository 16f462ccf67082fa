"""Wachter's law, the free Jacobi law: spectra of MANOVA matrices and of products of projections."""

import numpy as np

from reshuffle.free.checks import size
from reshuffle.free.laws.meixner import FreeMeixner


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
                f"first + second must be > 1, got {a + b:g}; with fewer degrees A + B is not invertible"
            )
        self.first, self.second = a, b
        total = a + b
        centre, reach = np.sqrt(a * (total - 1)) / total, np.sqrt(b) / total
        low, high = (centre - reach) ** 2, (centre + reach) ** 2
        # 1 - high is a square as well; without it the edge at 1 for b = 1 would be off by a rounding.
        high = 1 - (np.sqrt(a) - np.sqrt(b * (total - 1))) ** 2 / total**2
        tail = ((low + high) / 2, a * b * (total - 1) / total**4)
        beta_1 = a * b / total**3
        super().__init__(
            first=(a / total, beta_1),
            tail=tail,
            edges=(float(low), float(high)),
            # beta - beta_1, whose terms cancel when a or b is large.
            roots=(-a * b / total**4, (0.0, 1.0)),
            atoms=((0.0, 1 - a), (1.0, 1 - b)),
        )

    def __repr__(self) -> str:
        return f"Wachter(first={self.first:g}, second={self.second:g})"
