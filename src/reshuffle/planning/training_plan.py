"""A plan for training: step, batch size and stopping epoch by leave-one-out, and what other choices cost."""

import math
import os
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import AnyArray, FloatArray
from reshuffle._display import Displayed, Table, plain
from reshuffle._linalg import few_threads
from reshuffle._uncertainty import factor, plus_minus, significant
from reshuffle.errors import ArgumentError
from reshuffle.grid.metrics import REFUSALS
from reshuffle.planning import programs
from reshuffle.planning.correction import NORMAL, Correction
from reshuffle.planning.loo_grid import RowSpectrum, ridge_left_out
from reshuffle.planning.search import EQUAL, PlannedRecipe, Search
from reshuffle.problem import LeastSquares
from reshuffle.problem.classes import Classes, classes_of
from reshuffle.problem.standardizer import Standardizer
from reshuffle.run import Run, critical_step, descend
from reshuffle.run.critical_steps import CriticalStep
from reshuffle.schemes import SampleReshuffling, base
from reshuffle.schemes.base import Scheme
from reshuffle.simulation import single_run
from reshuffle.validation import single_runs
from reshuffle.validation.classification import Classification

_BATCH_SIZES = (16, 32, 64, 128, 256)
_SHARES = tuple(0.5 * 2.0**-power for power in range(8))
"""Up to half of the safe step, at which the noise of single runs would be without bound."""
_MOST_EPOCHS = 1_000_000_000
_EPOCHS = 80
_RIDGES = 60
_TINY = 1e-11
"""The penalty, relative to the largest eigenvalue, under which ridge is least squares of minimum norm."""
_LARGEST = 1e100
_PLAUSIBLE = 2.0
"""Standard errors within which a test error agrees with what was predicted."""
_QUICK = 1e4
"""Rows times the square of the rank up to which the threshold in mean square takes half a second at most."""
_DETERMINED = 1e-6
"""Share of the variance of y that is left where a column, or all of them, determine it."""
_CLASSES = 20
"""Whole numbers in y, at most, that look like classes."""
_EQUAL_ACCURACY = 0.25
"""Standard errors by which the accuracies of two recipes differ at least, on the same rows, where it matters."""
_FEW = 20
"""Rows below which little is known of the test error."""
_HEAVY = 6.0
"""Kurtosis of residuals with heavy tails: of 30 normal ones it is larger once in a hundred times."""
_RARE, _FAR = 3, 5.0
"""Rows in which a rare column differs from its usual value, at most, and by how many deviations, at least. For 100
rows of digits the interval covers in 80% of splits, and in 97% without such columns."""
_LISTED = 8
"""Columns that a note names."""
_SIMULATED = 10_000
"""Visits of simulated runs that take a third of a second."""
_RUNNERS_UP = 3
"""Runners-up among the choices."""
_JUDGED = 4000
"""Rows that are left out for the accuracy, at most: it is known to half a percent by so many."""


@dataclass(frozen=True)
class SimpleFit(Displayed):
    """Leave-one-out of ordinary least squares or of ridge regression.

    The loss is |y - X b|^2 / (2n) + penalty |b|^2 / 2 on standardized data; n times it is scikit-learn's alpha.
    """

    _shown = ("name", "penalty", "test_error", "standard_error")

    name: str
    penalty: float
    mean_square: float
    standard_error: float
    test_error = property(attrgetter("mean_square"))
    weight_decay = property(attrgetter("penalty"), doc="The penalty, in torch's word.")


@dataclass(frozen=True, eq=False)
class HoldoutCheck(Displayed):
    """The test error of a plan's best recipe on held-out rows, and the one that was predicted.

    All are mean squares over rows and outputs; held-out rows are a sample, so that `found` has a standard error.
    """

    _shown = (
        "predicted", "predicted_error", "found", "found_error", "single_run", "deviations", "agrees", "rows",
    )  # fmt: skip

    predicted: float  # `Plan.test_error`, from the rows that were planned with
    predicted_error: float
    found: float  # of the mean iterate on the held-out rows
    found_error: float
    single_run: float  # of one run that was trained; nan where rows are read in chunks
    of_outputs: FloatArray  # (t,): of the mean iterate, for each output
    rows: int
    accuracy: float = math.nan  # share of the rows that the run tells right, for y of classes

    @property
    def deviations(self) -> float:
        """Difference between found and predicted in standard errors of both."""
        error = float(np.hypot(self.predicted_error, self.found_error))
        difference = self.found - self.predicted
        return difference / error if error else float(np.sign(difference)) * np.inf if difference else 0.0

    @property
    def agrees(self) -> bool:
        """True if the two differ by no more than chance explains, two standard errors."""
        return abs(self.deviations) <= _PLAUSIBLE

    def __repr__(self) -> str:
        return (
            f"HoldoutCheck(predicted {plus_minus(self.predicted, self.predicted_error)}, found "
            f"{plus_minus(self.found, self.found_error)} on {self.rows} rows: "
            f"{'they agree' if self.agrees else 'they differ'})"
        )


@dataclass(frozen=True, eq=False)
class Plan(Displayed):
    """A recommendation for training on given data, chosen by leave-one-out; its repr says it in words.

    Attributes
    ----------
    best : PlannedRecipe
        Of all recipes whose test error is within a thousandth of the smallest, the one with the fewest epochs.
    runners_up : tuple of PlannedRecipe
        The best of every other batch size, penalty and momentum, ranked in the same way: one that is longer may
        have a test error below that of `best`, by less than a thousandth.
    problem : LeastSquares
        The standardized data.
    standardizer : Standardizer
        Centres and scales rows and responses; `standardizer.coefficients` takes parameters back.
    centres : bool
        True if means were subtracted.
    scales : bool
        True if columns were divided by their standard deviation.
    least_squares, ridge : SimpleFit
        Fits without training: ordinary least squares, and ridge with the best penalty.
    batch_sizes : (B,)
    shares : (S,)
        Steps over the safe step of their batch size.
    penalties : (P,)
    epochs : (E,)
        Those that were compared.
    mean_squares : (P, B, S, E)
        Leave-one-out of all of them, as if every batch were drawn afresh from all rows.
    spreads : (P, B, S, E)
        About what the random orders of a single run add.
    safe_steps : (P, B)
        Below which single runs are proven to converge in the mean square, if batches are drawn with replacement.
    names : tuple of str
        Names of the columns of X, if it was a DataFrame.
    correction : Correction
        From the estimate of the best recipe to the test error that is expected of it.
    search : Search
        The grid, from which other recipes are refined.
    classes : (K,) or None
        The labels, if y had classes.
    """

    best: PlannedRecipe
    runners_up: tuple[PlannedRecipe, ...]
    problem: LeastSquares
    standardizer: Standardizer
    centres: bool
    scales: bool
    least_squares: SimpleFit
    ridge: SimpleFit
    batch_sizes: FloatArray
    shares: FloatArray
    penalties: FloatArray
    epochs: FloatArray
    mean_squares: FloatArray
    spreads: FloatArray
    safe_steps: FloatArray
    correction: Correction
    search: Search
    names: tuple[str, ...] = ()
    classes: AnyArray | None = None

    @property
    def data(self) -> SimpleNamespace:
        """Deprecated: `run.problem`, and the fields of `standardizer`."""
        message, made = "plan.data is now plan.standardizer and plan.run.problem.", self.standardizer
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        known = {"problem": self.problem, "is_centred": self.centres, "coefficients": made.coefficients}
        return SimpleNamespace(**known, **{part.name: getattr(made, part.name) for part in fields(made)})

    @property
    def test_error(self) -> float:
        """The test error that is expected of the best recipe, E (y - x'b)^2, over outputs on average.

        Each row is left out of the training, of the means and of the scales, and the estimate is corrected for
        being the smallest of many.
        """
        return self.best.test_error * self.correction.factor

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% interval of the test error: rows are a sample, and so is the choice that they make.

        The error of the best recipe, as a number that was computed, is part of it: it begins at zero where that is
        larger than the estimate.
        """
        half, total, best = self.correction.half_width, self.test_error, self.best
        low = total - math.hypot(total * math.expm1(-half), best.error)
        high = total + math.hypot(total * math.expm1(half), best.error)
        return max(low, 0.0) if best.error < best.test_error else 0.0, high

    @property
    def standard_error(self) -> float:
        """Standard error of the test error: 1.96 of it are half of the interval, about."""
        return math.hypot(self.test_error * self.correction.half_width / NORMAL, self.best.error)

    @property
    def naive_test_error(self) -> float:
        """The estimate by which the best recipe was chosen: too small, since it is the smallest of many."""
        return self.best.test_error

    @property
    def median_absolute_error(self) -> float:
        """The median of |y_i - x_i'b| over rows that are left out: a few far rows do not change it."""
        return self.correction.median_absolute_error

    @cached_property
    def run(self) -> Run:
        """The best recipe on the standardized data, ready for questions.

        It takes the means of centred rows for given: its own `leave_one_out` is smaller than `mean_square`, much
        smaller where columns are as many as rows.
        """
        return descend(self.problem, **self.best.arguments)

    @cached_property
    def classification(self) -> Classification:
        """Accuracy and confusion to expect of a single run of the best recipe on new rows, for y of classes.

        Computed at the first call, from left-out rows: runs are simulated for their spread.
        """
        shuffled = np.random.default_rng(self.run.accuracy.seed).permutation(self.problem.n)
        rows = np.sort(shuffled[:_JUDGED])
        return self.run.leave_one_out(self.best.epochs, rows=rows, centred=self.centres).classification

    @property
    def accuracy(self) -> float:
        """The accuracy that is expected of a single run of the best recipe on new rows, for y of classes."""
        return float(self.classification.accuracy)

    def by_accuracy(self) -> "Plan":
        """Plan for accuracy: of the best recipe and its runners-up, the one whose single runs tell most rows right.

        These are left-out rows. What is within a quarter of a standard error of the highest accuracy is equal, and
        the least test error wins there.
        """
        recipes = (self.best, *self.runners_up)
        plans = [
            replace(self, best=one, runners_up=tuple(other for other in recipes if other is not one))
            for one in recipes
        ]
        highest = max(plans, key=lambda plan: plan.accuracy)
        enough = highest.accuracy - _EQUAL_ACCURACY * float(highest.classification.standard_error)
        return next(plan for plan in plans if plan.accuracy >= enough)

    @cached_property
    def coefficients(self) -> tuple[FloatArray, Any]:
        """Coefficients (p,) or (p, t) of the mean iterate in the units of the data, and the intercept."""
        return self.standardizer.coefficients(self.run.iterate(self.best.epochs))

    @property
    def safe_step(self) -> float:
        """Step at the best batch size below which convergence in the mean square is guaranteed.

        Proven for batches that are drawn with replacement; the threshold, `critical_step`, is often much larger.
        """
        return self.best.step / self.best.share

    @cached_property
    def critical_step(self) -> CriticalStep:
        """The threshold: up to which step single runs of the best recipe converge in the mean square.

        Computed at the first call, since it may take longer than the plan itself.
        """
        known = {name: value for name, value in self.best.arguments.items() if name != "step"}
        return critical_step(self.problem, **known, mean_square=True)

    @cached_property
    def single_run_error(self) -> float:
        """The test error of a single run of the best recipe, with its spread as `run.covariance` has it.

        Computed at the first call, in place of the estimate in `best.spread`.
        """
        run, epochs, problem = self.run, self.best.epochs, self.problem
        spread = run.excess_training_loss(epochs, of_run=True) - run.excess_training_loss(epochs)
        return float(self.best.mean_square + 2 * problem.n * np.mean(spread) / problem.row_weights.sum())

    @cached_property
    def single_run_deviation(self) -> float:
        """Standard deviation of the test error of single runs of the best recipe, over their random orders.

        With e the left-out residuals and d the deviation of a run from the mean iterate, that of
        mean_i ((x_i'd)^2 - 2 e_i x_i'd), over simulated runs.
        """
        problem, best = self.problem, self.best
        if not best.scheme.is_random or best.scheme.steps(problem.n) == 1:
            return 0.0
        (apart,) = single_runs.deviations(self.run, np.array([float(best.epochs)]))
        pull = problem.X.T @ self.search.residuals(best)
        squares = problem.reduction.squares(apart, 1) - 2 * np.einsum("rpt,pt->rt", apart, pull)
        return float(squares.mean(axis=1).std(ddof=1) / problem.row_weights.sum())

    def runs_to_compare(self, share: float = 0.01) -> int:
        """Runs of each of two recipes by which one can tell them apart, if their test errors differ by a share.

        So many that the difference of the two means is two standard errors: 8 (deviation / difference)^2. All runs
        are tested on the same rows.
        """
        difference = _arrays.positive("share", share) * self.best.test_error
        return max(1, math.ceil(2 * (_PLAUSIBLE * self.single_run_deviation / difference) ** 2))

    @cached_property
    def choices(self) -> tuple[tuple[str, PlannedRecipe], ...]:
        """The best recipe, runners-up, and recipes with one number far off, by name, each computed for itself.

        Where that takes too long `is_verified` is False: they are estimates by the mean step.
        """
        best, search = self.best, self.search
        penalty, size, share, when = best.place
        places = {
            "rate too large": (len(self.shares) - 1, when),
            "rate too small": (max(share - 3, 0), when),
            "stopped early": (share, int(np.argmin(np.abs(self.epochs - best.epochs / 4)))),
            "trained too long": (share, int(np.argmin(np.abs(self.epochs - 10 * best.epochs)))),
        }
        others = [("runner-up", other) for other in self.runners_up[:_RUNNERS_UP]]
        for name, (other, epoch) in places.items():
            if (other, epoch) != (share, when):
                recipe = search.screened((penalty, size, other, epoch), best.momentum)
                # The best recipe may stop between two epochs of the grid.
                epochs = best.epochs if epoch == when else recipe.epochs
                others.append((name, replace(recipe, epochs=epochs)))
        if search.is_affordable:
            with few_threads(_side(self.problem)):
                others = [
                    (name, other if other.is_verified else search.refined(other, [other.epochs]))
                    for name, other in others
                ]
        return (("recommended", best), *others)

    @property
    def at_best_epoch(self) -> FloatArray:
        """The test error (B, S) where every step and batch size stops when it is best for it."""
        return np.asarray(self.errors.min(axis=-1))

    @property
    def at_chosen_epoch(self) -> FloatArray:
        """The test error (B, S) where all of them stop after the epochs of the best recipe."""
        return np.asarray(self.errors[..., self.best.place[3]])

    @property
    def errors(self) -> FloatArray:
        """The test error (B, S, E) of all batch sizes, steps and epochs under the penalty of the best recipe."""
        place = self.best.place[0]
        return np.asarray(self.mean_squares[place] + self.spreads[place])

    def check_on(self, X: ArrayLike, y: ArrayLike, *, seed: int = 0) -> HoldoutCheck:
        """Test error of the best recipe on new rows X (m, p) with responses y, and the one that was predicted.

        They are centred and scaled as those were that were planned with. `seed` is that of the order in which the
        single run that is trained visits its rows.

        >>> import reshuffle as rs
        >>> problem = rs.gaussian(300, 10, noise=1.0, seed=0)
        >>> plan = rs.plan(problem.X[:200], problem.y[:200], batch_sizes=[50], epochs=100)
        >>> plan.check_on(problem.X[200:], problem.y[200:]).agrees
        True
        """
        known = None if self.classes is None else Classes.known(self.classes, y)
        new, run = LeastSquares(X, y if known is None else known.targets), self.run
        responses = _arrays.columns(new.y)

        def predicted(parameters: FloatArray) -> FloatArray:
            """Predictions (m, t) of parameters (p,) or (p, t) of the standardized problem."""
            coefficients, intercept = self.standardizer.coefficients(parameters)
            return np.asarray(new.X @ coefficients + intercept).reshape(responses.shape)

        when = np.asarray(float(self.best.epochs))
        found = np.square(responses - predicted(run.iterate(self.best.epochs)))
        seed = _arrays.whole_number("seed", seed, 0)
        single, accuracy = np.full(responses.shape, math.nan), math.nan
        if run.problem.stream is None:
            single = predicted(single_run(run.problem, run.scheme, run.recipe, run.start, when, seed))
            if known is not None:
                decided = known.decide(single.reshape(new.y.shape))
                accuracy = float(np.mean(decided == known.names[known.numbers]))
        rows = found.mean(axis=1)
        return HoldoutCheck(
            predicted=self.test_error,
            predicted_error=self.standard_error,
            found=float(rows.mean()),
            found_error=float(rows.std(ddof=1) / np.sqrt(new.n)) if new.n > 1 else np.inf,
            single_run=float(np.square(responses - single).mean()),
            of_outputs=found.mean(axis=0),
            rows=new.n,
            accuracy=accuracy,
        )

    def to_torch(self, reading: str = "", *, loss: str = "squares") -> str:
        """A program in torch that trains the best recipe once; afterwards `predict(X)` is there.

        The lines `reading` make X and y, as pandas tables; without them the program takes these as they are given.
        What is planned for is the loss "squares". For K classes, the same recipe carries over to "cross_entropy"
        with K times the learning rate, and is stopped by the loss of a tenth of the rows.
        """
        has_classes = _arrays.choice("loss", loss, ("squares", "cross_entropy")) == "cross_entropy"
        return (programs.cross_entropy_program if has_classes else programs.torch_program)(self, reading)

    def to_sklearn(self, reading: str = "") -> str:
        """A program that fits the mean of all such trainings, without training, as a scikit-learn estimator.

        The lines `reading` make X and y; without them the program takes these as they are given.
        """
        return programs.scikit_learn_program(self, reading)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Remarks on guarantee and threshold, edges of the grid, columns that determine y, and y of classes."""
        return (*self._on_the_grid(), *self._on_the_data(), *self._on_uncertainty())

    def _on_uncertainty(self) -> Iterator[str]:
        """Remarks on few rows, heavy tails and the spread of single runs."""
        n, (low, high), best, heavy = self.problem.n, self.interval, self.best, self.correction.kurtosis
        if n < _FEW:
            between = f"between {significant(low, 2)} and {significant(high, 2)}"
            yield f"{n} rows tell little: a test error {between} is all that can be said"
        if heavy > _HEAVY:
            half = f"half of the rows are predicted to within {significant(self.median_absolute_error, 3)}"
            few = f"residuals have heavy tails (kurtosis {significant(heavy, 2)}): a few rows"
            yield f"{few} make most of the mean square; {half}"
        visits = best.scheme.steps(n) * best.epochs * (self.problem.outputs or 1)
        if best.spread and visits <= _SIMULATED and self.problem.stream is None:
            deviation, runs = self.single_run_deviation / best.test_error, self.runs_to_compare()
            vary = f"single runs vary by {significant(100 * deviation, 2)}% of the test error"
            yield f"{vary}: to see that a recipe is 1% better takes {runs} run{'s' * (runs > 1)} of each"

    def _on_the_grid(self) -> Iterator[str]:
        """Remarks on the step and on numbers at an end of the grid towards which the test error still falls."""
        best, problem = self.best, self.problem
        share, safe = significant(best.share, 3), significant(self.safe_step, 3)
        words = f"the step is {share} times {safe}, below which convergence is guaranteed"
        more = "; larger ones may converge, too"
        if best.scheme.steps(problem.n) == 1 and not best.momentum:
            more = " and above which training diverges"
        elif problem.n * problem.rank**2 <= _QUICK:
            with suppress(*REFUSALS):
                threshold = self.critical_step
                more = f"; single runs converge up to {plus_minus(threshold, threshold.error)}"
        yield words + more
        totals, last_words = self.mean_squares + self.spreads, "that was compared: a wider grid may be better"
        # There is nothing beyond no weight decay, and all rows at once.
        has_smaller = (best.penalty > 0, best.batch_size > 1, True)
        has_larger = (True, best.batch_size < problem.n, True)
        for axis, name in enumerate(("weight decay", "batch size", "step")):
            along = totals.min(axis=tuple(other for other in range(4) if other != axis))
            place, last = best.place[axis], len(along) - 1
            if has_smaller[axis] and place == 0 < last and along[1] > (1 + EQUAL) * along[0]:
                yield f"the {name} is the smallest {last_words}"
            if has_larger[axis] and place == last > 0 and along[last - 1] > (1 + EQUAL) * along[last]:
                yield f"the {name} is the largest {last_words}"
        if best.epochs >= self.epochs[-1]:
            yield f"the training is the longest {last_words}"

    def _on_the_data(self) -> Iterator[str]:
        """Remarks on columns that determine y or differ in a few rows, and on y of classes."""
        # Rows that represent others have the same products of columns.
        problem, n, X, y = self.problem, self.problem.n, self.problem.compressed.X, self.problem.compressed.y
        sizes = np.outer(np.square(X).sum(axis=0), np.square(y).sum(axis=0))
        alike = np.divide(np.square(X.T @ y), sizes, out=np.zeros_like(sizes), where=sizes > 0).max(axis=1)
        if columns := np.flatnonzero(alike >= 1 - _DETERMINED).tolist():
            yield f"{self._named(columns, 'alone determine')} y: check for a leak"
        elif self.least_squares.mean_square < _DETERMINED * np.square(y).sum() / n / y.shape[1]:
            yield "the columns of X determine y almost exactly: check that none of them was computed from it"
        has_rows = not problem.is_weighted and problem.stream is None
        share = "plan.accuracy is the share of new rows that a single run should classify correctly"
        if self.classes is not None:
            how = "-1 and 1" if len(self.classes) == 2 else "a column of 0 and 1 each"
            learned = f"y has {len(self.classes)} classes, learned by squared loss as {how}"
            yield f"{learned}: the test error is that of these numbers; {share}"
        elif has_rows and not problem.outputs:
            values = np.unique(np.round(problem.y + self.standardizer.response_mean, 9))
            if len(values) == 2:
                two = f"y is {values[0]:g} or {values[1]:g}: for two classes predict the one that is nearer"
                yield f"{two}; the test error is a mean square; {share}"
            elif 2 < len(values) <= min(_CLASSES, n // 5) and (values == np.round(values)).all():
                yield f"y has {len(values)} values, all whole: if they are classes, plan with classes=True"
        if self.scales and has_rows:
            # A column of unit variance that differs in k rows has an entry of size sqrt(n / k - 1) at least.
            least, X = max(_FAR, 0.9 * math.sqrt(max(n / _RARE - 1, 0))), problem.X
            suspects = np.flatnonzero(np.abs(X).max(axis=0) >= least)
            counts = (np.abs(X[:, suspects] - np.median(X[:, suspects], axis=0)) > _DETERMINED).sum(axis=0)
            if columns := suspects[counts <= _RARE].tolist():
                few = f"{self._named(columns, 'differ')} from the usual value in at most {_RARE} rows"
                far = "new rows that differ there may have errors far above the test error"
                yield f"{few}: {far}; leave out what is so rare"

    def _named(self, columns: list[int], verb: str) -> str:
        """Columns of X by their names, or by their places, the first few of many; and what they do."""
        shown = [repr(self.names[place]) if self.names else str(place) for place in columns[:_LISTED]]
        shown += [f"... ({len(columns)} of them)"] * (len(columns) > _LISTED)
        some = ", ".join(shown)
        if not self.names:
            some = f"column{'s' * (len(columns) > 1)} {some} of X (counted from 0)"
        return f"{some} {verb}{'s' * (len(columns) == 1)}"

    def table(self, *, at_chosen_epoch: bool = False) -> Table:
        """Cost of wrong steps and batch sizes: by how many per cent their test error is above the least.

        Every cell stops when it is best for it; with `at_chosen_epoch` after as many epochs as the best recipe.
        `to_frame()` and iteration have a row for each batch size and step.
        """
        errors, base = self.errors, float(self.errors.min())
        when = np.full(errors.shape[:2], self.best.place[3]) if at_chosen_epoch else errors.argmin(axis=-1)
        found = self.at_chosen_epoch if at_chosen_epoch else self.at_best_epoch
        header = ["batch size", *(f"{share:.3g}" for share in self.shares)]
        cells = [
            [f"{size:g}", *(_above(cell, base) for cell in row)]
            for size, row in zip(self.batch_sizes, found, strict=True)
        ]
        sizes, shares = (part.ravel() for part in np.meshgrid(self.batch_sizes, self.shares, indexing="ij"))
        safe = self.safe_steps[self.best.place[0]]
        columns = {
            "batch_size": sizes.astype(int).tolist(),
            "learning_rate": (np.repeat(safe, len(self.shares)) * shares).tolist(),
            "share": shares.tolist(),
            "epochs": self.epochs[when].ravel().astype(int).tolist(),
            "test_error": found.ravel().tolist(),
            "excess": (found / base - 1).ravel().tolist() if base > 0 else [0.0] * found.size,
        }
        return Table(columns, header, cells, "test errors above the least, by step in safe steps")

    def _columns(self) -> dict[str, Any]:
        """The best recipe, its runners-up and fits without training, a row each."""
        found: list[tuple[str, PlannedRecipe | SimpleFit]] = [("best", self.best)]
        found += [("runner-up", other) for other in self.runners_up]
        found += [(fit.name, fit) for fit in (self.least_squares, self.ridge)]
        names = ["batch_size", "learning_rate", "epochs", "momentum", "weight_decay"]
        names += ["test_error", "standard_error"]
        columns = {name: [getattr(one, name, None) for _, one in found] for name in names}
        return {"choice": [name for name, _ in found], **columns}

    def _title(self) -> str:
        return "\n".join([f"train with {self.best.words()}", *self.notes])

    def to_dict(self) -> dict[str, Any]:
        """The best recipe, with `runners_up`, `least_squares`, `ridge` and `notes`, in numbers, words and lists."""
        first = "test_error interval standard_error naive_test_error median_absolute_error"
        numbers = {name: getattr(self, name) for name in first.split()} | {"rows": self.problem.n}
        others = {name: getattr(self, name) for name in ("runners_up", "least_squares", "ridge", "notes")}
        return {**self.best.to_dict(), **plain(numbers | others)}

    def __repr__(self) -> str:
        best, n, (low, high) = self.best, self.problem.n, self.interval
        lines = [
            f"train with {best.words()}",
            f"  expected test error (mean square) {significant(self.test_error, 4)}, between "
            f"{significant(low, 3)} and {significant(high, 3)} (95%)",
            f"    by leaving out each of {n} rows, {plus_minus(best.test_error, best.standard_error)} "
            f"({best.method}), corrected for the choice among many",
        ]
        if best.spread:
            lines.append(f"    of which {significant(best.spread, 2)} is the spread of single runs")
        for fit in (self.least_squares, self.ridge):
            above = _above(fit.mean_square, best.test_error)
            lines.append(f"  {fit.name}: {significant(fit.mean_square, 4)} ({above})")
        for other in self.runners_up[:2]:
            found = f"{significant(other.test_error, 4)} ({_above(other.test_error, best.test_error)})"
            if other.error > other.test_error:
                found = f"at most {significant(other.test_error + other.error, 2)}"
            lines.append(f"  next: {other.words()}: {found}")
        lines += [f"  {note}" for note in self.notes]
        if any(other.test_error < best.test_error for other in self.runners_up[:2]):
            lines.append(f"  within {EQUAL:.1%} of the least test error, the shortest training is chosen")
        return "\n".join(lines)


def _above(value: float, base: float) -> str:
    """The excess of a value over another, in per cent."""
    if not np.isfinite(value):
        return "diverges"
    share = value / base - 1 if base > 0 else 0.0
    return f"{100 * share:+.2f}%" if abs(share) < 10 else factor(value / base)


def plan(
    X: ArrayLike | LeastSquares,
    y: ArrayLike | None = None,
    *,
    batch_sizes: ArrayLike | None = None,
    steps: ArrayLike = _SHARES,
    momenta: ArrayLike = (0.0,),
    penalties: ArrayLike = (0.0,),
    epochs: int = 1000,
    scheme: Scheme | None = None,
    standardize: bool | None = None,
    intercept: bool | None = None,
    sample_weight: ArrayLike | None = None,
    classes: bool | None = None,
    of_run: bool = True,
    verify: bool = True,
) -> Plan:
    """Choose step, batch size and stopping epoch by leave-one-out, and show what wrong choices cost.

    One decomposition compares all steps, batch sizes, penalties and epochs: by the exact leave-one-out of descent
    whose batches are drawn afresh from all rows, plus an estimate of what random orders add in a single run. The
    best recipes are then refined by the leave-one-out of the run itself, until a refined one is the best. Among
    recipes that differ by less than a thousandth, the shortest training wins. The smallest of many estimates is too
    small: a bootstrap of the choice corrects `plan.test_error` for this.

    Parameters
    ----------
    X : (n, p), or LeastSquares
        Rows; or a problem, such as one that a kernel poses, which is planned for as it is, without y. The names of
        columns of a DataFrame are those in `plan.notes`. A source of rows, as for `LeastSquares`, is read in chunks
        if it is large: five times, once more for means and scales, and nothing is refined or simulated.
    y : (n,) or (n, t)
        For several outputs the mean over them is what counts. Or labels (n,), which are learned by squared loss:
        two classes as -1 and 1, more as a column of 0 and 1 each; `plan.accuracy` is about them.
    batch_sizes : list of int, optional
        16, 32, ..., 256 as far as there are more rows, and all rows, by default. What is more than all rows is all.
    steps : list of float
        In units of the safe step of each batch size; up to half of it by default. With momentum, of that times
        1 - momentum.
    momenta, penalties : list of float
        Of torch's SGD. Momenta are only compared where recipes are refined.
    epochs : int
        The longest training that is compared.
    scheme : Scheme, optional
        How rows are visited; its batch size does not matter. `SampleReshuffling`, torch's shuffle=True, by default.
    standardize, intercept : bool
        Divide the columns of X by their standard deviation; subtract the means of X and y. Where a row is left out
        means are those of the others, and in `plan.test_error` deviations, too. Both are done by default, but never
        to a problem.
    sample_weight : (n,) or "balanced", optional
        Of the rows, in training, in means and deviations, and in the test error. "balanced" makes all classes of y
        weigh the same.
    classes : bool, optional
        True if y has labels of classes; text and True or False are labels by default, numbers are not.
    of_run : bool
        True to plan for a single run, False for the mean of many.
    verify : bool
        True to refine. Not done anyway beyond some size, where a single recipe takes longer than the plan.

    Returns
    -------
    Plan
        Batch size, step and epochs to train with, the test error to expect, the runners-up, and a map of all
        the others.

    >>> import reshuffle as rs
    >>> problem = rs.gaussian(200, 100, noise=1.0, seed=0)
    >>> rs.plan(problem.X, problem.y, batch_sizes=[50, 100], epochs=200)
    train with batches of 100, step 0.064, 11 epochs
      expected test error (mean square) 1.252, between 0.94 and 1.67 (95%)
        by leaving out each of 200 rows, 1.22 ± 0.12 (cavity), corrected for the choice among many
        of which 7.3e-05 is the spread of single runs
      least squares: 1.669 (+36.65%)
      ridge: 1.214 (-0.61%)
      next: batches of 50, step 0.0244, 14 epochs: 1.222 (-0.01%)
      the step is 0.125 times 0.512, below which convergence is guaranteed; larger ones may converge, too
      single runs vary by 0.038% of the test error: to see that a recipe is 1% better takes 1 run of each
      within 0.1% of the least test error, the shortest training is chosen
    """
    # Names of columns and files are no labels.
    is_named = any(isinstance(part, str | os.PathLike) for part in (X, y))
    labels = None if y is None or is_named else classes_of(y, classes)
    if labels is not None:
        y = labels.targets
        if isinstance(sample_weight, str) and sample_weight == "balanced":
            sample_weight = labels.balanced
    problem, standardizer, centres, scales = _standardized(X, y, standardize, intercept, sample_weight)
    n, verifies = problem.n, _arrays.flag("verify", verify)
    template = base.checked(SampleReshuffling(batch_size=1) if scheme is None else scheme, n)
    default = [*(size for size in _BATCH_SIZES if size < n), n]
    last = _arrays.whole_number("epochs", epochs, 1, _MOST_EPOCHS)
    grid = {
        "batch_sizes": _sizes(default if batch_sizes is None else batch_sizes, n),
        "shares": _numbers("steps", steps, "above 0 and below 1, in units of the safe step", 0.0, 1.0),
        "penalties": _numbers("penalties", penalties, "at least 0", -1.0, np.inf),
        "epochs": np.unique(np.geomspace(1, last, _EPOCHS).round()),
    }
    momenta = _numbers("momenta", momenta, "at least 0 and below 1", -1.0, 1.0)
    single = _arrays.flag("of_run", of_run)
    # Threads of BLAS would wait for each other in products of a few rows and nodes.
    with few_threads(_side(problem)):
        spectrum = RowSpectrum.of(problem, centres)
        search = Search(spectrum, template.with_batch_size(1), **grid, momenta=momenta, of_run=single)
        best, *others = search.ranked(verifies)
        correction = search.correction(best, scales)
        ridges = np.concatenate([[_TINY], np.geomspace(1e-6, 10.0, _RIDGES)]) * spectrum.values.max()
        means, errors = ridge_left_out(spectrum, ridges)
    if math.isnan(best.standard_error):
        best = replace(best, standard_error=correction.standard_error)
    runners_up: dict[tuple[float, ...], PlannedRecipe] = {}
    for recipe in others:
        runners_up.setdefault((*recipe.place[:2], recipe.momentum), recipe)
    runners_up.pop((*best.place[:2], best.momentum), None)
    least_squares, ridge = (
        SimpleFit(name, float(ridges[place]) if place else 0.0, float(means[place]), float(errors[place]))
        for name, place in (("least squares", 0), ("ridge", 1 + int(np.argmin(means[1:]))))
    )
    names: Any = getattr(X, "columns", None)
    return Plan(
        best,
        tuple(runners_up.values()),
        problem,
        standardizer,
        centres,
        scales,
        least_squares,
        ridge,
        **grid,
        mean_squares=search.mean_squares,
        spreads=search.spreads,
        safe_steps=search.safe_steps,
        # Columns of a DataFrame without names are numbers.
        names=tuple(names) if np.ndim(names) == 1 and all(isinstance(name, str) for name in names) else (),
        correction=correction,
        search=search,
        classes=None if labels is None else labels.names,
    )


def _side(problem: LeastSquares) -> float:
    """The side of a square matrix that is as much work to decompose as the rows, or a chunk of them."""
    least = min(problem.n, problem.p)
    return float(least) if problem.stream is not None else math.cbrt(problem.n * least**2)


def _standardized(
    X: ArrayLike | LeastSquares,
    y: ArrayLike | None,
    standardize: bool | None,
    intercept: bool | None,
    sample_weight: ArrayLike | None,
) -> tuple[LeastSquares, Standardizer, bool, bool]:
    """The problem that is trained on, its standardizer, and what that does: centre, scale."""
    if isinstance(X, LeastSquares):
        given = {"y": y, "standardize": standardize, "intercept": intercept, "sample_weight": sample_weight}
        for name, value in given.items():
            if value is not None and value is not False:
                raise TypeError(
                    f"{name} must not be given with a problem, which is planned for as it is, but it is "
                    f"{value!r}; pass X and y in place of the problem."
                )
        if X.stream is None:
            X.require_rows("plan")
        _require_something_to_learn(X, intercept=False)
        return X, Standardizer.identity(X.p, X.outputs), False, False
    if y is None:
        raise TypeError(
            "y must be given with the rows X, but it is None; or pass a LeastSquares in their place."
        )
    scales = standardize is None or _arrays.flag("standardize", standardize)
    centres = intercept is None or _arrays.flag("intercept", intercept)
    raw, weighted = LeastSquares(X, y), LeastSquares(X, y, sample_weight=sample_weight)
    if (stream := weighted.stream) is not None:
        made = stream.standardizer(centre=centres, scale=scales)
        problem = LeastSquares(stream.standardized(made, stream.weights), None)
        _require_something_to_learn(problem, intercept=False)
        return problem, made, centres, scales
    _require_something_to_learn(raw, centres)
    weights = weighted.sample_weight
    made = Standardizer.of(raw.X, raw.y, centre=centres, scale=scales, weights=weights)
    features, responses = (made.rows(raw.X), made.responses(raw.y)) if centres or scales else (raw.X, raw.y)
    return LeastSquares(features, responses, sample_weight=weights), made, centres, scales


def _sizes(given: ArrayLike, n: int) -> FloatArray:
    values = _arrays.any_array("batch_sizes", given)
    if values.ndim != 1 or not values.size:
        raise ArgumentError("batch_sizes", "be a list of whole numbers, such as [16, 64]", f"it is {given!r}")
    # As in torch's DataLoader, a batch larger than the data holds all of them.
    sizes = [min(_arrays.whole_number("batch_sizes", size, 1), n) for size in values.tolist()]
    return np.unique(np.array(sizes, dtype=np.float64))


def _numbers(name: str, given: ArrayLike, allowed: str, above: float, below: float) -> FloatArray:
    values = np.atleast_1d(_arrays.real_array(name, given, advice="give numbers"))
    wrong = (values <= above) | (values >= below) | ((above < 0) & (values < 0))
    if values.ndim != 1 or not values.size or wrong.any():
        raise ArgumentError(name, f"be a list of numbers {allowed}", f"it is {given!r}")
    return np.unique(values)


def _require_something_to_learn(problem: LeastSquares, intercept: bool) -> None:
    """Refuse data that are too large, too few or constant; rows that represent others show no more than zeros."""
    X, y, are_all = problem.compressed.X, problem.compressed.y, problem.compressed.are_all
    for name, sizes in (("X", problem.compressed.column_sizes), ("y", np.abs(y))):
        largest = float(sizes.max(initial=0.0))
        if largest > _LARGEST:
            allowed = f"have entries of at most {_LARGEST:g}, so that sums of their squares are numbers"
            raise ArgumentError(name, allowed, f"one is {largest:.3g}", f"rescale {name}")
    if problem.n < 3:
        allowed = "have at least 3 rows to leave one out and learn from the others"
        raise ArgumentError("X", allowed, f"it has {problem.n}")
    constant = np.ptp(y, axis=0) == 0 if are_all else ~y.any(axis=0)
    if constant.any():
        column = int(np.argmax(constant))
        which, given = (
            "y" if problem.outputs is None else f"y[:, {column}]",
            f"it is {y[0, column]:g} everywhere",
        )
        allowed, hint = "not be the same for all rows", "check that it is the right column, or drop it"
        raise ArgumentError(which, allowed, f"{given}: nothing is to be learned", hint)
    if not X.any() or (intercept and are_all and not np.ptp(X, axis=0).any()):
        allowed = "have an entry that is not zero" if not X.any() else "have a column that is not constant"
        raise ArgumentError("X", allowed, "all of them are", "check the features")
