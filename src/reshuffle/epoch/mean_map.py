"""The averaged map of an epoch, as the few small matrices that determine it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reshuffle._core.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class MeanMap:
    """The affine map c -> c - rate (F'K F c - F'A y), in row-space coordinates, done `repeats` times an epoch.

    Every word in Z begins and ends with features, so Z = F'K F with a small symmetric kernel K in between
    that stays well conditioned however badly X is; the eigenvalues of Z inherit that accuracy.

    Parameters
    ----------
    factor : (q, r)
        F, the features or their triangular factor.
    kernel : (q, q) or (q,)
        K, symmetric; a vector stands for a diagonal.
    pull : (q, rows) or (q,)
        A, through which the responses of the (compressed) rows enter: Xtilde' = n F'A; a vector for a diagonal.
    rate : float
        What Z is multiplied by in one application: B step for an epoch of random reshuffling.
    repeats : int
        Applications in an epoch.
    weight : float
        The largest weight of a row in the gradient: the size of K at small steps, before anything cancels.
    modifier : callable
        b -> Pi_b (r, r), computed when asked for.
    method : str
        "exact", "series" or "sampling".
    error : float
        How far the rate of each mode may be off, relative to that rate. For the series a bound, in the strong
        sense |v'(Z - true Z) v| <= error v'Z v for every v; for sampling so many standard errors of the worst mode.
    pull_error : float
        A bound on the Frobenius norm of the error of rate F'A, for the series.
    replicas : tuple of MeanMap
        For sampling: the map without each group of draws in turn, from which errors of all answers follow.
    """

    factor: FloatArray
    kernel: FloatArray
    pull: FloatArray
    rate: float
    repeats: int
    weight: float
    modifier: Callable[[int], FloatArray]
    method: str = "exact"
    error: float = 0.0
    pull_error: float = 0.0
    replicas: tuple["MeanMap", ...] = ()

    def require_finite(self, steps: int) -> "MeanMap":
        """Return the map itself, or say that its step makes no sense for a product over so many batches."""
        if not (np.isfinite(self.kernel).all() and np.isfinite(self.pull).all()):
            raise OverflowError(
                f"step is so large for these data that products over {steps} batches leave the range of "
                "floating-point numbers; the iterates diverge. Try a step near critical_step(problem, scheme)."
            )
        return self

    def weigh(self, matrix: FloatArray) -> FloatArray:
        """K M, for M of shape (q, m)."""
        return np.asarray(
            self.kernel @ matrix if self.kernel.ndim == 2 else self.kernel[:, np.newaxis] * matrix
        )

    def pulled(self, images: FloatArray) -> FloatArray:
        """M'A (m, rows), for M of shape (q, m)."""
        return np.asarray(images.T @ self.pull if self.pull.ndim == 2 else images.T * self.pull)
