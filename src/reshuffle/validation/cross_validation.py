"""Cross-validation: every fold is predicted by the run on all other rows."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray, IntArray
from reshuffle._progress import track
from reshuffle.validation.leave_one_out import (
    InexactRuns,
    LeftOutResult,
    ValidatedRun,
    residuals_of,
    summed_up,
    weights_of,
)


class Splitter(Protocol):
    """What cuts rows into folds, as scikit-learn's splitters do."""

    def split(self, X: Any, y: Any = None, /) -> Iterable[tuple[ArrayLike, ArrayLike]]:
        """The row numbers to learn from, and those to be predicted, fold by fold."""


Folds: TypeAlias = int | Splitter | Iterable[tuple[ArrayLike, ArrayLike]]


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
        In which sense: "exact", "bound", "three standard errors" or "estimate".
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
