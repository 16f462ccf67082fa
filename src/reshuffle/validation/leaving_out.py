"""Which rows a run is asked to leave out, and how that is done: by a formula, run by run, or by folds."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray, IntArray
from reshuffle._progress import track
from reshuffle._uncertainty import ErrorKind, weakest
from reshuffle.epoch import accuracy
from reshuffle.epoch.accuracy import CALL, require_affordable
from reshuffle.errors import BudgetError
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.schemes.base import rows_of
from reshuffle.validation import centred_rows, leave_one_out, which_formula
from reshuffle.validation.descent import Descent
from reshuffle.validation.drawn_orders import DrawnOrders
from reshuffle.validation.leave_one_out import LeaveOneOut, LeftOutAnswer
from reshuffle.validation.leave_one_out_formula import LeftOutRows
from reshuffle.validation.left_out_maps import LeftOutMaps
from reshuffle.validation.questions import Learner
from reshuffle.validation.which_formula import Formula

_FOLDS = 10
"""Into which rows are cut where they cannot be left out one by one."""
_SOME = 10_000
"""Rows that know the test error to a percent of itself or so."""
_CALLS = 500
"""Calls with small matrices that a run takes, whatever its size."""


@dataclass(frozen=True, eq=False)
class LeavingOut:
    """Rows of a run that are left out one by one.

    Attributes
    ----------
    run : Learner
    centred : bool
        Whether rows were centred by their mean, so that a row is left out of that too.
    """

    run: Learner
    centred: bool = False

    def __post_init__(self) -> None:
        n, size = self.run.problem.n, self.run.scheme.rows_per_unit
        if n == size:
            raise ValueError(
                f"leave_one_out needs at least 2 {'samples' if size > 1 else 'rows'}, but X has 1: without it "
                "nothing is learned."
            )
        if self.centred:
            centred_rows.require_centred(self.run.problem)

    def ask(self, epochs: FloatArray, rows: ArrayLike | None = None) -> LeaveOneOut:
        """The residuals of some rows, all by default."""
        chosen = chosen_rows(rows, self.run.problem.n)
        given = self._by_formulas(epochs, chosen) or self._by_runs(epochs, chosen)
        values = {field.name: getattr(given, field.name) for field in fields(given)}
        return LeaveOneOut(**values, problem=self.run.problem, centred=self.centred)

    @cached_property
    def _factors(self) -> FloatArray:
        """What leaving out each row is multiplied by (n,)."""
        problem = self.run.problem
        return centred_rows.factors(problem) if self.centred else np.ones(problem.n)

    @cached_property
    def _formulas(self) -> list[Formula]:
        """The formulas for leaving out rows, the best first."""
        run, recipe = self.run, self.run.recipe
        if not recipe.is_constant or recipe.average or recipe.unpenalized:
            return []
        if run.scheme.rows_per_unit > 1:
            # Formulas leave out single rows, also where batches of whole samples are an equivalent scheme.
            return []
        scheme = run.scheme.equivalent(run.problem.n)
        descent = Descent(run.problem, scheme, recipe.at(0), run.start, self._factors)
        return which_formula.formulas(descent, run.accuracy)

    def _by_formulas(self, epochs: FloatArray, rows: IntArray) -> LeftOutAnswer | None:
        """The answer of the first formula that knows its error; of the first that has an answer, if none does."""
        first = None
        for each in self._formulas:
            given = self._by_formula(epochs, rows, each)
            if given is not None and (np.isfinite(given.error) | np.isinf(given.mean_square)).all():
                return given
            first = first or given
        return first

    def _by_formula(self, epochs: FloatArray, rows: IntArray, found: Formula) -> LeftOutAnswer | None:
        """None where paces of left-out runs are beyond all curves."""
        run = self.run
        if isinstance(found.rows, LeftOutRows):
            when = np.unique(epochs[np.isfinite(epochs)])
            require_affordable(
                found.rows.operations(len(rows), when), run.accuracy.budget,
                f"leave_one_out of {len(rows)} rows after {np.unique(epochs).size} different epochs",
                f"try some of the rows, such as rows=numpy.arange(0, {run.problem.n}, {1 + len(rows) // _SOME}), "
                "fewer epochs, or a larger budget",
            )  # fmt: skip
        # Maps of all rows know where they lead by themselves.
        knows = isinstance(found.rows, LeftOutMaps | DrawnOrders)
        converges = bool(np.isinf(epochs).any()) and (knows or run.converges)
        try:
            # Beyond the range of numbers there are no paces to be found, which is noticed.
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                return leave_one_out.by_formula(epochs, run.problem, rows, found, converges, self._factors)
        except (ArithmeticError, np.linalg.LinAlgError):
            return None

    def _by_runs(self, epochs: FloatArray, rows: IntArray) -> LeftOutAnswer:
        """Run by run if that is exact and affordable, otherwise fold by fold."""
        groups, method = self._groups(rows)
        when, problem = np.unique(epochs.ravel()), self.run.problem
        places = np.full(problem.n, -1)
        places[rows] = np.arange(len(rows))
        inexact = InexactRuns(when)
        # All runs together are one question, with one budget and one warning.
        budget, said = self.run.accuracy.budget / len(groups), []

        def predicted(group: IntArray, asked: IntArray) -> FloatArray:
            seen = centred_rows.by_the_others(problem, group) if self.centred else problem
            learner = self.run.on(seen.without(group), budget=budget)
            inexact.add(learner, seen.X[asked])
            return missed(seen, asked, learner.iterate(when))

        def residuals() -> Iterator[tuple[IntArray, FloatArray]]:
            for group in track(groups, len(groups), "leaving out rows"):
                # A fold is left out as a whole, whichever of its rows are asked for.
                asked = group[places[group] >= 0]
                if len(asked):
                    try:
                        found, words = accuracy.warnings_of(partial(predicted, group, asked))
                    except BudgetError as refusal:
                        raise BudgetError(
                            f"leave_one_out takes {len(groups)} runs, which have 1 / {len(groups)} of the budget "
                            f"each: {refusal}"
                        ) from None
                    said.extend(words[:1])
                    yield places[asked], found

        given = leave_one_out.answer(epochs, problem, rows, when, residuals(), method)
        if said:
            accuracy.warn(f"of {len(groups)} runs that leave out rows, {len(said)} say: {said[0]}")
        return inexact.told(given, float(leave_one_out.weights_of(problem)[rows].sum()))

    def _groups(self, rows: IntArray) -> tuple[list[IntArray], str]:
        """Which rows are left out at a time, and how that is called: those of a sample always together."""
        run, size = self.run, self.run.scheme.rows_per_unit
        # Known beforehand: nobody needs the mean over the orders of all rows here.
        way = run.mean_choice.way
        each = (0.0 if np.isnan(way.operations) else way.operations) + _CALLS * CALL
        samples, count = np.unique(rows // size), run.problem.n // size
        if way.name == "exact" and len(samples) * each <= run.accuracy.budget:
            return [rows_of(np.array([sample]), size) for sample in samples], "refits"
        shuffled = np.random.default_rng(run.accuracy.seed).permutation(count)
        folds = np.array_split(shuffled, min(_FOLDS, count))
        return [rows_of(fold, size) for fold in folds], f"{len(folds)} folds"


class InexactRuns:
    """How far a mean square may be off because the runs that predict the rows are not exact.

    Where an iterate is off by at most e in norm, its predictions of rows X are by at most |X| e, so that a sum S of
    squared residuals is off by at most 2 S^(1/2) A + A^2, where A^2 adds up (|X| e)^2 over the runs.
    """

    def __init__(self, when: FloatArray):
        self._when = when
        self._squares: FloatArray = np.zeros(1)
        self._kind: ErrorKind = "exact"

    def add(self, learner: Learner, X: FloatArray) -> None:
        """A run, and the rows (m, p) that it predicts."""
        if learner.error_kind != "exact":
            off = float(np.linalg.norm(X, 2)) * learner.iterate_error(self._when)
            with np.errstate(over="ignore"):
                self._squares = self._squares + np.square(off)
            self._kind = weakest(self._kind, learner.error_kind)

    def told(self, given: LeftOutAnswer, weight: float) -> LeftOutAnswer:
        """The answer with its error, for rows of that weight in all."""
        if self._kind == "exact":
            return given
        places = np.searchsorted(self._when, given.epochs.ravel())
        off = np.sqrt(self._squares[places].reshape(given.mean_square.shape) / weight)
        with np.errstate(over="ignore", invalid="ignore"):
            error = 2 * np.sqrt(given.mean_square) * off + np.square(off)
        return replace(given, error=np.where(np.isfinite(error), error, np.inf), error_kind=self._kind)


def chosen_rows(rows: ArrayLike | None, n: int) -> IntArray:
    """The rows asked for, all by default."""
    if rows is None:
        return np.arange(n)
    chosen = _arrays.any_array("rows", rows)
    if chosen.ndim != 1 or chosen.dtype.kind not in "iu" or not len(chosen):
        raise ValueError(
            f"rows must be a list of at least one row number, such as [0, 1], but it is {rows!r}."
        )
    for number in (int(chosen.min()), int(chosen.max())):
        _arrays.whole_number("rows", number, 0, n - 1)
    if len(np.unique(chosen)) < len(chosen):
        raise ValueError("rows must name a row once, but some are there twice.")
    return chosen.astype(np.int64)


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
        return replace(
            given,
            mean_square=given.mean_square + spread,
            error=given.error + error,
            error_kind=weakest(given.error_kind, covariance.error_kind if error.any() else "exact"),
        )
