"""Leave-one-out: every row is predicted by the run in which its gradient is left out, at any epochs.

`leave_one_out` is the question and `LeaveOneOut` its result. `RowsLeftOut` takes the first method that answers: a
formula (`row_updates`, `shuffled_samples`), one run per row where runs are exact and affordable, or ten folds.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays, _budget
from reshuffle._arrays import BoolArray, FloatArray, IntArray
from reshuffle._budget import A_SECOND, CALL, require_affordable
from reshuffle._linalg import few_threads, finite_or_inf
from reshuffle._progress import track
from reshuffle._uncertainty import ErrorKind, weakest
from reshuffle.epoch.averaging.lattice import Walk
from reshuffle.epoch.select import LEFT_OUT
from reshuffle.errors import ArgumentError, BudgetError
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.schemes.base import Shuffle, Unit, rows_of
from reshuffle.validation import row_updates, shuffled_samples, single_runs
from reshuffle.validation.classification import Classification, accuracy_of_mean, classification
from reshuffle.validation.contour import LeftOutRows
from reshuffle.validation.cross_validation import KEPT, LeftOutResult, Predictions, row_numbers, summed_up
from reshuffle.validation.mean_step import MeanStep
from reshuffle.validation.row_updates import Ask, Formula, Lattice, LeavesOut, MeanOverOrders, Total, Training

if TYPE_CHECKING:
    from reshuffle.run.run import Run

_ROWS_OF_ERROR = 128
"""Rows from which the error of a formula is estimated: half of them those with the largest error."""
_FOLDS = 10
"""Into which rows are cut where they cannot be left out one by one."""
_SOME = 10_000
"""Rows that know the test error to a percent of itself or so."""
_PATIENCE = 10
"""Seconds or so that a formula may take where folds are quicker."""
_UNCANCELLED = 0.1
"""Share of what rows that are read in chunks change by that does not cancel in their sum."""
_CALLS = 500
"""Calls with small matrices that a run takes, whatever its size."""
_ROUNDING = 1e-9
"""The mean of a column, relative to its entries, that is no more than rounding."""


@dataclass(frozen=True, eq=False, repr=False)
class LeaveOneOut(LeftOutResult):
    """Leave-one-out: row i is predicted by the run in which its gradient is left out, all else unchanged.

    The divisors of its batch and the steps stay as they are. Under `GroupReshuffling` samples are left out: each
    row is predicted by the run without its sample. `method` is "exact", "refits" (exact too, run by run),
    "cavity" (a formula that neglects little, see `error`), "mean step" (as if visits were drawn independently:
    quick for large problems, see `error`), "drawn orders" (the mean over a sample of the orders, where the cavity
    neglects too much), "10 folds" where there is no other, or "divergence" where the mean iterate grows without
    bound and nothing is computed.

    Attributes
    ----------
    epochs : any shape
    mean_square : epochs.shape, or epochs.shape + (t,) for t outputs
        The mean over the rows, weighted by their sample weights if there are any: an estimate of the test error
        E (y - x'b)^2.
    standard_error : of the same shape
        The standard error of that mean as an estimate of the test error: the rows are a sample.
    error : of the same shape
        Numerical error of the mean; 0 where it is computed exactly.
    error_kind : str
        Kind of the error: "exact", "bound", "confidence 99%" or "estimate".
    method : str
        The method by which rows were left out.
    rows : (m,)
        The rows that were left out.
    problem : LeastSquares
    centred : bool
        True if rows were left out of the means too.
    """

    problem: LeastSquares
    centred: bool
    _run: "Run"

    @cached_property
    def classification(self) -> Classification:
        """Accuracy and confusion where y has classes, of single runs and of the mean iterate.

        Two values of y are two classes, and columns of 0 and 1 one each. Runs are simulated when it is first read.
        """
        return classification(self._run, self)

    @property
    def accuracy(self) -> FloatArray:
        """The accuracy to expect of a single run on new rows, of the shape of `epochs`."""
        return self.classification.accuracy

    @property
    def confusion(self) -> FloatArray:
        """The number of rows of each class that a single run takes for each class, epochs.shape + (K, K)."""
        return self.classification.confusion

    @property
    def accuracy_of_mean(self) -> FloatArray:
        """The accuracy of the mean iterate, mostly above that of a single run, of the shape of `epochs`."""
        return accuracy_of_mean(self)

    @property
    def saturated(self) -> BoolArray:
        """True for the rows (m,) that alone see some direction: they have leverage one."""
        return self.problem.rows_alone(besides_mean=self.centred)[self.rows]


def leave_one_out(
    run: "Run",
    epochs: ArrayLike,
    *,
    rows: ArrayLike | None = None,
    of_run: bool = False,
    centred: bool = False,
) -> LeaveOneOut:
    """Test error without the truth: every row is predicted by the run in which its gradient is left out.

    All else stays as it is, the divisor of its batch included. Under `GroupReshuffling` samples are left out:
    each row is predicted by the run without its sample. For the full batch, draws with replacement, some
    shuffled batches and fixed orders it is exact, by a contour integral that costs about as much as the
    modes; for up to 14 to 20 rows that are visited one by one, from all of their orders. For more batches and
    for shuffled samples there are formulas that neglect little, and drawn orders where that is not little;
    everything else is run once per row where that is affordable, and in ten folds where not. `method` says
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
        True if the columns of X and y were centred by their means. Centred rows add up to zero, so that the
        others know the one that is left out: with this, it is left out of the means too (the means as visits
        feel them on average, unless `method` is "refits" or folds). It matters where there are about as many
        columns as rows.

    >>> import reshuffle as rs
    >>> problem = rs.gaussian(100, 20, noise=0.5, seed=1)
    >>> run = rs.descend(problem, rs.RandomReshuffling(batches=4), alpha=1.0)
    >>> run.leave_one_out([1, 10, 100]).mean_square.round(4)
    array([0.391 , 0.2954, 0.2958])
    """
    problem = run.problem
    if _arrays.flag("of_run", of_run) or _arrays.flag("centred", centred):
        problem.require_rows(f"leave_one_out with {'of_run' if of_run else 'centred'}=True")
    if problem.stream is None:
        problem.require_rows("leave_one_out")
    when = run.recipe.epochs(epochs)
    is_usual = rows is None and not centred and run.scheme.unit is Unit.SAMPLE
    result = by_mean_step(run, when) if is_usual else None
    result = result or RowsLeftOut(run, centred).ask(when, rows)
    if not of_run:
        return result
    some = None if rows is None else result.rows
    allowed = run.accuracy.of(LEFT_OUT) * result.standard_error
    parts = single_runs.spread(
        run, when.ravel(), allowed=allowed.reshape(when.size, *problem.y.shape[1:]), rows=some
    )
    spread, error = (part.reshape(result.error.shape) for part in parts[:2])
    kind = weakest(result.error_kind, parts[2] if error.any() else "exact")
    mean, error = result.mean_square + spread, result.error + error
    return replace(result, mean_square=mean, error=error, error_kind=kind)


def by_mean_step(run: "Run", epochs: FloatArray, *, hurried: bool = False) -> LeaveOneOut | None:
    """Leave-one-out of the mean step of a run, with its error; None where another formula is quick or better.

    A `hurried` question takes it also where it knows less than is asked, and the other formula takes seconds.
    """
    mean = MeanStep.of(run)
    found = None if mean is None else RowsLeftOut(mean.run).by_first_formula(mean.times * epochs)
    if mean is None or found is None:
        return None
    error = mean.error(epochs, found, hurried)
    if error is None:
        return None
    return replace(found, epochs=epochs, error=error, error_kind="estimate", method="mean step", _run=run)


class RowsLeftOut:
    """Rows of a run that are left out one by one; of the mean by which they were `centred`, too."""

    def __init__(self, run: "Run", centred: bool = False, *, keeps_changes: bool = False):
        self.centred, self._problem = centred, run.problem
        # A mean iterate that diverges is known to few digits while it has not grown far.
        self.run = run if run.divergence is None else run.relaxed
        self.run.divergence = run.divergence
        # The formula of the last answer; of refits, if wanted, changes of the parameters (epochs, r, t) by row.
        self.taken: Formula | None = None
        self._keeps_changes, self._changes = keeps_changes, dict[int, FloatArray]()
        size = run.scheme.rows_per_unit
        if run.problem.n == size:
            raise ValueError(
                f"leave_one_out needs at least 2 {'samples' if size > 1 else 'rows'}, but X has 1: without it "
                "nothing is learned."
            )
        if centred and not _is_centred(run.problem):
            raise ValueError(
                "centred must be False, since the columns of X and y have means other than zero; subtract these "
                "(weighted, if there are weights), or leave it out."
            )
        self._factors = run.problem.centring_factors if centred else np.ones(run.problem.n)
        self._make = partial(LeaveOneOut, problem=run.problem, centred=centred, _run=run)

    def ask(self, epochs: FloatArray, rows: ArrayLike | None = None) -> LeaveOneOut:
        """Leave out some rows, all by default."""
        chosen = np.arange(self._problem.n) if rows is None else row_numbers("rows", rows, self._problem.n)
        if len(np.unique(chosen)) < len(chosen):
            raise ArgumentError("rows", "name a row once", "some are there twice")
        lost = self.run.has_diverged(epochs)
        # At the start nothing has to be computed.
        found = self._answer(np.where(lost, 0.0, epochs), chosen)
        if not lost.any():
            return found
        _budget.warn("leave_one_out is infinite where the mean iterate diverges.")

        def filled(part: FloatArray) -> FloatArray:
            return np.where(lost.reshape(lost.shape + (1,) * (part.ndim - lost.ndim)), np.inf, part)

        return replace(
            found,
            epochs=epochs,
            mean_square=filled(found.mean_square),
            standard_error=filled(found.standard_error),
            error=filled(found.error),
            error_kind=weakest(found.error_kind, "estimate"),
            method="divergence" if lost.all() else found.method,
            _kept=None if found._kept is None else filled(found._kept),
        )

    def by_first_formula(self, epochs: FloatArray) -> LeaveOneOut | None:
        """Leave out all rows by the first formula; None where it has no answer."""
        rows = np.arange(self._problem.n)
        return self._by_formula(epochs, rows, self._formulas[0]) if self._formulas else None

    def _answer(self, epochs: FloatArray, chosen: IntArray) -> LeaveOneOut:
        """By the first formula that knows its error, or the one that knows most, if none does.

        With momentum, or where samples have several rows, runs that converge are left to folds then.
        """
        problem = self._problem
        if not epochs.any():
            problem.require_rows("leave_one_out at the start")
            missing = problem.compressed.y[chosen] - problem.X[chosen] @ _arrays.columns(self.run.start)
            parts = [(chosen, self._factors[np.newaxis, chosen, np.newaxis] * missing)]
            return summed_up(self._make, epochs, problem, chosen, parts, "exact", _no_error)
        found: list[tuple[LeaveOneOut, Formula]] = []
        for formula in self._formulas:
            given = self._by_formula(epochs, chosen, formula)
            if given is None:
                continue
            self.taken = formula
            # Below that there is no need for a better formula.
            allowed = np.inf if formula.is_preferred else self.run.accuracy.of(LEFT_OUT)
            is_known = np.isfinite(given.error) & (given.error <= allowed * given.standard_error)
            if (is_known | np.isinf(given.mean_square)).all():
                return given
            found.append((given, formula))
        with np.errstate(invalid="ignore"):
            sizes = [np.max(given.error / given.standard_error, initial=0.0) for given, _ in found]
        leads = not self.run.recipe.momentum and self.run.scheme.unit is Unit.SAMPLE
        maps = (formula.rows for _, formula in found if isinstance(formula.rows, LeftOutRows))
        knows = leads or np.isfinite(sizes).any() or any(each.modes.largest > 1 for each in maps)
        if found and knows and self._formulas[-1].is_preferred:
            best, self.taken = found[int(np.argmin(np.nan_to_num(sizes, nan=np.inf)))]
            return best
        self.taken = None
        # Before ten runs, a second more is spent on finding out whether there is anything to compute.
        if self.run.divergence is None and (growth := self.run.screened(A_SECOND)) is not None:
            self.run.divergence = growth
            return RowsLeftOut(self.run, self.centred).ask(epochs, chosen)
        return self._by_runs(epochs, chosen)

    def changes(self, epochs: FloatArray, rows: IntArray) -> Iterable[tuple[IntArray, FloatArray]] | None:
        """Rows, some at a time, and b_i - b (epochs, rows, r, t) of the last answer; None of folds.

        In the coordinates of the formula, or those of the row space.
        """
        if self.taken is not None:
            return self.taken.answers(self.taken.rows, rows, epochs, changes=True)
        if not self._changes:
            return None
        return [(rows, np.stack([self._changes[row] for row in rows.tolist()], axis=1))]

    def _read(self, members: IntArray) -> tuple[FloatArray, FloatArray]:
        """X (m, p) and y (m, t) of some of the rows that are in memory."""
        if self._problem.stream is None:
            return self._problem.X[members], self._problem.compressed.y[members]
        known, X, y = self._known
        places = np.searchsorted(known, members)
        return X[places], y[places]

    def _pieces(self, rows: IntArray, kept: IntArray) -> Iterator[IntArray]:
        """The rows, some at a time, those that `_read` knows at that time; in the end it knows the `kept` ones."""
        if self._problem.stream is None:
            yield rows
            return
        some, kept = [], np.sort(kept)
        for start, X, y in self._problem.stream.pairs():
            end = start + len(X)
            self._known = np.arange(start, end), X, y
            mine, wanted = (each[(each >= start) & (each < end)] for each in (rows, kept))
            some.append(self._read(wanted))
            if len(mine):
                yield mine
        X, y = (np.concatenate(part) for part in zip(*some, strict=True))
        self._known = kept, X, y

    @cached_property
    def _formulas(self) -> list[Formula]:
        """The formulas for leaving out rows, the best first; none if none is within the budget."""
        run, recipe, n = self.run, self.run.recipe, self._problem.n
        if not recipe.is_constant or recipe.average or recipe.unpenalized or recipe.at(0).step == 0:
            return []
        # Formulas leave out single rows, also where batches of whole samples are an equivalent scheme.
        scheme = run.scheme if run.scheme.rows_per_unit > 1 else run.scheme.equivalent(n)
        kept = scheme.shuffle is Shuffle.ONCE and not scheme.samples_orders(n)
        kept = kept or (scheme.shuffle is Shuffle.NEVER and scheme.steps(n) > 1)
        if not kept and scheme.shuffle not in (Shuffle.NEVER, Shuffle.EVERY_STEP, Shuffle.EVERY_EPOCH):
            return []
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                draws_samples = run.scheme.shuffle is Shuffle.EVERY_EPOCH and run.scheme.unit is Unit.SAMPLE
                if draws_samples and self._problem.stream is not None:
                    return self._independent() if run.scheme.rows_per_unit == 1 else []
                training = Training(run, scheme, self._factors, self._read)
                # Of features that are all zero nothing is learned, and there are no modes to leave anything out of.
                if training.rank == 0:
                    return []
                if kept:
                    orders = [each.order(n) for each in scheme.timelines(n)]
                    side = len(training.roots)
                    price = len(orders) * (30.0 * side**3 + 10.0 * n * side**2)
                    if price > run.accuracy.budget:
                        return []
                    each = [row_updates.single_order(training, order) for order in orders]
                    return [Formula("exact", partial(MeanOverOrders, each), training)]
                if scheme.shuffle is not Shuffle.EVERY_EPOCH:
                    return [Formula("exact", partial(row_updates.mean_visits, training), training)]
                return self._batches(training) if scheme.unit is Unit.BATCH else self._shuffled(training)
        except (ArithmeticError, np.linalg.LinAlgError):
            # Steps so large that products leave the range of numbers have no modes.
            return []

    def _independent(self) -> list[Formula]:
        """Shuffled samples that are read in chunks, as if each visit drew its own.

        The error is the sum of what the answers change by with the weights that carry the error of the mean.
        Changes of rows may cancel by chance, and those of higher order need not cancel with them.
        """
        means = self.run._independent_visits
        made = partial(Training, self.run, means.scheme, self._factors, self._read)

        def error(ask: Ask, total: Total) -> FloatArray:
            here, replicas = ask(formula.rows), (each for _, copies in means.replicas for each in copies)
            changes = (ask(row_updates.mean_visits(made(like=each))) - here for each in replicas)
            sizes = [(np.abs(total(change)), total(np.abs(change))) for change in changes]
            return np.asarray(sum(size + _UNCANCELLED * whole for size, whole in sizes))

        training = made(like=means)
        formula = Formula("cavity", partial(row_updates.mean_visits, training), training, error, "estimate")
        return [formula]

    def _batches(self, training: Training) -> list[Formula]:
        """Fixed batches in random order: the lattice of their subsets if that is quick, else the cavity equation.

        Where its error is not small, the lattice after all, or exact runs, if these are affordable.
        """
        lattice, n, budget = Lattice(training), training.n, self.run.accuracy.budget
        exact = Formula("exact", lattice.updates, training)
        if lattice.operations <= A_SECOND:
            return [exact]
        if self._problem.stream is not None:
            return [exact] if lattice.operations <= budget else []
        if len(training.partition) == n and shuffled_samples.has_cavity(training):
            return self._shuffled(training)
        has_refits = not training.is_symmetric and self._refits_are_affordable(n, budget)
        if has_refits and self._refits_are_affordable(n, A_SECOND):
            return []
        slower = [exact] if lattice.operations <= min(budget, _PATIENCE * A_SECOND) else []
        # The error of the equation does not cover directions that a row alone sees in addition to the mean.
        if self.centred and training.alone.any():
            return slower
        try:
            units = Training(self.run, training.scheme, self._factors, self._read, as_units=True)
            cavity = shuffled_samples.CavityUpdates(units).formula()
        except ArithmeticError:
            return slower
        return [replace(cavity, is_preferred=not (slower or has_refits)), *slower]

    def _shuffled(self, training: Training) -> list[Formula]:
        """The cavity equation; affordable drawn orders before it where what it neglects is not small."""
        unit, accuracy = training.scheme.rows_per_unit, self.run.accuracy
        # Groups of centred rows have no single factor for leaving their mean.
        if not shuffled_samples.has_cavity(training) or (unit > 1 and self.centred):
            return []
        plain = training.is_symmetric and unit == 1
        # Whoever asks for the choice of the mean may have to wait for the cavity equation.
        has_walk = training.is_symmetric or Walk(training.scheme, training.n).exists
        if not plain and has_walk and self._refits_are_affordable(training.n // unit, accuracy.budget):
            return []
        try:
            cavity = shuffled_samples.CavityUpdates(training)
            found = [cavity.formula()]
        except ArithmeticError:
            cavity, found = None, []
        if not plain:
            return found
        # The error is wide where what the cavity neglects is not small, but unknown where rows overshoot.
        knows = cavity is not None and not cavity.overshoots
        patience = A_SECOND if knows else min(accuracy.budget, _PATIENCE * A_SECOND)
        if orders := shuffled_samples.affordable_orders(training, patience):
            found = [replace(each, is_preferred=cavity.is_small) for each in found if cavity is not None]
            found.append(shuffled_samples.DrawnOrders(training, orders, accuracy.seed).formula())
        return found

    def _by_formula(self, epochs: FloatArray, rows: IntArray, formula: Formula) -> LeaveOneOut | None:
        """The result by a formula; None where decay rates of left-out runs are beyond all contours."""
        run, when = self.run, np.unique(epochs.ravel())
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                source = formula.rows
        except (ArithmeticError, np.linalg.LinAlgError):
            # Steps so large that products leave the range of numbers have no modes.
            return None
        if isinstance(source, LeftOutRows):
            require_affordable(
                source.operations(len(rows), when[np.isfinite(when)]), run.accuracy.budget,
                f"leave_one_out of {len(rows)} rows after {len(when)} different epochs",
                (
                    f"some {{rows}}, such as rows=numpy.arange(0, {run.problem.n}, {1 + len(rows) // _SOME})",
                    "fewer epochs",
                    "a larger {budget}",
                ),
            )  # fmt: skip
        some, scale = _rows_of_error(rows, formula.sizes, len(when) * (self._problem.outputs or 1))

        def residuals(source: LeavesOut, pieces: Iterable[IntArray]) -> Iterator[tuple[IntArray, FloatArray]]:
            for rows in pieces:
                for members, found in formula.answers(source, rows, when):
                    yield members, self._factors[members, np.newaxis] * found

        def error(mean: FloatArray, total: float) -> tuple[FloatArray, ErrorKind]:
            if formula.error is None:
                return _no_error(mean, total)
            order = np.argsort(some)

            def squares(source: LeavesOut) -> FloatArray:
                made = np.zeros((len(when), len(some), mean.shape[1]))
                for members, found in residuals(source, [some]):
                    made[:, order[np.searchsorted(some, members, sorter=order)]] = np.square(found)
                return made

            def weighted_sum(squares: FloatArray) -> FloatArray:
                return finite_or_inf(np.einsum("kmt,m->kt", squares, scale / total))

            try:
                return formula.error(squares, weighted_sum), formula.error_kind
            except ArithmeticError:
                # Rows that are off by as much as they may be leave the contour: nothing is known of them.
                return np.full_like(mean, np.inf), formula.error_kind

        try:
            # Beyond the range of numbers there are no rates to be found, which is noticed.
            with (
                np.errstate(over="ignore", invalid="ignore", divide="ignore"),
                few_threads(np.sqrt(run.problem.compressed.X.size)),
            ):
                whole = residuals(source, self._pieces(rows, some))
                return summed_up(self._make, epochs, run.problem, rows, whole, formula.name, error)
        except (ArithmeticError, np.linalg.LinAlgError):
            return None

    def _by_runs(self, epochs: FloatArray, rows: IntArray) -> LeaveOneOut:
        """Run by run if that is exact and affordable, otherwise fold by fold; samples are left out as a whole."""
        self._problem.require_rows("leave_one_out of this recipe")
        run, problem, size = self.run, self._problem, self.run.scheme.rows_per_unit
        samples, count = np.unique(rows // size), problem.n // size
        one_by_one = self._refits_are_affordable(len(samples), run.accuracy.budget)
        if one_by_one:
            groups, method = [rows_of(np.array([sample]), size) for sample in samples], "refits"
        else:
            shuffled = np.random.default_rng(run.accuracy.seed).permutation(count)
            folds = np.array_split(shuffled, min(_FOLDS, count))
            groups, method = [rows_of(fold, size) for fold in folds], f"{len(folds)} folds"
        predictions = Predictions(np.unique(epochs.ravel()))
        # All runs together are one question, with one budget and one warning.
        budget, said = run.accuracy.budget / len(groups), []

        def predicted(group: IntArray, requested: IntArray) -> FloatArray:
            seen = _centred_by_others(problem, group) if self.centred else problem
            alone = run.on(seen.without(group), budget=budget)
            if one_by_one and self._keeps_changes:
                with np.errstate(invalid="ignore"):
                    apart = alone.iterate(predictions.when) - run.iterate(predictions.when)
                    flat = apart.reshape(len(apart), problem.p, -1)
                    change = np.array([problem.row_space.coordinates(each) for each in flat])
                self._changes.update(dict.fromkeys(requested.tolist(), change))
            return predictions.residuals(alone, seen, requested)

        def residuals() -> Iterator[tuple[IntArray, FloatArray]]:
            for group in track(groups, len(groups), "leaving out rows"):
                # A fold is left out as a whole, whichever of its rows are requested.
                requested = group[np.isin(group, rows)]
                if not len(requested):
                    continue
                try:
                    found, words = _budget.warnings_of(partial(predicted, group, requested))
                except BudgetError as refusal:
                    raise BudgetError(
                        f"leave_one_out takes {len(groups)} runs, which have 1 / {len(groups)} of the budget "
                        f"each: {refusal.message}",
                        hint=refusal.hint,
                    ) from None
                said.extend(words[:1])
                yield requested, found

        result = summed_up(self._make, epochs, problem, rows, residuals(), method, predictions.error)
        if said:
            words = f"of {len(groups)} runs that leave out rows, {len(said)} say: {said[0].message}"
            _budget.warn(words, said[0].hint)
        return result

    def _refits_are_affordable(self, count: int, operations: float) -> bool:
        """True if so many runs are exact and take no more operations."""
        # Known beforehand: nobody needs the mean over the orders of all rows here.
        way = self.run.mean_choice.method
        each = (0.0 if np.isnan(way.operations) else way.operations) + _CALLS * CALL
        return way.name == "exact" and count * each <= operations


def _no_error(mean: FloatArray, total: float) -> tuple[FloatArray, ErrorKind]:
    return np.zeros_like(mean), "exact"


def _rows_of_error(rows: IntArray, sizes: FloatArray | None, numbers: int) -> tuple[IntArray, FloatArray]:
    """Rows from which an error is estimated, and their weights: the largest count for themselves alone."""
    most = max(1, min(_ROWS_OF_ERROR, KEPT // max(numbers, 1)))
    if len(rows) <= most:
        return rows, np.ones(len(rows))
    order = np.arange(len(rows)) if sizes is None else np.argsort(-sizes[rows], kind="stable")
    largest, others = np.split(order, [0 if sizes is None else most // 2])
    chosen = others[np.linspace(0, len(others) - 1, most - len(largest)).round().astype(int)]
    scale = np.concatenate([np.ones(len(largest)), np.full(len(chosen), len(others) / len(chosen))])
    return rows[np.concatenate([largest, chosen])], scale


def _is_centred(problem: LeastSquares) -> bool:
    """True if all columns of X and y have a mean of zero, by the weights of the rows."""
    roots = np.sqrt(problem.row_weights)
    return all(
        (np.abs(roots @ part) <= _ROUNDING * (roots @ np.abs(part))).all() for part in (problem.X, problem.y)
    )


def _centred_by_others(problem: LeastSquares, rows: IntArray) -> LeastSquares:
    """The problem of centred rows, centred by the mean of all but some rows instead."""
    roots = np.sqrt(problem.row_weights)
    others = np.setdiff1d(np.arange(problem.n), rows)
    total = np.square(roots[others]).sum()
    X, y = (
        columns - np.multiply.outer(roots, roots[others] @ columns[others] / total)
        for columns in (problem.X, problem.y)
    )
    moved = LeastSquares(X, y)
    moved.sample_weight = problem.sample_weight
    return moved
