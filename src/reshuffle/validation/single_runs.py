"""The part of the test error of single runs that random orders add: exact if that is quick, else by simulation."""

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtrit

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._budget import A_SECOND, CALL, duration, warnings_of
from reshuffle._uncertainty import ErrorKind
from reshuffle.epoch.averaging.lattice import MOST_BATCHES
from reshuffle.errors import BudgetError, UnsupportedError
from reshuffle.simulation import simulated_states

if TYPE_CHECKING:
    from reshuffle.run.run import Run

_RUNS = (12, 100)
"""The fewest and the most runs that are simulated, where no accuracy is asked."""
_FIRST = 6
"""Runs that are simulated first, where their error may be enough: Student's quantile of fewer is large."""
_MISSED = 4.0
"""What few runs may miss of the seldom ones that are far away, relative to what they see, though no more than is
allowed: on 60 problems, heavy tails among them, the errors of 6 runs cover 99.1% with it, and 92% without."""
_DIRECTIONS = 2000
"""Directions in which all runs together deviate: their mean square distance is then known to 5% to 10%, and is a
small share of the test error."""
_QUICK = A_SECOND / 4
"""Operations up to which the covariance of runs is computed, whatever simulating them takes."""
_CALLS = 4.0
"""Calls of numpy that a visit of all simulated runs takes."""


def _count(run: "Run") -> int:
    """Runs to simulate: fewer, where each has many directions to deviate in. Outputs share their orders."""
    return min(max(math.ceil(_DIRECTIONS / max(1, run.problem.rank)), _RUNS[0]), _RUNS[1])


def deviations(run: "Run", epochs: FloatArray) -> FloatArray:
    """Parameters of simulated runs after finite epochs (k,) less their mean, (k, runs, p, t).

    They are enlarged such that the mean of their squares is the variance.
    """
    return _apart(_states(run, epochs, _count(run)))


def _states(run: "Run", epochs: FloatArray, runs: int, block: int = 0) -> FloatArray:
    """Parameters (k, runs, p, t) of simulated runs after finite epochs (k,); other runs in every block."""
    stops, places = np.unique(epochs, return_inverse=True)
    seed = run.accuracy.seed + block
    states = simulated_states(run.problem, run.scheme, run.recipe, run.start, stops, runs, seed, np.copy)
    return np.asarray(states[..., np.newaxis] if run.problem.outputs is None else states.swapaxes(-1, -2))[
        places
    ]


def _apart(states: FloatArray) -> FloatArray:
    """States (k, runs, p, t) less their mean, enlarged as in `deviations`."""
    runs = states.shape[1]
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray((states - states.mean(axis=1, keepdims=True)) * math.sqrt(runs / (runs - 1)))


def spread(
    run: "Run",
    epochs: FloatArray,
    operations: float = math.inf,
    *,
    allowed: FloatArray | float = 0.0,
    rows: IntArray | None = None,
) -> tuple[FloatArray, FloatArray, ErrorKind]:
    """E |X (b - E b)|^2 over the weights of the rows at epochs (k,), its error, and the kind of that.

    Of shape (k,) or (k, t). It is what random orders add to the mean square of residuals, of some `rows` or of all.
    Refused where it takes more than so many operations; few runs are simulated where their error is `allowed`.
    """
    problem, scheme = run.problem, run.scheme
    shape = problem.squeezed(np.zeros((len(epochs), problem.outputs or 1))).shape
    if not scheme.is_random or scheme.steps(problem.n) == 1:
        return np.zeros(shape), np.zeros(shape), "exact"
    weights = problem.row_weights if rows is None else problem.row_weights[rows]
    total, (simulating, computing) = weights.sum(), _prices(run, epochs)
    if min(simulating, computing) > max(operations, _QUICK):
        raise BudgetError(f"the spread of single runs takes {duration(min(simulating, computing))}.")
    if simulating < computing > _QUICK:
        few = _FIRST if np.any(allowed) else 0
        states = np.zeros((len(epochs), 0, problem.p, problem.outputs or 1))
        for block, count in enumerate((few, _count(run) - few) if few else (_count(run),)):
            states = np.concatenate([states, _states(run, epochs, count, block)], axis=1)
            mean, error = (problem.squeezed(part) for part in _mean_square(run, _apart(states), rows))
            if count == few and (error <= allowed).all():
                return mean, np.maximum(error, np.minimum(allowed, _MISSED * mean)), "estimate"
        return mean, error, "estimate"
    squares, error, kind = fitted_variance(run, epochs, rows)
    return squares / total, error / total, kind


def _mean_square(run: "Run", apart: FloatArray, rows: IntArray | None) -> tuple[FloatArray, FloatArray]:
    """The mean of |X (b - E b)|^2 over runs of given deviations, and its error: (k, t) each."""
    problem = run.problem
    weights = problem.row_weights if rows is None else problem.row_weights[rows]
    with np.errstate(invalid="ignore", over="ignore"):
        if rows is None:
            squares = problem.reduction.squares(apart, 2) / weights.sum()
        else:
            squares = np.square(problem.X[rows] @ apart).sum(axis=2) / weights.sum()
        # By Student's quantile: a dozen runs tell little of how much they scatter.
        count = squares.shape[1]
        error = stdtrit(count - 1, 0.995) * squares.std(axis=1, ddof=1) / math.sqrt(count)
        mean, error = (np.where(np.isnan(part), np.inf, part) for part in (squares.mean(axis=1), error))
    return mean, error


def fitted_variance(
    run: "Run", epochs: FloatArray, rows: IntArray | None = None
) -> tuple[FloatArray, FloatArray, ErrorKind]:
    """tr(X Cov X') of single runs at epochs (k,), as `covariance` has it, its error, and the kind of that."""
    covariance = run.covariance(epochs)
    features = run.problem.compressed.X if rows is None else run.problem.X[rows]
    deviation, off = covariance.deviation(features), covariance.deviation_error(features)
    with np.errstate(over="ignore", invalid="ignore"):
        squares, error = np.square(deviation), np.where(off == 0, 0.0, 2 * deviation * off)
        return squares.sum(axis=1), error.sum(axis=1), covariance.error_kind


def _prices(run: "Run", epochs: FloatArray) -> tuple[float, float]:
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
