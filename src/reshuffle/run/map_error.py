"""What an error of the mean map does to iterates and risk: proven bounds for the series."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from reshuffle._core.arrays import FloatArray
from reshuffle._core.norms import norm
from reshuffle._core.orthogonal import thin_qr
from reshuffle.run.perturbation import Perturbation


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
