"""Criteria from degrees of freedom: Mallows' Cp, generalized cross-validation, the equivalent ridge regression."""

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray, columns
from reshuffle._display import Displayed
from reshuffle._uncertainty import significant
from reshuffle.errors import AccuracyWarning, MissingTruthError

if TYPE_CHECKING:
    from reshuffle.run.run import Run

_ROUNDING = 1e-13
"""The share of all degrees of freedom that may be missing by rounding."""


def mallows_cp(run: "Run", epochs: ArrayLike, *, noise: float | None = None) -> FloatArray:
    """Mallows' Cp, (|y - X b|^2 + 2 noise^2 df) / n: the test error at the same rows with fresh noise.

    It has the shape of `epochs`, or epochs.shape + (t,). Unlike `leave_one_out` it needs the noise, and says
    nothing of new rows.

    Parameters
    ----------
    epochs : number or array of any shape
    noise : float, optional
        Its standard deviation; by default the one the problem knows, or else what least squares leaves over,
        |y - X b_ols|^2 / (n - rank).

    >>> import reshuffle as rs
    >>> problem = rs.gaussian(100, 20, noise=0.5, seed=1)
    >>> rs.descend(problem, rs.RandomReshuffling(batches=4), alpha=1.0).mallows_cp([1, 10, 100]).round(4)
    array([0.3273, 0.2909, 0.2913])
    """
    when, problem = run.recipe.epochs(epochs), run.problem
    variance: FloatArray | float
    if noise is not None:
        variance = _arrays.nonnegative("noise", noise) ** 2
    elif problem.noise is not None:
        variance = problem.noise**2
    elif problem.n > problem.rank:
        variance = np.asarray(problem.residual_squares / (problem.n - problem.rank))
    else:
        raise MissingTruthError(
            f"mallows_cp needs the noise, of which {problem.n} rows that span {problem.rank} directions leave no "
            "trace; pass noise=..., or ask for leave_one_out."
        )
    freedom = run.degrees_of_freedom(when).reshape(when.shape + (1,) * (problem.outputs is not None))
    return np.asarray(2 * run.training_loss(when) + 2 * variance * freedom / problem.n)


def generalized_cross_validation(run: "Run", epochs: ArrayLike) -> FloatArray:
    """GCV, |y - X b|^2 / n / (1 - df / n)^2, of the shape of `epochs`, with a warning.

    It is not consistent for early-stopped descent: the residuals of rows of different leverage are not shrunk
    alike (Patil, Wu and Tibshirani, 2024). `leave_one_out` is, and costs about the same.
    """
    warnings.warn(
        "generalized cross-validation is not consistent for early-stopped descent, and may be off by a factor "
        "where there are about as many columns as rows; leave_one_out is consistent, and costs about the same.",
        AccuracyWarning,
        stacklevel=2,
    )
    when, problem = run.recipe.epochs(epochs), run.problem
    freedom = run.degrees_of_freedom(when).reshape(when.shape + (1,) * (problem.outputs is not None))
    left = 1 - freedom / problem.n
    with np.errstate(divide="ignore", invalid="ignore"):
        found = 2 * run.training_loss(when) / np.square(left)
    return np.where(np.isnan(found), np.inf, found)


@dataclass(frozen=True, eq=False, repr=False)
class RidgeEquivalent(Displayed):
    """Ridge regression towards the start with the degrees of freedom of a run.

    It minimises |y - X b|^2 / (2n) + penalty |b - start|^2 / 2, and penalty is scikit-learn's alpha over n.

    Attributes
    ----------
    epochs : any shape
    penalty : epochs.shape
        inf where nothing has been learned yet, 0 where the run fits as freely as least squares does.
    degrees_of_freedom : epochs.shape
        The degrees of freedom of both.
    distance : epochs.shape, or epochs.shape + (t,)
        |X (b - b_ridge)| / sqrt(n), the distance of the two fits.
    share : of the same shape
        The distance, relative to |X (b - start)| / sqrt(n), that of the run from its start.
    """

    _shown = ("epochs", "penalty", "degrees_of_freedom", "distance", "share")

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


def ridge_equivalent(run: "Run", epochs: ArrayLike) -> RidgeEquivalent:
    """Ridge regression with the same degrees of freedom, and how far apart the two fits are.

    >>> import reshuffle as rs
    >>> problem = rs.gaussian(100, 20, noise=0.5, seed=1)
    >>> rs.descend(problem, rs.FullBatch(), step=0.1).ridge_equivalent(10)
    RidgeEquivalent(penalty=0.547698: 12.3014 degrees of freedom, fits 0.059 apart)
    """
    problem, requested = run.problem, run.recipe.epochs(epochs)
    when, back = np.unique(requested.ravel(), return_inverse=True)
    freedom, reduction, n = run.degrees_of_freedom(when), problem.reduction, problem.n
    # In the modes of X'X / n, for features over their scale, seen from the start.
    left, singular, right = scipy.linalg.svd(reduction.rows, full_matrices=False, check_finite=False)
    space, values, roots = reduction.space, singular**2 / n, (singular / np.sqrt(n))[:, np.newaxis]
    origin = space.scale * space.coordinates(columns(run.start))
    missing = reduction.response - reduction.rows @ origin
    gradient = singular[:, np.newaxis] * (left.T @ missing) / n
    penalties = np.array([_penalty(values, each) for each in freedom])
    distance, travelled = np.zeros((2, len(when), problem.outputs or 1))
    for number, (penalty, iterate) in enumerate(zip(penalties, run.iterate(when), strict=True)):
        with np.errstate(invalid="ignore", over="ignore"):
            moved = right @ (space.scale * space.coordinates(columns(iterate)) - origin)
            travelled[number] = np.linalg.norm(roots * moved, axis=0)
            distance[number] = np.linalg.norm(
                roots * (moved - gradient / (values + penalty)[:, np.newaxis]), axis=0
            )
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(distance == 0, 0.0, distance / travelled)
    shape = *requested.shape, problem.outputs or 1
    found = (
        problem.squeezed(np.where(np.isnan(part), np.inf, part)[back].reshape(shape))
        for part in (distance, share)
    )
    scaled, freedom = (part[back].reshape(requested.shape) for part in (penalties * space.scale**2, freedom))
    return RidgeEquivalent(requested, scaled, freedom, *found)


def _penalty(values: FloatArray, freedom: float) -> float:
    """Penalty of ridge regression with eigenvalues (r,) and so many degrees of freedom."""
    if not 0 < freedom < (1 - _ROUNDING) * len(values):
        return 0.0 if freedom > 0 or not np.isfinite(freedom) else np.inf
    low = np.log(values.min()) - 45
    high = np.log(values.max()) + np.log(len(values) / freedom) + 1

    def excess(logarithm: float) -> float:
        return float((values / (values + np.exp(logarithm))).sum() - freedom)

    if excess(low) <= 0:
        return 0.0
    # Imported here: of all that a run needs it alone takes a sixth of a second.
    from scipy.optimize import brentq

    return float(np.exp(brentq(excess, low, high, xtol=1e-14)))
