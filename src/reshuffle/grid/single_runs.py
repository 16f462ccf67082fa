"""What random orders add to the test error of a single run: exact where that is quick, else from simulated runs."""

import math

import numpy as np
from scipy.special import stdtrit

from reshuffle._arrays import FloatArray
from reshuffle._budget import A_SECOND, CALL, duration, warnings_of
from reshuffle._uncertainty import ErrorKind
from reshuffle.epoch.averaging.lattice import MOST_BATCHES
from reshuffle.errors import BudgetError, UnsupportedError
from reshuffle.run import Run
from reshuffle.simulation import simulated_states

_RUNS = (12, 100)
"""The fewest and the most runs that are simulated."""
_DIRECTIONS = 2000
"""Directions in which all runs together deviate: their mean square distance is then known to 5% to 10%, and is a
small share of the test error."""
_QUICK = A_SECOND / 4
"""Operations up to which the covariance of runs is computed, whatever simulating them takes."""
_CALLS = 4.0
"""Calls of numpy that a visit of all simulated runs takes."""


def _count(run: Run) -> int:
    """Runs to simulate: fewer, where each has many directions to deviate in. Outputs share their orders."""
    return min(max(math.ceil(_DIRECTIONS / max(1, run.problem.rank)), _RUNS[0]), _RUNS[1])


def deviations(run: Run, epochs: FloatArray) -> FloatArray:
    """Parameters of simulated runs after finite epochs (k,) less their mean, (k, runs, p, t).

    They are enlarged such that the mean of their squares is the variance.
    """
    problem, runs = run.problem, _count(run)
    stops, places = np.unique(epochs, return_inverse=True)
    states = simulated_states(
        problem, run.scheme, run.recipe, run.start, stops, runs, run.accuracy.seed, np.copy
    )
    states = states[..., np.newaxis] if problem.outputs is None else states.swapaxes(-1, -2)
    with np.errstate(invalid="ignore", over="ignore"):
        apart = states - states.mean(axis=1, keepdims=True)
    return np.asarray(apart[places] * math.sqrt(runs / (runs - 1)))


def spread(
    run: Run, epochs: FloatArray, operations: float = math.inf
) -> tuple[FloatArray, FloatArray, ErrorKind]:
    """E |X (b - E b)|^2 over the weights of the rows at epochs (k,), its error, and the kind of that.

    Of shape (k,) or (k, t). It is what random orders add to the mean square of residuals. Refused where it takes
    more than so many operations.
    """
    problem, scheme = run.problem, run.scheme
    shape = problem.squeezed(np.zeros((len(epochs), problem.outputs or 1))).shape
    if not scheme.is_random or scheme.steps(problem.n) == 1:
        return np.zeros(shape), np.zeros(shape), "exact"
    total, (simulating, computing) = problem.row_weights.sum(), _prices(run, epochs)
    if min(simulating, computing) > max(operations, _QUICK):
        raise BudgetError(f"the spread of single runs takes {duration(min(simulating, computing))}.")
    if simulating < computing > _QUICK:
        apart = deviations(run, epochs)
        squares = problem.reduction.squares(apart, 2) / total
        with np.errstate(invalid="ignore"):
            # By Student's quantile: a dozen runs tell little of how much they scatter.
            count = squares.shape[1]
            error = stdtrit(count - 1, 0.995) * squares.std(axis=1, ddof=1) / math.sqrt(count)
        error = np.where(np.isnan(error), np.inf, error)
        return problem.squeezed(squares.mean(axis=1)), problem.squeezed(error), "estimate"
    squares, error, kind = fitted_variance(run, epochs)
    return squares / total, error / total, kind


def fitted_variance(run: Run, epochs: FloatArray) -> tuple[FloatArray, FloatArray, ErrorKind]:
    """tr(X Cov X') of single runs at epochs (k,), as `covariance` has it, its error, and the kind of that."""
    covariance, rows = run.covariance(epochs), run.problem.compressed.X
    deviation, off = covariance.deviation(rows), covariance.deviation_error(rows)
    with np.errstate(over="ignore", invalid="ignore"):
        squares, error = np.square(deviation), np.where(off == 0, 0.0, 2 * deviation * off)
        return squares.sum(axis=1), error.sum(axis=1), covariance.error_kind


def _prices(run: Run, epochs: FloatArray) -> tuple[float, float]:
    """Operations of simulating runs, and of their covariance; infinite where there is none, or no need to ask."""
    problem, last, outputs = run.problem, float(epochs.max()), run.problem.outputs or 1
    epoch = _CALLS * CALL * run.scheme.steps(problem.n) + 4.0 * problem.n * problem.p * _count(run) * outputs
    if run.scheme.steps(problem.n) > MOST_BATCHES and last * epoch < _QUICK:
        # Beyond these there is no exact covariance, and its price may take the mean map to tell.
        return last * epoch, math.inf
    try:
        choice, _ = warnings_of(lambda: run.second_moment_choice(epochs, given_responses=True))
        computing = choice.method.operations
    except (BudgetError, UnsupportedError):
        computing = math.inf
    return last * epoch, computing * outputs
