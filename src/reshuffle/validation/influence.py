"""Effects of deleting rows on predictions, and prediction intervals from the runs without each row.

Both need the whole left-out parameters b_i(k), not only their prediction of row i. They are the contour integral of
leave-one-out without its projection on x_i (`contour`),

    b_i(k) - b(k) = -(1 / 2 pi i) contour of (1 - w^k) / (1 - w) (w - A)^-1 L C (I - G C)^-1 (alpha - v) dw.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray, IntArray
from reshuffle._budget import require_memory
from reshuffle._linalg import few_threads
from reshuffle._progress import track
from reshuffle._uncertainty import ErrorKind, weakest, with_largest_error
from reshuffle.errors import ArgumentError, UnsupportedError
from reshuffle.problem.least_squares import checked_new_rows
from reshuffle.validation.cross_validation import row_numbers
from reshuffle.validation.leave_one_out import RowsLeftOut
from reshuffle.validation.row_updates import LeavesOut

if TYPE_CHECKING:
    from reshuffle.run.run import Run

_ROWS_OF_ERROR, _NEW_OF_ERROR = 32, 64
"""Rows, half of them those with the largest influence, and new rows from which an error is estimated."""
_MARGIN = 3.0
"""Errors of formulas are those of means over rows: single predictions were off by up to 1.9 times as much in 288
answers of 8 to 18 rows, against runs without each of them."""
_CHUNK = 1 << 22
"""Predictions of left-out runs that are sorted at a time."""


@dataclass(frozen=True, eq=False, repr=False)
class Influence:
    """Changes of predictions when rows are deleted: the prediction without a row less that with it.

    Attributes
    ----------
    epochs : any shape
    values : epochs.shape + (rows, new rows), or + (rows, new rows, t) for t outputs
        inf where the run, or the run without the row, has grown without bound.
    error : epochs.shape, or epochs.shape + (t,)
        Numerical error of any of them: that of rows with the largest influence, and some others.
    error_kind : str
        Kind of the error: "exact", "confidence 99%" or "estimate".
    method : str
        That of `leave_one_out`; "refits" for groups of rows.
    rows : (rows,) or list of (m,)
        The rows, or groups of rows, that were deleted.
    """

    epochs: FloatArray
    values: FloatArray
    error: FloatArray
    error_kind: ErrorKind
    method: str
    rows: IntArray | list[IntArray]

    def __repr__(self) -> str:
        shown = with_largest_error(self.values.shape, self.error, self.error_kind)
        return f"Influence(values {shown}, {self.method})"


@dataclass(frozen=True, eq=False, repr=False)
class PredictionInterval:
    """Intervals that hold the responses of new rows with a given probability.

    Attributes
    ----------
    epochs : any shape
    lower, upper : epochs.shape + (new rows,), or + (new rows, t) for t outputs
        Ends of the intervals; infinite where there are too few rows for the coverage.
    coverage : float
    error : epochs.shape, or epochs.shape + (t,)
        Numerical error of the ends.
    error_kind : str
        Kind of the error: "exact", "confidence 99%" or "estimate".
    method : str
        That of `leave_one_out`.
    """

    epochs: FloatArray
    lower: FloatArray
    upper: FloatArray
    coverage: float
    error: FloatArray
    error_kind: ErrorKind
    method: str

    def __repr__(self) -> str:
        shown = with_largest_error(self.lower.shape, self.error, self.error_kind)
        return f"PredictionInterval(lower and upper {shown}, coverage={self.coverage:g}, {self.method})"


class LeftOutParameters:
    """Changes of the parameters of a run when each of some rows is left out, at the unique epochs (k,)."""

    def __init__(self, run: "Run", epochs: FloatArray, rows: IntArray, question: str):
        problem, self._run, self._rows, self._epochs = run.problem, run, rows, epochs
        self.when = np.unique(epochs.ravel())
        shape = len(self.when), len(rows), problem.rank, problem.outputs or 1
        hint = ("fewer epochs", "some {rows}", "some of the columns of y at a time")
        require_memory(16.0 * math.prod(shape), f"{question} of {len(rows)} rows", hint)
        self._left_out = RowsLeftOut(run, keeps_changes=True)
        self.result = self._left_out.ask(epochs, rows)
        self._formula = self._left_out.taken
        self._lost = run.has_diverged(self.when)
        self._finite = np.where(self._lost, 0.0, self.when)
        self.changes = np.zeros(shape)
        if not self._finite.any():
            return
        parts = self._left_out.changes(self._finite, rows)
        if parts is None:
            raise UnsupportedError(
                f"{question} has no formula for {run!r}, and runs without each of {len(rows)} rows cost more than "
                "the budget; try some rows, a larger budget, or run.without."
            )
        places = np.zeros(problem.n, dtype=np.intp)
        places[rows] = np.arange(len(rows))
        with few_threads(np.sqrt(problem.X.size)):
            for members, found in parts:
                self.changes[:, places[members], : found.shape[2]] = found

    def inside(self, features: FloatArray) -> FloatArray:
        """New rows (new, p) in the coordinates of the changes, (new, r)."""
        if self._formula is not None:
            return self._formula.training.inside(features)
        return self._run.problem.row_space.coordinates(features.T).T

    def predictions(self, inside: FloatArray) -> FloatArray:
        """Changes of predictions (k, rows, new, t) of new rows (new, r) in these coordinates."""
        with np.errstate(invalid="ignore"):
            found = np.einsum("nr,kmrt->kmnt", inside, self.changes[:, :, : inside.shape[1]], optimize=True)
        found[self._lost] = np.inf
        return np.where(np.isnan(found), np.inf, found)

    def error(self, inside: FloatArray) -> tuple[FloatArray, ErrorKind]:
        """Error (k, t) of any of the predictions of new rows (new, r), and its kind."""
        formula, found = self._formula, np.zeros((len(self.when), self.changes.shape[3]))
        found[self._lost] = np.inf
        if formula is None or formula.error is None or not self._finite.any():
            return found, "estimate" if self._lost.any() else "exact"
        order = np.argsort(-np.abs(self.changes).max(axis=(0, 2, 3)), kind="stable")
        largest, others = np.split(order, [_ROWS_OF_ERROR // 2])
        some = np.sort(self._rows[np.concatenate([largest, _spread(others, _ROWS_OF_ERROR // 2)])])
        new = inside[_spread(np.arange(len(inside)), _NEW_OF_ERROR)]

        def ask(source: LeavesOut) -> FloatArray:
            parts = list(formula.answers(source, some, self._finite, changes=True))
            order = np.argsort(np.concatenate([members for members, _ in parts]))
            changes = np.concatenate([part for _, part in parts], axis=1)[:, order]
            return np.asarray(changes.swapaxes(2, 3) @ new.T)

        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                each = _MARGIN * formula.error(ask, lambda answers: answers).max(axis=(1, 3))
        except ArithmeticError:
            each = np.full_like(found, np.inf)
        return np.maximum(found, np.where(np.isnan(each), np.inf, each)), formula.error_kind

    def shaped(self, part: FloatArray) -> FloatArray:
        """An answer (k, ..., t) with the shape of the requested epochs."""
        back = np.searchsorted(self.when, self._epochs.ravel())
        return self._run.problem.squeezed(part[back].reshape(*self._epochs.shape, *part.shape[1:]))


def _spread(places: IntArray, most: int) -> IntArray:
    """At most so many of the places, evenly spread."""
    chosen = np.linspace(0, max(len(places) - 1, 0), min(most, len(places))).round().astype(int)
    return np.asarray(places[np.unique(chosen)])


def influence(
    run: "Run",
    X_new: ArrayLike | None,
    epochs: ArrayLike,
    rows: ArrayLike | Sequence[Sequence[int]] | None = None,
) -> Influence:
    """Change of every prediction when a training row is deleted, at all epochs at once.

    The run without a row is that of `leave_one_out`: its gradient is left out, all else stays as it is. Influence
    functions and TracIn approximate this. Predictions are those of the mean iterate.

    Parameters
    ----------
    X_new : (new rows, p) or None
        None means the new points that a kernel problem was posed with.
    epochs : number or array of any shape
    rows : (m,) or list of lists, optional
        The rows to be deleted one by one, all by default; or groups of rows, each of them deleted as a whole, by a
        run of its own (`without`).

    >>> import reshuffle as rs
    >>> problem = rs.LeastSquares([[1.0], [2.0], [1.0]], [1.0, 2.0, 4.0])
    >>> run = rs.descend(problem, rs.FullBatch(), step=0.1)
    >>> run.influence([[1.0]], float("inf")).values.round(3).tolist()
    [[0.1], [1.0], [-0.5]]
    """
    problem, when = run.problem, run.recipe.epochs(epochs)
    problem.require_rows("influence")
    features = checked_new_rows(X_new, problem)
    groups = list(rows) if isinstance(rows, Iterable) else []
    if any(np.ndim(group) for group in groups):
        return _of_groups(run, features, when, [row_numbers("rows", group, problem.n) for group in groups])
    chosen = np.arange(problem.n) if rows is None else row_numbers("rows", rows, problem.n)
    size = when.size * len(chosen) * len(features) * (problem.outputs or 1)
    words = f"influence of {len(chosen)} rows on {len(features)} predictions"
    require_memory(16.0 * size, words, ("fewer new rows", "some {rows}", "fewer epochs"))
    left_out = LeftOutParameters(run, when, chosen, "influence")
    inside = left_out.inside(features)
    error, kind = left_out.error(inside)
    values, error = (left_out.shaped(part) for part in (left_out.predictions(inside), error))
    return Influence(when, values, error, kind, left_out.result.method, chosen)


def _of_groups(run: "Run", features: FloatArray, epochs: FloatArray, groups: list[IntArray]) -> Influence:
    """Influence of groups of rows, each by a run without it."""
    whole, kind, found, errors = run.predict(features, epochs), run.error_kind, [], []
    size = float(np.linalg.norm(features, axis=1).max(initial=0.0))
    for group in track(groups, len(groups), "deleting groups of rows"):
        alone = run.without(group)
        with np.errstate(invalid="ignore"):
            found.append(alone.predict(features, epochs) - whole)
        kind = weakest(kind, alone.error_kind)
        errors.append(size * (alone.iterate_error(epochs) + run.iterate_error(epochs)))
    values = np.stack(found, axis=epochs.ndim)
    values = np.where(np.isfinite(values), values, np.inf)
    return Influence(epochs, values, np.max(errors, axis=0), kind, "refits", groups)


def prediction_interval(
    run: "Run", X_new: ArrayLike | None, epochs: ArrayLike, coverage: float = 0.9
) -> PredictionInterval:
    """Intervals for the responses of new rows by the jackknife+ of Barber, Candes, Ramdas and Tibshirani (2021).

    With e_i the left-out residual of row i and b_i the run without it, the ends are quantiles over the rows of
    x_new'b_i - |e_i| and x_new'b_i + |e_i|. If rows are exchangeable they hold the response of a new row with
    probability at least 2 coverage - 1, whatever the distribution, and as a rule close to `coverage`. Fewer than
    coverage / (1 - coverage) rows know no finite interval.

    Parameters
    ----------
    X_new : (new rows, p) or None
        None means the new points that a kernel problem was posed with.
    epochs : number or array of any shape
    coverage : float
        Between 0 and 1.

    >>> import reshuffle as rs
    >>> problem = rs.gaussian(100, 5, noise=0.5, seed=1)
    >>> run = rs.descend(problem, rs.RandomReshuffling(batches=4), alpha=1.0)
    >>> found = run.prediction_interval(problem.X[:2], 10)
    >>> found.lower.round(1), found.upper.round(1)
    (array([-0.2, -1.9]), array([ 1.3, -0.3]))
    """
    problem, when = run.problem, run.recipe.epochs(epochs)
    problem.require_rows("prediction_interval")
    features, n = checked_new_rows(X_new, problem), problem.n
    coverage = _arrays.positive("coverage", coverage)
    if coverage >= 1:
        raise ArgumentError("coverage", "be between 0 and 1, such as 0.9", f"it is {coverage:g}")
    left_out = LeftOutParameters(run, when, np.arange(n), "prediction_interval")
    requested, outputs = left_out.when, problem.outputs or 1
    _, first = np.unique(when.ravel(), return_index=True)
    residuals = np.abs(left_out.result.residuals.reshape(when.size, n, outputs)[first])
    inside = left_out.inside(features)
    centres = run.predict(features, requested).reshape(len(requested), len(features), outputs)
    # The smallest bounds below, and as many above, that are left outside.
    outside = min(math.floor((1 - coverage) * (n + 1) * (1 + 1e-12)), n)
    ends = np.stack([np.full_like(centres, -np.inf), np.full_like(centres, np.inf)])
    height = max(1, _CHUNK // max(residuals.size, 1))
    starts = range(0, len(features), height) if outside else ()
    for start in track(starts, len(starts), "prediction intervals, part"):
        part = slice(start, start + height)
        with np.errstate(invalid="ignore"):
            predicted = centres[:, np.newaxis, part] + left_out.predictions(inside[part])
            for end, sign, place in ((ends[0], -1.0, outside - 1), (ends[1], 1.0, n - outside)):
                bounds = predicted + sign * residuals[:, :, np.newaxis]
                bounds[np.isnan(bounds)] = sign * np.inf
                end[:, part] = np.partition(bounds, place, axis=1)[:, place]
    # Ends move by no more than the largest errors of a prediction and of a residual.
    error, kind = left_out.error(np.vstack([inside, left_out.inside(problem.X)[_spread(np.arange(n), 32)]]))
    size = float(np.linalg.norm(features, axis=1).max(initial=0.0))
    error = 2 * error + size * run.iterate_error(requested).reshape(len(requested), -1)
    lower, upper, error = map(left_out.shaped, (*ends, error))
    kind = weakest(kind, run.error_kind)
    return PredictionInterval(when, lower, upper, coverage, error, kind, left_out.result.method)
