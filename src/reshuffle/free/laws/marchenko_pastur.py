"""The Marchenko-Pastur law: spectra of sample covariances."""

import numpy as np

from reshuffle.free.checks import size
from reshuffle.free.laws.meixner import FreeMeixner


class MarchenkoPastur(FreeMeixner):
    """The limiting law of ``variance X'X/n`` for n x p white X with ``p/n -> ratio``.

    ``G(z) = 2/(z - v(1 - r) + S)``, edges ``v (1 -+ sqrt r)^2``, an atom ``1 - 1/r`` at 0 when r > 1.
    Source: Marchenko and Pastur (1967).

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
