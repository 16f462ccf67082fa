"""Classical estimates of the test error from the training error and the degrees of freedom."""

import warnings

import numpy as np

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle.errors import AccuracyWarning, MissingTruthError
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.validation.questions import Learner


def mallows_cp(run: Learner, epochs: FloatArray, noise: float | None) -> FloatArray:
    """(|y - X b|^2 + 2 noise^2 df) / n."""
    variance = _variance(run.problem) if noise is None else np.square(_arrays.nonnegative("noise", noise))
    freedom = run.degrees_of_freedom(epochs)
    if run.problem.outputs is not None:
        freedom = freedom[..., np.newaxis]
    return np.asarray(2 * run.training_loss(epochs) + 2 * variance * freedom / run.problem.n)


def _variance(problem: LeastSquares) -> FloatArray | float:
    """The noise that the problem knows, or that least squares leaves over, per output."""
    if problem.noise is not None:
        return problem.noise * problem.noise
    left = problem.n - problem.rank
    if left < 1:
        raise MissingTruthError(
            f"mallows_cp needs the noise, of which {problem.n} rows that span {problem.rank} directions leave no "
            "trace; pass noise=..., or ask for leave_one_out."
        )
    return np.asarray(problem.residual_squares / left)


def generalized_cross_validation(run: Learner, epochs: FloatArray) -> FloatArray:
    """|y - X b|^2 / n / (1 - df / n)^2."""
    warnings.warn(
        "generalized cross-validation is not consistent for early-stopped descent, and may be off by a factor "
        "where there are about as many columns as rows; leave_one_out is consistent, and costs about the same.",
        AccuracyWarning,
        stacklevel=3,
    )
    left = 1 - run.degrees_of_freedom(epochs) / run.problem.n
    if run.problem.outputs is not None:
        left = left[..., np.newaxis]
    with np.errstate(divide="ignore", invalid="ignore"):
        found = 2 * run.training_loss(epochs) / np.square(left)
    return np.where(np.isnan(found), np.inf, found)
