"""The test error without the truth: every row is predicted by the run that has never seen it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from reshuffle._arrays import BoolArray, FloatArray, IntArray
from reshuffle._blas import few_threads
from reshuffle._uncertainty import ErrorKind, significant, with_error, with_largest_error
from reshuffle.errors import BudgetError
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.validation.looks import LeavesOut
from reshuffle.validation.which_formula import Formula

_KEPT = 1 << 26
"""Residuals that are kept at most."""
_LOOKED_AT = 128
"""Rows from which it is told how far a formula may be off: half of them those that are off most."""

Residuals = Iterable[tuple[IntArray, FloatArray]]
"""Places among the rows, some at a time, and their residuals (epochs, rows, t)."""


@dataclass(frozen=True, eq=False, repr=False)
class LeftOutAnswer:
    """The mean square of the residuals of rows that were left out, an estimate of the test error E (y - x'b)^2.

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
    """

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
                f"{_KEPT} numbers, and were not kept; ask for fewer epochs, or for some of the rows."
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
class LeaveOneOut(LeftOutAnswer):
    """Leave-one-out: row i is predicted by the run in which its gradient is left out, all else unchanged.

    The divisors of its batch and the steps stay as they are. Under `GroupReshuffling` samples are left out: each
    row is predicted by the run without its sample. `method` is "exact", "refits" (the same, run by run), "subset
    sizes" or "cavity" (formulas that neglect little, see `error`), "drawn orders" (the mean over a sample of the
    orders, where the cavity neglects too much), or "10 folds" where there is no other.

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
    problem : LeastSquares
    centred : bool
        Whether rows were left out of the means too.
    """

    problem: LeastSquares
    centred: bool

    @property
    def saturated(self) -> BoolArray:
        """Which rows alone see some direction (m,): they have leverage one, and nobody can predict them there."""
        return self.problem.rows_alone(besides_mean=self.centred)[self.rows]


def answer(
    epochs: FloatArray,
    problem: LeastSquares,
    rows: IntArray,
    when: FloatArray,
    residuals: Residuals,
    method: str,
) -> LeftOutAnswer:
    """Sum up the residuals (in units of weighted rows) of some rows at ascending epochs, as they come."""
    outputs = 1 if problem.outputs is None else problem.outputs
    weights = weights_of(problem)[rows]
    keeps = len(when) * len(rows) * outputs <= _KEPT
    kept = np.zeros((len(when), len(rows), outputs)) if keeps else None
    sums, exponent = np.zeros((3, len(when), outputs)), None
    for place, found in residuals:
        if exponent is None:
            # Squares of squares leave the range of numbers long before the test error does.
            exponent = _exponent(found)
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
    return LeftOutAnswer(epochs, mean, error, np.zeros(shape), "exact", method, rows, kept)


def _exponent(residuals: FloatArray) -> IntArray:
    """The power of two (epochs, t) next to the largest of residuals (epochs, rows, t) that are numbers."""
    sizes = np.where(np.isfinite(residuals), np.abs(residuals), 0.0)
    return np.asarray(np.frexp(sizes.max(axis=1, initial=0.0))[1].astype(np.int64))


def weights_of(problem: LeastSquares) -> FloatArray:
    """The sample weights (n,), ones if there are none."""
    return np.ones(problem.n) if problem.sample_weight is None else problem.sample_weight


def by_formula(
    epochs: FloatArray,
    problem: LeastSquares,
    rows: IntArray,
    found: Formula,
    converges: bool,
    factors: FloatArray,
) -> LeftOutAnswer:
    """Leave out rows by a formula, and tell how far it may be off; residuals are multiplied by factors (n,)."""
    when = np.unique(epochs.ravel())
    places = np.full(problem.n, -1)
    places[rows] = np.arange(len(rows))
    with few_threads(np.sqrt(problem.X.size)):
        whole = _residuals(found.rows, rows, when, places, converges, factors)
        given = answer(epochs, problem, rows, when, whole, found.name)
        if found.error is None:
            return given
        some, scale = _looked_at(rows, found.sizes, len(when) * found.rows.outputs)
        places[some] = np.arange(len(some))

        def residuals(leaving: LeavesOut) -> FloatArray:
            made = np.zeros((len(when), len(some), leaving.outputs))
            for place, part in _residuals(leaving, some, when, places, converges, factors):
                made[:, place] = part
            return made

        try:
            off = found.error(residuals, scale / weights_of(problem)[rows].sum())
        except ArithmeticError:
            # Rows that are off by as much as they may be leave the curve: nothing is known of them.
            off = np.full((len(when), found.rows.outputs), np.inf)
    back = np.searchsorted(when, epochs.ravel())
    error = np.where(np.isnan(off), np.inf, off)[back].reshape(given.mean_square.shape)
    return replace(given, error=error, error_kind=found.error_kind)


def _looked_at(rows: IntArray, sizes: FloatArray | None, numbers: int) -> tuple[IntArray, FloatArray]:
    """Rows from which an error is told, and for how many each stands: the largest for themselves alone."""
    most = max(1, min(_LOOKED_AT, _KEPT // max(numbers, 1)))
    if len(rows) <= most:
        return rows, np.ones(len(rows))
    order = np.arange(len(rows)) if sizes is None else np.argsort(-sizes[rows], kind="stable")
    largest, others = np.split(order, [0 if sizes is None else most // 2])
    chosen = others[np.linspace(0, len(others) - 1, most - len(largest)).round().astype(int)]
    scale = np.concatenate([np.ones(len(largest)), np.full(len(chosen), len(others) / len(chosen))])
    return rows[np.concatenate([largest, chosen])], scale


def _residuals(
    leaving: LeavesOut,
    rows: IntArray,
    when: FloatArray,
    places: IntArray,
    converges: bool,
    factors: FloatArray,
) -> Iterator[tuple[IntArray, FloatArray]]:
    """Residuals at finite epochs, and in the limit."""
    finite = when[np.isfinite(when)]
    ends = np.full((len(when) - len(finite), len(places), leaving.outputs), np.inf)
    if len(ends) and converges:
        for members, found in leaving.limits(rows):
            ends[:, members] = found
    for members, found in leaving.residuals(rows, finite):
        both = np.concatenate([found, ends[:, members]])
        yield places[members], factors[members, np.newaxis] * both
