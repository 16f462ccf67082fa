"""What an error of the mean map does to iterates and risk: proven bounds for the series.

Let H = B step Z be known up to a share e of itself, H = H~^(1/2) (I + E) H~^(1/2) with |E| <= e, and A = I - H.
Then

    A^k - A~^k = - sum_{j<k} A^(k-1-j) H~^(1/2) E H~^(1/2) A~^j,

and each factor A^j H^(1/2) is at most the largest |1 - x|^j sqrt(x) over paces x, which is 1 / sqrt(2 e j) for
x <= 1: errors of the paces do not add up over the epochs, since slow modes have small errors. The geometric
sums that carry the noise are treated alike.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg

from reshuffle._arrays import BoolArray, FloatArray
from reshuffle._linalg import norm, norms, row_norms, thin_qr


@dataclass(frozen=True, eq=False)
class Perturbation:
    """What is known of powers and geometric sums when the map is known up to an error.

    Attributes
    ----------
    paces : (r,)
        x, of the approximate map.
    frozen : (r,)
        The modes that do not move, in the true map either.
    error : float
        e, the share of itself that H may be off.
    pull_error : float
        A bound on the Frobenius norm of the error of the pull.
    """

    paces: FloatArray
    frozen: BoolArray
    error: float
    pull_error: float

    @property
    def slowest(self) -> float:
        """A lower bound on the true paces."""
        return (1 - self.error) * float(self.paces[~self.frozen].min(initial=np.inf))

    @property
    def fastest(self) -> float:
        """An upper bound on the true paces."""
        return (1 + self.error) * float(self.paces[~self.frozen].max(initial=0.0))

    @property
    def is_bounded(self) -> bool:
        """Whether anything can be said at all: all paces are surely between 0 and 2."""
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
        together = self._together(epochs)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            contraction = max(1 - slow, fast - 1, 0.0)
            apart = np.where(
                np.isinf(epochs), 0.0, epochs * contraction ** np.maximum(epochs - 1, 0.0) * fast
            )
        return self.share * np.where(epochs == 0, 0.0, np.minimum(together, apart))

    def _together(self, epochs: FloatArray) -> FloatArray:
        """A bound on sum_{j<k} |A^(k-1-j) H~^(1/2)| |H~^(1/2) A~^j| that never falls as k grows."""
        fast = self.fastest
        alternating = fast / (1 - (fast - 1) ** 2) if fast > 1 else 0.0
        harmonic = (1 + np.log(np.maximum(epochs, 1.0))) / (2 * math.e)
        return np.where(epochs == 0, 0.0, fast + harmonic + alternating)

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
        roots = np.sqrt(np.where(self.frozen, 0.0, self.paces))
        # H^(1/2) (1 + A + ... + A^(m-1)) at its largest over m <= k: sums that alternate exceed their end.
        half = np.where(self.paces <= 1, roots * np.where(self.frozen, 0.0, drift), roots)
        through_powers = self._of_half_sums(epochs) * norms(half * row_norms(pull))
        sums = np.minimum(epochs, max(1 / self.slowest, 1.0))
        return np.asarray(through_powers + sums * (self.pull_error * size))

    def _of_half_sums(self, epochs: FloatArray) -> FloatArray:
        """A bound on e sum_{j<k-1} |A^j H~^(1/2)|."""
        slow, fast = self.slowest, self.fastest
        alternating = math.sqrt(fast) / (2 - fast) if fast > 1 else 0.0
        growing = np.minimum(2 * np.sqrt(epochs / (2 * math.e)), 2 * math.exp(-0.5) / math.sqrt(slow))
        return self.share * np.where(epochs <= 1, 0.0, math.sqrt(fast) + growing + alternating)


@dataclass(frozen=True, eq=False)
class AveragedPerturbation(Perturbation):
    """The same for any average of the powers A^0, ..., A^k, with weights that add up to one."""

    def of_powers(self, epochs: FloatArray) -> FloatArray:
        """A bound on the errors of all powers up to each k; in the end only that of the limit counts."""
        if not self.is_bounded:
            return super().of_powers(epochs)
        finite = np.where(np.isinf(epochs), 0.0, epochs)
        return np.where(np.isinf(epochs), 0.0, self.share * self._together(finite))


@dataclass(frozen=True, eq=False)
class MapError:
    """Bounds on Euclidean and Frobenius norms of errors, for each of some epochs.

    Responses are split into what the features explain and the rest. The first moves with powers of the map alone,
    since the pull of X b is that of Z b; only the rest is left to the geometric sums. Without this the two
    errors of a limit would be added where they cancel.

    Attributes
    ----------
    perturbation : Perturbation
    rows : (q, r)
        The features in the modes, in their natural units.
    response : (q,)
        Their responses.
    pull : (r, q)
        How responses enter the modes.
    """

    perturbation: Perturbation
    rows: FloatArray
    response: FloatArray
    pull: FloatArray

    @property
    def _splits(self) -> bool:
        """Whether every mode moves, so that the features explain in full what they see."""
        return not self.perturbation.frozen.any()

    @cached_property
    def _column_space(self) -> tuple[FloatArray, FloatArray]:
        return thin_qr(self.rows)

    def of_output(self, response: FloatArray) -> "MapError":
        """The same for other responses (q,), with what does not depend on them."""
        made = replace(self, response=response)
        made.__dict__["_column_space"] = self._column_space
        return made

    def of_start(self, epochs: FloatArray, inside: FloatArray) -> FloatArray:
        """Of A^k e, for e in the modes (r,)."""
        moving = np.where(self.perturbation.frozen, 0.0, inside)
        return _product(self.perturbation.of_powers(epochs), norm(moving))

    def of_iterate(self, epochs: FloatArray, drift: FloatArray, start: FloatArray) -> FloatArray:
        """Of the iterate, from a start in the modes (r,)."""

        def bound(start: FloatArray, response: FloatArray) -> FloatArray:
            pulled = (self.pull @ response)[:, np.newaxis]
            size = norm(response)
            return self.of_start(epochs, start) + self.perturbation.of_drifts(epochs, drift, pulled, size)

        whole = bound(start, self.response)
        if not self._splits:
            return whole
        basis, triangle = self._column_space
        explained = basis.T @ self.response
        solution = scipy.linalg.solve_triangular(triangle, explained, check_finite=False)
        return np.minimum(whole, bound(start - solution, self.response - basis @ explained))

    def of_noise(self, epochs: FloatArray, drift: FloatArray) -> FloatArray:
        """Of the map from the noise to the iterate, in Frobenius norm."""
        whole = self.perturbation.of_drifts(epochs, drift, self.pull, 1.0)
        if not self._splits:
            return whole
        basis, triangle = self._column_space
        inverse = norm(1 / scipy.linalg.svdvals(triangle, check_finite=False))
        unexplained = self.pull - (self.pull @ basis) @ basis.T
        # As many rows as modes explain everything.
        size = 1.0 if len(self.rows) > len(triangle) else 0.0
        rest = self.perturbation.of_drifts(epochs, drift, size * unexplained, size)
        return np.minimum(whole, _product(self.perturbation.of_powers(epochs), inverse) + rest)


def _product(bound: FloatArray, size: float) -> FloatArray:
    """`bound * size`, where an unbounded error of nothing is nothing."""
    return np.zeros_like(bound) if size == 0 else bound * size
