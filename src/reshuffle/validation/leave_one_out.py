"""Leave-one-out: every row is predicted by the run in which its gradient is left out, at any epochs.

`leave_one_out` is the question and `LeaveOneOut` its result. `RowsLeftOut` takes the first method that answers: a
formula (`row_updates`, `shuffled_samples`), one run per row where runs are exact and affordable, or ten folds.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import BoolArray, FloatArray, IntArray
from reshuffle._budget import A_SECOND, CALL, require_affordable, warn, warnings_of
from reshuffle._linalg import few_threads
from reshuffle._progress import track
from reshuffle._uncertainty import CONFIDENCE, ErrorKind, weakest
from reshuffle.epoch.averaging.lattice import Walk, fits_in_memory
from reshuffle.errors import BudgetError
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.schemes.base import Shuffle, Unit, rows_of
from reshuffle.validation import row_updates, shuffled_samples
from reshuffle.validation.contour import LeftOutRows
from reshuffle.validation.cross_validation import (
    KEPT,
    InexactRuns,
    LeftOutResult,
    ValidatedRun,
    residuals_of,
    summed_up,
    weights_of,
)
from reshuffle.validation.row_updates import (
    ErrorOfMeanSquare,
    Lattice,
    LeavesOut,
    LeftOutMaps,
    MeanOverOrders,
    Training,
)
from reshuffle.validation.shuffled_samples import Cavity, DrawnOrders

_ROWS_OF_ERROR = 128
"""Rows from which the error of a formula is told: half of them those with the largest error."""
_FOLDS = 10
"""Into which rows are cut where they cannot be left out one by one."""
_SOME = 10_000
"""Rows that know the test error to a percent of itself or so."""
_PATIENCE = 10
"""Seconds or so that a formula may take where folds are quicker."""
_CALLS = 500
"""Calls with small matrices that a run takes, whatever its size."""
_ROUNDING = 1e-9
"""The mean of a column, relative to its entries, that is no more than rounding."""
_PER_DECADE = 24
"""Epochs of a first search in every power of ten: errors are smooth in the logarithm of the epochs."""
_AT_ONCE = 48
"""Epochs of a finer search between two of them."""


@dataclass(frozen=True, eq=False, repr=False)
class LeaveOneOut(LeftOutResult):
    """Leave-one-out: row i is predicted by the run in which its gradient is left out, all else unchanged.

    The divisors of its batch and the steps stay as they are. Under `GroupReshuffling` samples are left out: each
    row is predicted by the run without its sample. `method` is "exact", "refits" (exact too, run by run), "subset
    sizes" or "cavity" (formulas that neglect little, see `error`), "drawn orders" (the mean over a sample of the
    orders, where the cavity neglects too much), or "10 folds" where there is no other.

    Attributes
    ----------
    epochs : any shape
    mean_square : epochs.shape, or epochs.shape + (t,) for t outputs
        The mean over the rows, weighted by their sample weights if there are any: an estimate of the test error
        E (y - x'b)^2.
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
    problem : LeastSquares
    centred : bool
        Whether rows were left out of the means too.
    """

    problem: LeastSquares
    centred: bool

    @property
    def saturated(self) -> BoolArray:
        """True for the rows (m,) that alone see some direction: they have leverage one."""
        return self.problem.rows_alone(besides_mean=self.centred)[self.rows]


def leave_one_out(
    run: ValidatedRun,
    epochs: ArrayLike,
    *,
    rows: ArrayLike | None = None,
    of_run: bool = False,
    centred: bool = False,
) -> LeaveOneOut:
    """Test error without the truth: every row is predicted by the run in which its gradient is left out.

    All else stays as it is, the divisor of its batch included. Under `GroupReshuffling` samples are left out:
    each row is predicted by the run without its sample. For the full batch, draws with replacement, some
    shuffled batches and orders that are kept it is exact, by a contour integral that costs about as much as the
    modes; for up to 14 to 20 rows that are visited one by one, from all of their orders. For more batches and
    for shuffled samples there are formulas that neglect little, and drawn orders where that is not little;
    everything else is run once per row where that is affordable, and in ten folds where not. `method` tells
    which it was.

    Parameters
    ----------
    epochs : number or array of any shape
    rows : (m,), optional
        The rows to be left out, all by default. For many rows a sample of some thousand will do.
    of_run : bool
        The test error of a single run in place of that of the mean iterate: the spread of predictions over
        orders, as `covariance` knows it, is added.
    centred : bool
        Whether the columns of X and y were centred by their means. Centred rows add up to zero, so that the
        others know the one that is left out: with this, it is left out of the means too (the means as visits
        feel them on average, unless `method` is "refits" or folds). It matters where there are about as many
        columns as rows.

    >>> import reshuffle as rs
    >>> problem = rs.gaussian(100, 20, noise=0.5, seed=1)
    >>> run = rs.descend(problem, rs.RandomReshuffling(batches=4), alpha=1.0)
    >>> run.leave_one_out([1, 10, 100]).mean_square.round(4)
    array([0.391 , 0.2954, 0.2958])
    >>> run.leave_one_out(10, of_run=True)
    LeaveOneOut(mean_square=0.299493 (standard error 0.037), exact)
    """
    run.problem.require_rows("leave_one_out")
    when = run.recipe.epochs(epochs)
    result = RowsLeftOut(run, _arrays.flag("centred", centred)).ask(when, rows)
    return _with_spread(result, run, when) if _arrays.flag("of_run", of_run) else result


def _with_spread(result: LeaveOneOut, run: ValidatedRun, epochs: FloatArray) -> LeaveOneOut:
    """Test error of a single run: that of the mean, plus the variance over orders of its predictions."""
    problem, rows = run.problem, result.rows
    weights = weights_of(problem)[rows]
    covariance = run.covariance(epochs)
    deviation = covariance.deviation(problem.X[rows])
    off = 2 * deviation * covariance.deviation_error(problem.X[rows])
    spread, error = (
        np.asarray(part.sum(axis=epochs.ndim) / weights.sum()) for part in (np.square(deviation), off)
    )
    with np.errstate(invalid="ignore"):
        return replace(
            result,
            mean_square=result.mean_square + spread,
            error=result.error + error,
            error_kind=weakest(result.error_kind, covariance.error_kind if error.any() else "exact"),
        )


@dataclass(frozen=True, eq=False)
class Formula:
    """A formula that leaves out rows, or units of several rows.

    Attributes
    ----------
    name : str
        "exact", "subset sizes", "cavity" or "drawn orders".
    rows : LeavesOut
    error : callable, optional
        Error of a mean square, where the formula is not exact: see `ErrorOfMeanSquare`.
    error_kind : ErrorKind
    sizes : (n,), optional
        Error of each row beside the others.
    unit : int
        Rows that are left out together.
    """

    name: str
    rows: LeavesOut
    error: ErrorOfMeanSquare | None = None
    error_kind: ErrorKind = "exact"
    sizes: FloatArray | None = None
    unit: int = 1


@dataclass(frozen=True, eq=False)
class RowsLeftOut:
    """Rows of a run that are left out one by one.

    Attributes
    ----------
    run : ValidatedRun
    centred : bool
        Whether rows were centred by their mean, so that a row is left out of that too.
    """

    run: ValidatedRun
    centred: bool = False

    def __post_init__(self) -> None:
        n, size = self.run.problem.n, self.run.scheme.rows_per_unit
        if n == size:
            raise ValueError(
                f"leave_one_out needs at least 2 {'samples' if size > 1 else 'rows'}, but X has 1: without it "
                "nothing is learned."
            )
        if self.centred and not is_centred(self.run.problem):
            raise ValueError(
                "centred must be False, since the columns of X and y have means other than zero; subtract these "
                "(weighted, if there are weights), or leave it out."
            )

    def ask(self, epochs: FloatArray, rows: ArrayLike | None = None) -> LeaveOneOut:
        """Leave out some rows, all by default."""
        chosen = _chosen_rows(rows, self.run.problem.n)
        result = self._by_formulas(epochs, chosen) or self._by_runs(epochs, chosen)
        values = {field.name: getattr(result, field.name) for field in fields(result)}
        return LeaveOneOut(**values, problem=self.run.problem, centred=self.centred)

    @cached_property
    def _factors(self) -> FloatArray:
        """Factors (n,) of what leaving out each row changes."""
        problem = self.run.problem
        return centring_factors(problem) if self.centred else np.ones(problem.n)

    @cached_property
    def _formulas(self) -> list[Formula]:
        """The formulas for leaving out rows, the best first; none if none is within the budget."""
        run, recipe, n = self.run, self.run.recipe, self.run.problem.n
        if not recipe.is_constant or recipe.average or recipe.unpenalized:
            return []
        # Formulas leave out single rows, also where batches of whole samples are an equivalent scheme.
        scheme = run.scheme if run.scheme.rows_per_unit > 1 else run.scheme.equivalent(n)
        training = Training(run.problem, scheme, recipe.at(0), run.start, self._factors)
        # Of features that are all zero nothing is learned, and there are no modes to leave anything out of.
        if training.hyperparameters.step == 0 or training.visited_problem.rank == 0:
            return []
        kept = scheme.shuffle is Shuffle.ONCE and not scheme.samples_orders(n)
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                if kept or (scheme.shuffle is Shuffle.NEVER and scheme.steps(n) > 1):
                    return self._orders_kept(training)
                if scheme.shuffle in (Shuffle.NEVER, Shuffle.EVERY_STEP):
                    return [Formula("exact", row_updates.mean_visits(training))]
                if scheme.shuffle is not Shuffle.EVERY_EPOCH:
                    return []
                return self._batches(training) if scheme.unit is Unit.BATCH else self._shuffled(training)
        except (ArithmeticError, np.linalg.LinAlgError):
            # Steps so large that products leave the range of numbers have no modes.
            return []

    def _orders_kept(self, training: Training) -> list[Formula]:
        """Every order that a run may keep."""
        side, n = len(training.roots), training.problem.n
        schemes = training.scheme.timelines(n)
        if len(schemes) * (30.0 * side**3 + 10.0 * n * side**2) > self.run.accuracy.budget:
            return []
        orders = [row_updates.single_order(replace(training, scheme=each)) for each in schemes]
        return [Formula("exact", MeanOverOrders(orders))]

    def _batches(self, training: Training) -> list[Formula]:
        """Fixed batches in random order: by the lattice of their subsets, or the cavity equation."""
        blocks, budget = training.blocks, self.run.accuracy.budget
        lattice = Lattice(training)
        if lattice.is_exact:
            dense = lattice.dense_operations < lattice.contour_operations
            return [Formula("exact", lattice.dense() if dense else lattice.by_subset())]
        if blocks.batches == training.problem.n and shuffled_samples.has_cavity(training):
            return self._shuffled(training)
        if not training.is_symmetric and self._refits_are_affordable(training.problem.n):
            return []
        numbers = 8.0 * len(training.roots) ** 2 * (1 + blocks.batches)
        # Ten folds are quick where batches are many: nobody waits a minute for more.
        patience = min(budget, _PATIENCE * A_SECOND)
        if not fits_in_memory(blocks.batches, numbers) or lattice.walk_operations > patience:
            return []
        made = lattice.by_size()
        return [Formula("subset sizes", made(1.0), lattice.error_by_size(made), "estimate")]

    def _shuffled(self, training: Training) -> list[Formula]:
        """The cavity equation; affordable drawn orders before it where what it neglects is not small."""
        unit, budget = training.scheme.rows_per_unit, self.run.accuracy.budget
        # Groups of centred rows leave their mean in a way that no single number tells.
        if not shuffled_samples.has_cavity(training) or (unit > 1 and self.centred):
            return []
        plain = training.is_symmetric and unit == 1
        # Whoever asks for the choice of the mean may have to wait for the cavity equation.
        has_walk = training.is_symmetric or Walk(training.scheme, training.problem.n).exists
        if not plain and has_walk and self._refits_are_affordable(training.problem.n // unit):
            return []
        found: list[Formula] = []
        try:
            cavity = Cavity(training)
            found.append(Formula("cavity", cavity.left_out(), cavity.error, "estimate", cavity.shares, unit))
        except ArithmeticError:
            cavity = None
        if not plain:
            return found
        # The error is wide where what the cavity neglects is not small, but unknown where rows overshoot.
        knows = cavity is not None and not cavity.overshoots
        orders = shuffled_samples.affordable_orders(
            training, A_SECOND if knows else min(budget, _PATIENCE * A_SECOND)
        )
        if orders:
            drawn = DrawnOrders(training, orders, self.run.accuracy.seed)
            found.append(Formula("drawn orders", drawn, drawn.error, CONFIDENCE, drawn.sizes))
        return found if cavity is None or cavity.is_small else found[::-1]

    def _by_formulas(self, epochs: FloatArray, rows: IntArray) -> LeftOutResult | None:
        """The result of the first formula that knows its error; of the first that has one, if none does.

        With momentum, or where samples have several rows, runs that converge are left to folds then.
        """
        first = None
        for each in self._formulas:
            given = self._by_formula(epochs, rows, each)
            if given is not None and (np.isfinite(given.error) | np.isinf(given.mean_square)).all():
                return given
            first = first or given
        plain = not self.run.recipe.momentum and self.run.scheme.rows_per_unit == 1
        diverges = first is not None and isinstance(each.rows, LeftOutRows) and each.rows.modes.largest > 1
        return first if plain or diverges else None

    def _by_formula(self, epochs: FloatArray, rows: IntArray, found: Formula) -> LeftOutResult | None:
        """None where decay rates of left-out runs are beyond all contours."""
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
            # Beyond the range of numbers there are no rates to be found, which is noticed.
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                return _evaluated(epochs, run.problem, rows, found, converges, self._factors)
        except (ArithmeticError, np.linalg.LinAlgError):
            return None

    def _by_runs(self, epochs: FloatArray, rows: IntArray) -> LeftOutResult:
        """Run by run if that is exact and affordable, otherwise fold by fold."""
        groups, method = self._groups(rows)
        when, problem = np.unique(epochs.ravel()), self.run.problem
        places = np.full(problem.n, -1)
        places[rows] = np.arange(len(rows))
        inexact = InexactRuns(when)
        # All runs together are one question, with one budget and one warning.
        budget, said = self.run.accuracy.budget / len(groups), []

        def predicted(group: IntArray, requested: IntArray) -> FloatArray:
            seen = _centred_by_others(problem, group) if self.centred else problem
            run = self.run.on(seen.without(group), budget=budget)
            inexact.add(run, seen.X[requested])
            return residuals_of(seen, requested, run.iterate(when))

        def residuals() -> Iterator[tuple[IntArray, FloatArray]]:
            for group in track(groups, len(groups), "leaving out rows"):
                # A fold is left out as a whole, whichever of its rows are requested.
                requested = group[places[group] >= 0]
                if len(requested):
                    try:
                        found, words = warnings_of(partial(predicted, group, requested))
                    except BudgetError as refusal:
                        raise BudgetError(
                            f"leave_one_out takes {len(groups)} runs, which have 1 / {len(groups)} of the budget "
                            f"each: {refusal}"
                        ) from None
                    said.extend(words[:1])
                    yield places[requested], found

        result = summed_up(epochs, problem, rows, when, residuals(), method)
        if said:
            warn(f"of {len(groups)} runs that leave out rows, {len(said)} say: {said[0]}")
        return inexact.added_to(result, float(weights_of(problem)[rows].sum()))

    def _groups(self, rows: IntArray) -> tuple[list[IntArray], str]:
        """Rows that are left out at a time, those of a sample always together; and the method's name."""
        run, size = self.run, self.run.scheme.rows_per_unit
        samples, count = np.unique(rows // size), run.problem.n // size
        if self._refits_are_affordable(len(samples)):
            return [rows_of(np.array([sample]), size) for sample in samples], "refits"
        shuffled = np.random.default_rng(run.accuracy.seed).permutation(count)
        folds = np.array_split(shuffled, min(_FOLDS, count))
        return [rows_of(fold, size) for fold in folds], f"{len(folds)} folds"

    def _refits_are_affordable(self, count: int) -> bool:
        """True if so many runs are exact and within the budget."""
        # Known beforehand: nobody needs the mean over the orders of all rows here.
        way = self.run.mean_choice.method
        each = (0.0 if np.isnan(way.operations) else way.operations) + _CALLS * CALL
        return way.name == "exact" and count * each <= self.run.accuracy.budget


def _evaluated(
    epochs: FloatArray,
    problem: LeastSquares,
    rows: IntArray,
    found: Formula,
    converges: bool,
    factors: FloatArray,
) -> LeftOutResult:
    """Leave out rows by a formula, with its error; residuals are multiplied by factors (n,)."""
    when = np.unique(epochs.ravel())
    places = np.full(problem.n, -1)
    places[rows] = np.arange(len(rows))
    with few_threads(np.sqrt(problem.X.size)):
        whole = _residuals(found, rows, when, places, converges, factors)
        result = summed_up(epochs, problem, rows, when, whole, found.name)
        if found.error is None:
            return result
        some, scale = _rows_of_error(rows, found.sizes, len(when) * found.rows.outputs)
        places[:] = -1
        places[some] = np.arange(len(some))

        def residuals(leaving: LeavesOut) -> FloatArray:
            made = np.zeros((len(when), len(some), leaving.outputs))
            changed = replace(found, rows=leaving)
            for place, part in _residuals(changed, some, when, places, converges, factors):
                made[:, place] = part
            return made

        try:
            off = found.error(residuals, scale / weights_of(problem)[rows].sum())
        except ArithmeticError:
            # Rows that are off by as much as they may be leave the contour: nothing is known of them.
            off = np.full((len(when), found.rows.outputs), np.inf)
    back = np.searchsorted(when, epochs.ravel())
    error = np.where(np.isnan(off), np.inf, off)[back].reshape(result.mean_square.shape)
    return replace(result, error=error, error_kind=found.error_kind)


def _rows_of_error(rows: IntArray, sizes: FloatArray | None, numbers: int) -> tuple[IntArray, FloatArray]:
    """Rows from which an error is told, and for how many each stands: the largest for themselves alone."""
    most = max(1, min(_ROWS_OF_ERROR, KEPT // max(numbers, 1)))
    if len(rows) <= most:
        return rows, np.ones(len(rows))
    order = np.arange(len(rows)) if sizes is None else np.argsort(-sizes[rows], kind="stable")
    largest, others = np.split(order, [0 if sizes is None else most // 2])
    chosen = others[np.linspace(0, len(others) - 1, most - len(largest)).round().astype(int)]
    scale = np.concatenate([np.ones(len(largest)), np.full(len(chosen), len(others) / len(chosen))])
    return rows[np.concatenate([largest, chosen])], scale


def _residuals(
    formula: Formula,
    rows: IntArray,
    when: FloatArray,
    places: IntArray,
    converges: bool,
    factors: FloatArray,
) -> Iterator[tuple[IntArray, FloatArray]]:
    """Residuals at finite epochs, and in the limit."""
    finite, leaving = when[np.isfinite(when)], formula.rows
    units = np.unique(rows // formula.unit)
    shape = len(when) - len(finite), len(places) // formula.unit, formula.unit, leaving.outputs
    ends = np.full(shape, np.inf)
    if len(ends) and converges:
        for members, found in leaving.limits(units):
            ends[:, members] = found
    for members, found in leaving.residuals(units, finite):
        mine = rows_of(members, formula.unit)
        both = np.concatenate([found, ends[:, members]]).reshape(len(when), len(mine), -1)
        wanted = places[mine] >= 0
        yield places[mine[wanted]], factors[mine[wanted], np.newaxis] * both[:, wanted]


def _chosen_rows(rows: ArrayLike | None, n: int) -> IntArray:
    """Check row numbers; all rows by default."""
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


def centring_factors(problem: LeastSquares) -> FloatArray:
    """a_i = W / (W - w_i) (n,), for weights w of sum W.

    Centred rows add up to zero, so that all others know the one that is left out; with as many columns as rows
    they predict it perfectly. Centred by the mean of the others row i is a_i x_i, and X'X and X'y of the others are
    those of all rows less a_i x_i x_i' and a_i x_i y_i.
    """
    weights = weights_of(problem)
    return np.asarray(weights.sum() / (weights.sum() - weights))


def is_centred(problem: LeastSquares) -> bool:
    """True if all columns of X and y have a mean of zero, by the weights of the rows."""
    roots = np.sqrt(weights_of(problem))
    for columns in (problem.X, problem.y):
        sizes = np.abs(roots @ np.abs(columns))
        if (np.abs(roots @ columns) > _ROUNDING * sizes).any():
            return False
    return True


def _centred_by_others(problem: LeastSquares, rows: IntArray) -> LeastSquares:
    """The problem of centred rows, centred by the mean of all but some rows instead."""
    roots = np.sqrt(weights_of(problem))
    others = np.setdiff1d(np.arange(problem.n), rows)
    total = np.square(roots[others]).sum()
    X, y = (
        columns - np.multiply.outer(roots, roots[others] @ columns[others] / total)
        for columns in (problem.X, problem.y)
    )
    moved = LeastSquares(X, y)
    moved.sample_weight = problem.sample_weight
    return moved


def epochs_to_search(first: int, last: float, has_limit: bool) -> FloatArray:
    """Whole numbers from the first to the last epoch, evenly spread in their logarithm; and infinity."""
    decades = max(1.0, math.log10(max(last, 1.0)))
    later = np.round(np.geomspace(1, max(last, 1.0), math.ceil(decades * _PER_DECADE)))
    when = np.unique(np.concatenate([[float(first)], later[(later >= first) & (later <= last)]]))
    return np.append(when, np.inf) if has_limit else when


def smallest(ask: Callable[[FloatArray], LeaveOneOut], first: FloatArray) -> list[list[float]]:
    """Search for the smallest mean square at the first epochs (k,), then around the best of them.

    `ask` takes epochs (k,) to leave-one-out. Of each output: the best epoch, and there the mean square, its
    standard error and its error.
    """

    def columns(given: LeaveOneOut) -> FloatArray:
        parts = np.stack([given.mean_square, given.standard_error, given.error])
        return parts if parts.ndim == 3 else parts[..., np.newaxis]

    given = ask(first)
    when, found = given.epochs, columns(given)
    for output in range(found.shape[2]):
        while True:
            best = int(np.argmin(found[0, :, output]))
            sides = when[max(best - 1, 0) : best + 2]
            sides = sides[np.isfinite(sides)]
            inside = np.round(np.linspace(sides[0], sides[-1], _AT_ONCE)) if len(sides) else sides
            between = np.setdiff1d(inside, when)
            if not len(between):
                break
            given = ask(between)
            when, places = np.unique(np.concatenate([when, given.epochs]), return_index=True)
            found = np.concatenate([found, columns(given)], axis=1)[:, places]
    places = np.argmin(found[0], axis=0)
    chosen = found[:, places, np.arange(found.shape[2])]
    each: list[list[float]] = np.column_stack([when[places], *chosen]).tolist()
    return each
