"""The Kesten-McKay law: the spectrum of the infinite regular tree."""

import numpy as np

from reshuffle.free.checks import number
from reshuffle.free.laws.meixner import FreeMeixner


class KestenMcKay(FreeMeixner):
    """The limiting law of the adjacency matrix of random d-regular graphs, any real ``d >= 2``.

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
