"""Cross-validation: every fold is predicted by the run on all other rows; and the result of all validation."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray, IntArray, columns
from reshuffle._display import Displayed
from reshuffle._linalg import spectral_norm
from reshuffle._progress import track
from reshuffle._uncertainty import ErrorKind, significant, weakest, with_error, with_largest_error
from reshuffle.errors import ArgumentError, BudgetError
from reshuffle.problem.least_squares import LeastSquares

if TYPE_CHECKING:
    from reshuffle.run.run import Run

KEPT = 1 << 26
"""The largest number of residuals that are stored."""


class Splitter(Protocol):
    """An object that cuts rows into folds, as scikit-learn's splitters do."""

    def split(self, X: Any, y: Any = None, /) -> Iterable[tuple[ArrayLike, ArrayLike]]:
        """The row numbers to learn from, and those to be predicted, fold by fold."""


Folds: TypeAlias = int | Splitter | Iterable[tuple[ArrayLike, ArrayLike]]


@dataclass(frozen=True, eq=False, repr=False)
class LeftOutResult(Displayed):
    """Mean square of the residuals of rows that were left out; the attributes are those of `LeaveOneOut`."""

    _shown = ("epochs", "mean_square", "standard_error", "error", "error_kind", "method")

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
                f"{KEPT} numbers, and were not stored; ask for fewer epochs, or for some of the rows."
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
    epochs, mean_square, standard_error, error, error_kind, method, rows
        As in `LeaveOneOut`.
    folds : list of (m,)
        The rows of each fold.
    fold_mean_squares : (folds,) + the shape of mean_square
        That of each fold.
    """

    folds: list[IntArray]
    fold_mean_squares: FloatArray


def cross_validate(run: "Run", epochs: ArrayLike | None = None, folds: Folds = 5) -> CrossValidation:
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
    weights, predictions, means = problem.row_weights, Predictions(when), []

    def residuals() -> Iterator[tuple[IntArray, FloatArray]]:
        for train, test in track(cuts, len(cuts), "cross-validating"):
            try:
                alone = run.on(problem.of_rows(train))
            except ValueError as misfit:
                raise ValueError(
                    f"folds must leave rows that the batches of {run.scheme!r} can be cut from, but one leaves "
                    f"{len(train)} of {problem.n}: {misfit} Try batch_size in place of batches, or more folds."
                ) from None
            found = predictions.residuals(alone, problem, test)
            with np.errstate(over="ignore"):
                means.append(np.square(found).sum(axis=1) / weights[test].sum())
            yield test, found

    def made(**values: Any) -> CrossValidation:
        each = np.array(means)[:, np.searchsorted(when, requested.ravel())]
        shape = len(cuts), *requested.shape, *problem.y.shape[1:]
        return CrossValidation(
            **values, folds=[test for _, test in cuts], fold_mean_squares=each.reshape(shape)
        )

    return summed_up(made, requested, problem, rows, residuals(), f"{len(cuts)} folds", predictions.error)


def _checked(folds: Folds, run: "Run") -> list[tuple[IntArray, IntArray]]:
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
    cuts = [(row_numbers("folds", train, n), row_numbers("folds", test, n)) for train, test in folds]
    if not cuts:
        raise ArgumentError("folds", "hold at least one pair (train, test)", "there is none")
    everything = np.concatenate([test for _, test in cuts])
    if len(np.unique(everything)) < len(everything):
        raise ArgumentError("folds", "predict no row twice", "some are in two of them", "try leave_one_out")
    if any(len(np.intersect1d(train, test)) for train, test in cuts):
        raise ArgumentError("folds", "be predicted by other rows", "some are in both parts of a fold")
    return cuts


def row_numbers(name: str, value: ArrayLike, n: int) -> IntArray:
    """Return `value` if it holds numbers of n rows, at least one."""
    numbers = _arrays.any_array(name, value)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not len(numbers):
        raise ArgumentError(name, "hold at least one row number, such as [0, 1]", f"one is {value!r}")
    for number in (int(numbers.min()), int(numbers.max())):
        _arrays.whole_number(name, number, 0, n - 1)
    return numbers.astype(np.intp)


Result = TypeVar("Result", bound=LeftOutResult)


def summed_up(
    make: Callable[..., Result],
    epochs: FloatArray,
    problem: LeastSquares,
    rows: IntArray,
    residuals: Iterable[tuple[IntArray, FloatArray]],
    method: str,
    error: Callable[[FloatArray, float], tuple[FloatArray, ErrorKind]],
) -> Result:
    """The result, made from the fields of `LeftOutResult`, of residuals (epochs, r, t) of some rows (r,) at a time.

    They are in units of weighted rows, at the unique epochs. `error` takes the mean square (epochs, t) and the sum
    of the weights to the error and its kind.
    """
    when, outputs = np.unique(epochs.ravel()), problem.outputs or 1
    places, weights = np.full(problem.n, -1), problem.row_weights
    places[rows] = np.arange(len(rows))
    keeps = len(when) * len(rows) * outputs <= KEPT
    kept = np.zeros((len(when), len(rows), outputs)) if keeps else None
    sums = np.zeros((3, len(when), outputs))
    # Squares of squares leave the range of numbers long before the test error does: in units of the responses (t,).
    exponent = np.frexp(np.abs(problem.compressed.y).max(axis=0))[1].astype(np.intp)
    for members, found in residuals:
        own = weights[members, np.newaxis]
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.square(np.ldexp(found, -exponent))
            sums += np.stack([part.sum(axis=1) for part in (squares, own * squares, np.square(squares))])
            if kept is not None:
                kept[:, places[members]] = found / np.sqrt(own)
    weights = weights[rows]
    total = float(weights.sum())
    with np.errstate(over="ignore", invalid="ignore"):
        mean = sums[0] / total
        spread = sums[2] - 2 * mean * sums[1] + mean**2 * np.square(weights).sum()
        count = len(rows) / max(len(rows) - 1, 1)
        standard_error = np.sqrt(np.maximum(count * spread, 0.0)) / total
        both = (np.ldexp(part, 2 * exponent) for part in (mean, standard_error))
        mean, standard_error = (np.where(np.isfinite(part), part, np.inf) for part in both)
        off, kind = error(mean, total)
    back = np.searchsorted(when, epochs.ravel())

    def shaped(part: FloatArray, *axes: int) -> FloatArray:
        return problem.squeezed(part[back].reshape(*epochs.shape, *axes, outputs))

    return make(
        epochs=epochs, mean_square=shaped(mean), standard_error=shaped(standard_error),
        error=shaped(np.where(np.isfinite(off), off, np.inf)), error_kind=kind, method=method, rows=rows,
        _kept=None if kept is None else shaped(kept, len(rows)),
    )  # fmt: skip


class Predictions:
    """Residuals of rows that runs predict which have not seen them, and the error of their mean square.

    Where an iterate is off by at most e in norm, its predictions of rows X are by at most |X| e, so that a sum S of
    squared residuals is off by at most 2 S^(1/2) A + A^2, where A^2 adds up (|X| e)^2 over the runs.
    """

    def __init__(self, when: FloatArray):
        self.when = when
        self._squares: FloatArray = np.zeros((len(when), 1))
        self._kind: ErrorKind = "exact"

    def residuals(self, run: "Run", problem: LeastSquares, rows: IntArray) -> FloatArray:
        """y_i - x_i'b (epochs, rows, t) of some rows of a problem; inf if b is."""
        features, parameters = problem.X[rows], run.iterate(self.when)
        parameters = parameters.reshape(len(self.when), problem.p, -1)
        with np.errstate(over="ignore", invalid="ignore"):
            if run.error_kind != "exact":
                off = spectral_norm(features) * columns(run.iterate_error(self.when))
                self._squares = self._squares + np.square(off)
                self._kind = weakest(self._kind, run.error_kind)
            found = problem.compressed.y[rows] - features @ parameters
        return np.where(np.isfinite(found), found, np.inf)

    def error(self, mean: FloatArray, weight: float) -> tuple[FloatArray, ErrorKind]:
        """Error of a mean square (epochs, t) of rows with that weight in all, and its kind."""
        if self._kind == "exact":
            return np.zeros_like(mean), "exact"
        off = np.sqrt(self._squares / weight)
        return np.asarray(2 * np.sqrt(mean) * off + np.square(off)), self._kind
