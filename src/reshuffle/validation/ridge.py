"""The ridge regression that a run is about."""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from reshuffle._arrays import FloatArray
from reshuffle._uncertainty import significant
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.validation.questions import Learner

_ROUNDING = 1e-13
"""The share of all degrees of freedom that may be missing by rounding."""


@dataclass(frozen=True, eq=False, repr=False)
class RidgeEquivalent:
    """Ridge regression towards the start with the degrees of freedom of a run.

    It minimises |y - X b|^2 / (2n) + penalty |b - start|^2 / 2, and penalty is scikit-learn's alpha over n.

    Attributes
    ----------
    epochs : any shape
    penalty : epochs.shape
        inf where nothing has been learned yet, 0 where the run fits as freely as least squares does.
    degrees_of_freedom : epochs.shape
        Of both.
    distance : epochs.shape, or epochs.shape + (t,)
        |X (b - b_ridge)| / sqrt(n), how far apart the two fits are.
    share : of the same shape
        The distance, relative to |X (b - start)| / sqrt(n), how far the run has come.
    """

    epochs: FloatArray
    penalty: FloatArray
    degrees_of_freedom: FloatArray
    distance: FloatArray
    share: FloatArray

    def __repr__(self) -> str:
        if self.penalty.size != 1 or self.distance.size != 1:
            return f"RidgeEquivalent(penalty of shape {self.penalty.shape})"
        return (
            f"RidgeEquivalent(penalty={self.penalty.item():.6g}: {self.degrees_of_freedom.item():.6g} degrees of "
            f"freedom, fits {significant(self.distance.item(), 2)} apart)"
        )


def ridge_equivalent(run: Learner, epochs: FloatArray) -> RidgeEquivalent:
    """The ridge regressions with the degrees of freedom of a run, after each of the epochs."""
    when, back = np.unique(epochs.ravel(), return_inverse=True)
    freedom = run.degrees_of_freedom(when)
    ridge = _Ridge(run.problem, run.start)
    penalties = np.array([ridge.penalty(each) for each in freedom])
    space = run.problem.row_space
    outputs = 1 if run.problem.outputs is None else run.problem.outputs
    distance, travelled = np.zeros((2, len(when), outputs))
    for number, (penalty, iterate) in enumerate(zip(penalties, run.iterate(when), strict=True)):
        inside = ridge.turn.T @ (
            space.scale * space.coordinates(_columns(iterate - _like(run.start, iterate)))
        )
        with np.errstate(invalid="ignore", over="ignore"):
            travelled[number] = np.linalg.norm(ridge.roots * inside, axis=0)
            distance[number] = np.linalg.norm(ridge.roots * (inside - ridge.moved(penalty)), axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(distance == 0, 0.0, distance / travelled)
    shape = epochs.shape if run.problem.outputs is None else (*epochs.shape, outputs)
    found = (np.where(np.isnan(part), np.inf, part)[back].reshape(shape) for part in (distance, share))
    penalties, freedom = (part[back].reshape(epochs.shape) for part in (penalties, freedom))
    return RidgeEquivalent(epochs, penalties, freedom, *found)


class _Ridge:
    """Ridge regression in the modes of X'X / n, for features over their scale."""

    def __init__(self, problem: LeastSquares, start: FloatArray):
        reduction, n = problem.reduction, problem.n
        space = reduction.space
        left, singular, right = scipy.linalg.svd(reduction.rows, full_matrices=False, check_finite=False)
        self.values, self.turn = singular**2 / n, right.T
        self.roots = (singular / np.sqrt(n))[:, np.newaxis]
        origin = space.scale * space.coordinates(_columns(start))
        missing = _columns(reduction.response) - reduction.rows @ origin
        self._pulled = (singular[:, np.newaxis] * (left.T @ missing)) / n
        self._unit = space.scale**2

    def penalty(self, freedom: float) -> float:
        """The penalty with so many degrees of freedom."""
        if not 0 < freedom < (1 - _ROUNDING) * len(self.values):
            return 0.0 if freedom > 0 or not np.isfinite(freedom) else np.inf
        low = np.log(self.values.min()) - 45
        high = np.log(self.values.max()) + np.log(len(self.values) / freedom) + 1

        def excess(logarithm: float) -> float:
            return float((self.values / (self.values + np.exp(logarithm))).sum() - freedom)

        if excess(low) <= 0:
            return 0.0
        # Imported here: of all that a run needs it alone takes a sixth of a second.
        from scipy.optimize import brentq

        return float(np.exp(brentq(excess, low, high, xtol=1e-14)) * self._unit)

    def moved(self, penalty: float) -> FloatArray:
        """How far ridge regression is from the start, (r, t)."""
        if np.isinf(penalty):
            return np.zeros_like(self._pulled)
        return np.asarray(self._pulled / (self.values + penalty / self._unit)[:, np.newaxis])


def _columns(array: FloatArray) -> FloatArray:
    return array if array.ndim == 2 else array[:, np.newaxis]


def _like(start: FloatArray, iterate: FloatArray) -> FloatArray:
    return start if start.ndim == iterate.ndim else start[:, np.newaxis]
