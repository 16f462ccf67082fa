"""Cross-validation: every fold is predicted by the run on all other rows; and what it shares with leave-one-out."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray, IntArray
from reshuffle._progress import track
from reshuffle._uncertainty import ErrorKind, significant, weakest, with_error, with_largest_error
from reshuffle.epoch.select import Accuracy, Choice
from reshuffle.errors import BudgetError
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.recipe import Recipe
from reshuffle.schemes.base import Scheme

KEPT = 1 << 26
"""Residuals that are kept at most."""

Residuals: TypeAlias = Iterable[tuple[IntArray, FloatArray]]
"""Places among the rows, some at a time, and their residuals (epochs, rows, t)."""


class ValidatedRun(Protocol):
    """The part of a `Run` that validation uses."""

    problem: LeastSquares
    scheme: Scheme
    recipe: Recipe
    start: FloatArray
    accuracy: Accuracy

    @property
    def converges(self) -> bool:
        """True if the mean iterate has a limit from every start."""

    @property
    def error_kind(self) -> ErrorKind:
        """Kind of the errors of means over orders."""

    @property
    def mean_choice(self) -> Choice:
        """Method of the mean over orders, known before that is taken."""

    @property
    def epochs_worth_a_look(self) -> FloatArray:
        """Epochs up to convergence, and infinity if there is a limit."""

    def on(self, problem: LeastSquares, *, budget: float | None = None) -> "ValidatedRun":
        """A copy of the run on other rows."""

    def iterate(self, epochs: FloatArray) -> FloatArray:
        """Mean iterate, epochs.shape + (p,) or (p, t)."""

    def iterate_error(self, epochs: FloatArray) -> FloatArray:
        """Its error in Euclidean norm, epochs.shape or (..., t)."""

    def training_loss(self, epochs: FloatArray) -> FloatArray:
        """|y - X b|^2 / (2n), epochs.shape or (..., t)."""

    def degrees_of_freedom(self, epochs: FloatArray) -> FloatArray:
        """Sum over the rows of d(x_i'b) / dy_i, epochs.shape."""

    def covariance(self, epochs: FloatArray) -> Any:
        """Spread of single runs around the mean iterate."""


class Splitter(Protocol):
    """An object that cuts rows into folds, as scikit-learn's splitters do."""

    def split(self, X: Any, y: Any = None, /) -> Iterable[tuple[ArrayLike, ArrayLike]]:
        """The row numbers to learn from, and those to be predicted, fold by fold."""


Folds: TypeAlias = int | Splitter | Iterable[tuple[ArrayLike, ArrayLike]]


@dataclass(frozen=True, eq=False, repr=False)
class LeftOutResult:
    """Mean square of the residuals of rows that were left out; the attributes are those of `LeaveOneOut`."""

    epochs: FloatArray
    mean_square: FloatArray
    standard_error: FloatArray
    error: FloatArray
    error_kind: ErrorKind
    method: str
    rows: IntArray
    _kept: FloatArray | None

    @property
    def residuals(self) -> FloatArray:
        """y_i - x_i'b of the run without row i, epochs.shape + (m,) or epochs.shape + (m, t)."""
        if self._kept is None:
            raise BudgetError(
                f"residuals are {self.epochs.size} epochs x {len(self.rows)} rows x outputs, more than "
                f"{KEPT} numbers, and were not kept; ask for fewer epochs, or for some of the rows."
            )
        return self._kept

    def __repr__(self) -> str:
        name = type(self).__name__
        if self.mean_square.size != 1:
            shown = with_largest_error(self.mean_square.shape, self.error, self.error_kind)
            return f"{name}(mean_square {shown}, {self.method})"
        value, error = self.mean_square.item(), self.error.item()
        uncertainty = f" (standard error {significant(self.standard_error.item(), 2)})"
        return f"{name}(mean_square={with_error(value, error, self.error_kind)}{uncertainty}, {self.method})"


@dataclass(frozen=True, eq=False, repr=False)
class CrossValidation(LeftOutResult):
    """The mean square of the residuals of rows that were predicted by the run on other folds.

    Attributes
    ----------
    epochs : any shape
    mean_square : epochs.shape, or epochs.shape + (t,) for t outputs
        The mean over the rows, weighted by their sample weights if there are any.
    standard_error : of the same shape
        Of that mean as an estimate of the test error: the rows are a sample.
    error : of the same shape
        How far the mean itself may be off because it is not computed exactly; 0 where it is.
    error_kind : str
        In which sense: "exact", "bound", "confidence 99%" or "estimate".
    method : str
        How rows were left out.
    rows : (m,)
        Which rows were.
    folds : list of (m,)
        The rows of each fold.
    fold_mean_squares : (folds,) + the shape of mean_square
        That of each fold.
    """

    folds: list[IntArray]
    fold_mean_squares: FloatArray


def cross_validate(run: ValidatedRun, epochs: ArrayLike | None = None, folds: Folds = 5) -> CrossValidation:
    """Test error by folds: each is predicted by the run on all other rows, at all epochs at once.

    Unlike in `leave_one_out` the rows of a fold are taken away: batches are cut anew from the others.

    Parameters
    ----------
    epochs : number or array of any shape, optional
        By default some hundred, evenly spread in their logarithm, until the run has converged; and infinity.
    folds : int, splitter or list of (train, test)
        Into how many parts rows are shuffled, with the seed of the run; or an object with a method
        split(X, y), such as scikit-learn's, or the row numbers of each fold.

    >>> import reshuffle as rs
    >>> problem = rs.gaussian(100, 20, noise=0.5, seed=1)
    >>> run = rs.descend(problem, rs.RandomReshuffling(batch_size=25), alpha=1.0)
    >>> run.cross_validate([1, 10, 100]).mean_square.round(4)
    array([0.5118, 0.3443, 0.3435])
    """
    problem = run.problem
    problem.require_rows("cross_validate")
    requested = run.recipe.epochs(run.epochs_worth_a_look if epochs is None else epochs)
    when = np.unique(requested.ravel())
    cuts = _checked(folds, run)
    rows = np.sort(np.concatenate([test for _, test in cuts]))
    places = np.full(problem.n, -1)
    places[rows] = np.arange(len(rows))
    found: list[tuple[IntArray, FloatArray]] = []
    inexact = InexactRuns(when)

    def residuals() -> Iterator[tuple[IntArray, FloatArray]]:
        for train, test in track(cuts, len(cuts), "cross-validating"):
            alone = _learning_from(run, train)
            inexact.add(alone, problem.X[test])
            found.append((test, residuals_of(problem, test, alone.iterate(when))))
            yield places[test], found[-1][1]

    given = summed_up(requested, problem, rows, when, residuals(), f"{len(cuts)} folds")
    given = inexact.added_to(given, float(weights_of(problem)[rows].sum()))
    values = {field.name: getattr(given, field.name) for field in fields(given)}
    each = [
        summed_up(requested, problem, test, when, [(np.arange(len(test)), part)], "").mean_square
        for test, part in found
    ]
    return CrossValidation(**values, folds=[test for _, test in cuts], fold_mean_squares=np.array(each))


def _learning_from(run: ValidatedRun, rows: IntArray) -> ValidatedRun:
    """The run on some of the rows, of which there must be enough for its batches."""
    try:
        return run.on(run.problem.of_rows(rows))
    except ValueError as misfit:
        raise ValueError(
            f"folds must leave rows that the batches of {run.scheme!r} can be cut from, but one of them leaves "
            f"{len(rows)} of {run.problem.n}: {misfit} Try batch_size in place of batches, or more folds."
        ) from None


def _checked(folds: Folds, run: ValidatedRun) -> list[tuple[IntArray, IntArray]]:
    """The rows to learn from and to predict, fold by fold, where no row is predicted twice."""
    n = run.problem.n
    if isinstance(folds, str):
        raise TypeError(
            f"folds must be a whole number, a splitter or pairs (train, test), but it is {folds!r}."
        )
    if hasattr(folds, "split"):
        folds = list(folds.split(run.problem.X, run.problem.y))
    if not isinstance(folds, Iterable):
        number = _arrays.whole_number("folds", folds, 2, n)
        shuffled = np.random.default_rng(run.accuracy.seed).permutation(n)
        tests = [np.sort(test) for test in np.array_split(shuffled, number)]
        return [(np.setdiff1d(np.arange(n), test), test) for test in tests]
    cuts = [(_rows(train, n), _rows(test, n)) for train, test in folds]
    if not cuts:
        raise ValueError("folds must hold at least one pair (train, test), but there is none.")
    everything = np.concatenate([test for _, test in cuts])
    if len(np.unique(everything)) < len(everything):
        raise ValueError("folds must predict no row twice, but some are in two of them; try leave_one_out.")
    if any(len(np.intersect1d(train, test)) for train, test in cuts):
        raise ValueError("folds must be predicted by other rows, but some are in both parts of a fold.")
    return cuts


def _rows(value: ArrayLike, n: int) -> IntArray:
    numbers = _arrays.any_array("folds", value)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not len(numbers):
        raise ValueError(f"folds must hold row numbers, at least one on either side, but one is {value!r}.")
    for number in (int(numbers.min()), int(numbers.max())):
        _arrays.whole_number("folds", number, 0, n - 1)
    return numbers.astype(np.int64)


def summed_up(
    epochs: FloatArray,
    problem: LeastSquares,
    rows: IntArray,
    when: FloatArray,
    residuals: Residuals,
    method: str,
) -> LeftOutResult:
    """Sum up the residuals (in units of weighted rows) of some rows at ascending epochs, as they come."""
    outputs = 1 if problem.outputs is None else problem.outputs
    weights = weights_of(problem)[rows]
    keeps = len(when) * len(rows) * outputs <= KEPT
    kept = np.zeros((len(when), len(rows), outputs)) if keeps else None
    sums, exponent = np.zeros((3, len(when), outputs)), None
    for place, found in residuals:
        if exponent is None:
            # Squares of squares leave the range of numbers long before the test error does: all are divided by the
            # power of two (epochs, t) next to the largest that is a number.
            sizes = np.where(np.isfinite(found), np.abs(found), 0.0).max(axis=1, initial=0.0)
            exponent = np.frexp(sizes)[1].astype(np.int64)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.square(np.ldexp(found, -exponent[:, np.newaxis]))
            each = squares, weights[place, np.newaxis] * squares, np.square(squares)
            sums += np.stack([part.sum(axis=1) for part in each])
            if kept is not None:
                kept[:, place] = found / np.sqrt(weights[place, np.newaxis])
    total = weights.sum()
    with np.errstate(over="ignore", invalid="ignore"):
        mean = sums[0] / total
        spread = sums[2] - 2 * mean * sums[1] + mean**2 * np.square(weights).sum()
        count = len(rows) / max(len(rows) - 1, 1)
        error = np.sqrt(np.maximum(count * spread, 0.0)) / total
        if exponent is not None:
            mean, error = np.ldexp(mean, 2 * exponent), np.ldexp(error, 2 * exponent)
    mean, error = (np.where(np.isfinite(part), part, np.inf) for part in (mean, error))
    back = np.searchsorted(when, epochs.ravel())
    shape = epochs.shape if problem.outputs is None else (*epochs.shape, outputs)
    mean, error = mean[back].reshape(shape), error[back].reshape(shape)
    if kept is not None:
        tail = (len(rows),) if problem.outputs is None else (len(rows), outputs)
        kept = kept[back].reshape(*epochs.shape, *tail)
    return LeftOutResult(epochs, mean, error, np.zeros(shape), "exact", method, rows, kept)


class InexactRuns:
    """Error of a mean square because the runs that predict the rows are not exact.

    Where an iterate is off by at most e in norm, its predictions of rows X are by at most |X| e, so that a sum S of
    squared residuals is off by at most 2 S^(1/2) A + A^2, where A^2 adds up (|X| e)^2 over the runs.
    """

    def __init__(self, when: FloatArray):
        self._when = when
        self._squares: FloatArray = np.zeros(1)
        self._kind: ErrorKind = "exact"

    def add(self, run: ValidatedRun, X: FloatArray) -> None:
        """Add a run, and the rows (m, p) that it predicts."""
        if run.error_kind != "exact":
            off = float(np.linalg.norm(X, 2)) * run.iterate_error(self._when)
            with np.errstate(over="ignore"):
                self._squares = self._squares + np.square(off)
            self._kind = weakest(self._kind, run.error_kind)

    def added_to(self, result: LeftOutResult, weight: float) -> LeftOutResult:
        """The result with its error, for rows of that weight in all."""
        if self._kind == "exact":
            return result
        places = np.searchsorted(self._when, result.epochs.ravel())
        off = np.sqrt(self._squares[places].reshape(result.mean_square.shape) / weight)
        with np.errstate(over="ignore", invalid="ignore"):
            error = 2 * np.sqrt(result.mean_square) * off + np.square(off)
        return replace(result, error=np.where(np.isfinite(error), error, np.inf), error_kind=self._kind)


def residuals_of(problem: LeastSquares, rows: IntArray, parameters: FloatArray) -> FloatArray:
    """y_i - x_i'b (epochs, rows, t) of some rows, for parameters (epochs, p) or (epochs, p, t); inf if b is."""
    features = problem.X[rows]
    columns = parameters if parameters.ndim == 3 else parameters[..., np.newaxis]
    responses = problem.y[rows] if problem.y.ndim == 2 else problem.y[rows, np.newaxis]
    with np.errstate(over="ignore", invalid="ignore"):
        found = responses - features @ columns
    return np.where(np.isfinite(found), found, np.inf)


def weights_of(problem: LeastSquares) -> FloatArray:
    """Sample weights (n,), ones if there are none."""
    return np.ones(problem.n) if problem.sample_weight is None else problem.sample_weight
