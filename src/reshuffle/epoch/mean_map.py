"""The averaged map of an epoch, as the four small matrices that determine it."""

from collections.abc import Callable
from dataclasses import dataclass

from reshuffle.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class MeanMap:
    """The affine map c -> c - rate (F'K F c - F'A y), in row-space coordinates, done `repeats` times an epoch.

    Every word in Z begins and ends with features, so Z = F'K F with a small symmetric kernel K in between
    that stays well conditioned however badly X is; the eigenvalues of Z inherit that accuracy.

    Parameters
    ----------
    factor : (q, r)
        F, the features or their triangular factor.
    kernel : (q, q)
        K, symmetric.
    pull : (q, rows)
        A, through which the responses of the (compressed) rows enter: Xtilde' = n F'A.
    rate : float
        What Z is multiplied by in one application: B step for an epoch of random reshuffling.
    repeats : int
        Applications in an epoch.
    weight : float
        The largest weight of a row in the gradient: the size of K at small steps, before anything cancels.
    modifier : callable
        b -> Pi_b (r, r), computed when asked for.
    """

    factor: FloatArray
    kernel: FloatArray
    pull: FloatArray
    rate: float
    repeats: int
    weight: float
    modifier: Callable[[int], FloatArray]
