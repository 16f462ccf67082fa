"""Which rows a run is asked to leave out, and how that is done: by a formula, run by run, or by folds."""

from collections.abc import Iterator
from dataclasses import fields, replace

import numpy as np
from numpy.typing import ArrayLike

from reshuffle._core import FloatArray, IntArray, checks
from reshuffle._core.progress import track
from reshuffle.epoch.accuracy import CALL
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.validation import families, leave_one_out
from reshuffle.validation.descent import Descent
from reshuffle.validation.families import Formula
from reshuffle.validation.leave_one_out import LeaveOneOut, LeftOutAnswer
from reshuffle.validation.questions import Learner

_FOLDS = 10
"""Into which rows are cut where they cannot be left out one by one."""
_CALLS = 500
"""Calls with small matrices that a run takes, whatever its size."""


def left_out(run: Learner, epochs: FloatArray, rows: ArrayLike | None, known: Formula | None) -> LeaveOneOut:
    """The residuals of rows that are left out one by one, by the formula that is known for the run, if any."""
    chosen = chosen_rows(rows, run.problem.n)
    if run.problem.n == 1:
        raise ValueError("leave_one_out needs at least 2 rows, but X has 1: without it nothing is learned.")
    given = None if known is None else _by_formula(run, epochs, chosen, known)
    if given is None:
        given = _by_runs(run, epochs, chosen)
    values = {field.name: getattr(given, field.name) for field in fields(given)}
    return LeaveOneOut(**values, problem=run.problem)


def chosen_rows(rows: ArrayLike | None, n: int) -> IntArray:
    """The rows asked for, all by default."""
    if rows is None:
        return np.arange(n)
    chosen = checks.any_array("rows", rows)
    if chosen.ndim != 1 or chosen.dtype.kind not in "iu" or not len(chosen):
        raise ValueError(
            f"rows must be a list of at least one row number, such as [0, 1], but it is {rows!r}."
        )
    for number in (int(chosen.min()), int(chosen.max())):
        checks.whole_number("rows", number, 0, n - 1)
    if len(np.unique(chosen)) < len(chosen):
        raise ValueError("rows must name a row once, but some are there twice.")
    return chosen.astype(np.int64)


def formula(run: Learner) -> Formula | None:
    """The formula for leaving out rows of a run; None if it has none."""
    recipe, n = run.recipe, run.problem.n
    if not recipe.is_constant or recipe.average or recipe.unpenalized:
        return None
    scheme = run.scheme.equivalent(n)
    return families.formula(Descent(run.problem, scheme, recipe.at(0), run.start), run.accuracy.budget)


def _by_formula(run: Learner, epochs: FloatArray, rows: IntArray, found: Formula) -> LeftOutAnswer | None:
    """None where paces of left-out runs are beyond all curves."""
    converges = bool(np.isinf(epochs).any()) and run.converges
    try:
        return leave_one_out.by_formula(epochs, run.problem, rows, found, converges)
    except ArithmeticError:
        return None


def _by_runs(run: Learner, epochs: FloatArray, rows: IntArray) -> LeftOutAnswer:
    """Run by run if that is exact and affordable, otherwise fold by fold."""
    price = run.computation.mean.way.operations
    each = (0.0 if np.isnan(price) else price) + _CALLS * CALL
    if run.error_kind == "exact" and len(rows) * each <= run.accuracy.budget:
        groups, method = [np.array([row]) for row in rows], "refits"
    else:
        shuffled = np.random.default_rng(run.accuracy.seed).permutation(run.problem.n)
        groups = np.array_split(shuffled, min(_FOLDS, run.problem.n))
        method = f"{len(groups)} folds"
    when = np.unique(epochs.ravel())
    places = np.full(run.problem.n, -1)
    places[rows] = np.arange(len(rows))

    def residuals() -> Iterator[tuple[IntArray, FloatArray]]:
        for group in track(groups, len(groups), "leaving out rows"):
            # A fold is left out as a whole, whichever of its rows are asked for.
            asked = group[places[group] >= 0]
            if len(asked):
                learned = run.on(run.problem.without(group)).iterate(when)
                yield places[asked], missed(run.problem, asked, learned)

    return leave_one_out.answer(epochs, run.problem, rows, when, residuals(), method)


def missed(problem: LeastSquares, rows: IntArray, parameters: FloatArray) -> FloatArray:
    """y_i - x_i'b (epochs, rows, t) of some rows, for parameters (epochs, p) or (epochs, p, t); inf if b is."""
    features = problem.X[rows]
    columns = parameters if parameters.ndim == 3 else parameters[..., np.newaxis]
    responses = problem.y[rows] if problem.y.ndim == 2 else problem.y[rows, np.newaxis]
    with np.errstate(over="ignore", invalid="ignore"):
        found = responses - features @ columns
    return np.where(np.isfinite(found), found, np.inf)


def with_spread(given: LeaveOneOut, run: Learner, epochs: FloatArray) -> LeaveOneOut:
    """The test error of a single run: that of the mean, and the variance over orders of what runs say of rows."""
    problem, rows = run.problem, given.rows
    weights = leave_one_out.weights_of(problem)[rows]
    covariance = run.covariance(epochs)
    variance = np.square(covariance.deviation(problem.X[rows]))
    off = 2 * covariance.deviation(problem.X[rows]) * covariance.deviation_error(problem.X[rows])
    axis = epochs.ndim
    spread, error = (np.asarray(part.sum(axis=axis) / weights.sum()) for part in (variance, off))
    with np.errstate(invalid="ignore"):
        return replace(given, mean_square=given.mean_square + spread, error=given.error + error)
