"""How an error of the mean map grows with the epochs.

Let H = B step Z be known up to a share e of itself, H = H~^(1/2) (I + E) H~^(1/2) with |E| <= e, and A = I - H.
Then

    A^k - A~^k = - sum_{j<k} A^(k-1-j) H~^(1/2) E H~^(1/2) A~^j,

and each factor A^j H^(1/2) is at most the largest |1 - x|^j sqrt(x) over rates x, which is 1 / sqrt(2 e j) for
x <= 1: errors of the rates do not add up over the epochs, since slow modes have small errors. The geometric sums
that carry the noise are treated alike.
"""

import math
from dataclasses import dataclass

import numpy as np

from reshuffle._core.arrays import BoolArray, FloatArray
from reshuffle._core.norms import norms, row_norms


@dataclass(frozen=True, eq=False)
class Perturbation:
    """What is known of powers and geometric sums when the map is known up to an error.

    Attributes
    ----------
    rates : (r,)
        x, of the approximate map.
    frozen : (r,)
        The modes that do not move, in the true map either.
    error : float
        e, the share of itself that H may be off.
    pull_error : float
        A bound on the Frobenius norm of the error of the pull.
    """

    rates: FloatArray
    frozen: BoolArray
    error: float
    pull_error: float

    @property
    def slowest(self) -> float:
        """A lower bound on the true rates."""
        return (1 - self.error) * float(self.rates[~self.frozen].min(initial=np.inf))

    @property
    def fastest(self) -> float:
        """An upper bound on the true rates."""
        return (1 + self.error) * float(self.rates[~self.frozen].max(initial=0.0))

    @property
    def is_bounded(self) -> bool:
        """Whether anything can be said at all: all rates are surely between 0 and 2."""
        return self.error < 1 and self.slowest > 0 and self.fastest < 2

    @property
    def share(self) -> float:
        """The bound e / sqrt(1 - e), which takes the square root of H~ to that of H."""
        return self.error / math.sqrt(1 - self.error)

    def of_powers(self, epochs: FloatArray) -> FloatArray:
        """A bound on |A^k - A~^k| for each k."""
        if not self.is_bounded:
            return np.where(epochs == 0, 0.0, np.inf)
        slow, fast = self.slowest, self.fastest
        alternating = fast / (1 - (fast - 1) ** 2) if fast > 1 else 0.0
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            harmonic = (1 + np.log(np.maximum(epochs, 1.0))) / (2 * math.e)
            together = fast + harmonic + alternating
            contraction = max(1 - slow, fast - 1, 0.0)
            apart = np.where(
                np.isinf(epochs), 0.0, epochs * contraction ** np.maximum(epochs - 1, 0.0) * fast
            )
        return self.share * np.where(epochs == 0, 0.0, np.minimum(together, apart))

    def of_drifts(self, epochs: FloatArray, drift: FloatArray, pull: FloatArray, size: float) -> FloatArray:
        """A bound on the Frobenius norm of the error of (1 + A + ... + A^(k-1)) N M, for each k.

        Parameters
        ----------
        drift : (..., r)
            The geometric sums at the epochs.
        pull : (r, m)
            N M in the modes, of the approximate map.
        size : float
            The norm of M: 1 for the noise itself, that of the responses for an iterate.
        """
        if not self.is_bounded:
            return np.where(epochs == 0, 0.0, np.inf)
        roots = np.sqrt(np.where(self.frozen, 0.0, self.rates))
        # H^(1/2) (1 + A + ... + A^(m-1)) at its largest over m <= k: sums that alternate exceed their end.
        half = np.where(self.rates <= 1, roots * np.where(self.frozen, 0.0, drift), roots)
        through_powers = self._of_half_sums(epochs) * norms(half * row_norms(pull))
        sums = np.minimum(epochs, max(1 / self.slowest, 1.0))
        return np.asarray(through_powers + sums * (self.pull_error * size))

    def _of_half_sums(self, epochs: FloatArray) -> FloatArray:
        """A bound on e sum_{j<k-1} |A^j H~^(1/2)|."""
        slow, fast = self.slowest, self.fastest
        alternating = math.sqrt(fast) / (2 - fast) if fast > 1 else 0.0
        growing = np.minimum(2 * np.sqrt(epochs / (2 * math.e)), 2 * math.exp(-0.5) / math.sqrt(slow))
        return self.share * np.where(epochs <= 1, 0.0, math.sqrt(fast) + growing + alternating)
