"""A plan for training: the best recipe, the others beside it, and what wrong choices cost."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._display import Displayed, Table, plain
from reshuffle._uncertainty import factor, plus_minus, significant
from reshuffle.planning.prepared_data import PreparedData
from reshuffle.run import Run, critical_step
from reshuffle.run.critical_steps import CriticalStep
from reshuffle.schemes.base import Scheme
from reshuffle.validation.cross_validation import weights_of

EQUAL = 1e-3
"""Shares by which test errors may differ and count as equal: then the shorter training wins."""


@dataclass(frozen=True, eq=False)
class PlannedRecipe(Displayed):
    """A way to train, and the test error that leaving out rows promises for it.

    Attributes
    ----------
    batch_size : int
    step : float
        Of one visit, torch's lr.
    share : float
        The step over the safe step of this batch size (with momentum, that of step / (1 - momentum)).
    momentum, penalty : float
    epochs : int
        When to stop.
    scheme : Scheme
    mean_square : float
        Leave-one-out, the mean over rows and outputs of (y_i - x_i'b)^2 without row i, for the mean iterate.
    spread : float
        About what the random orders of a single run add to it; 0 if the plan is for the mean iterate.
    standard_error : float
        Of the mean square as an estimate of the test error; nan for those that were not looked at closely.
    method : str
        How: "mean step", as if every batch were drawn afresh from all rows, "exact" where that is so, or the
        method of `run.leave_one_out`.
    is_verified : bool
        Whether it is more than a glance.
    """

    _shown = (
        "batch_size", "step", "epochs", "momentum", "penalty", "test_error", "standard_error",
        "mean_square", "spread", "share", "method", "is_verified",
    )  # fmt: skip

    batch_size: int
    step: float
    share: float
    momentum: float
    penalty: float
    epochs: int
    scheme: Scheme
    mean_square: float
    spread: float
    standard_error: float
    method: str
    is_verified: bool

    @property
    def test_error(self) -> float:
        """What is expected on new rows, mean_square + spread: the plan is for the smallest, up to a thousandth."""
        return self.mean_square + self.spread

    @property
    def learning_rate(self) -> float:
        """The step of one visit, in torch's word."""
        return self.step

    @property
    def weight_decay(self) -> float:
        """The penalty, in torch's word."""
        return self.penalty

    @property
    def arguments(self) -> dict[str, Any]:
        """For `descend`, and for `explain`."""
        kept = {"scheme": self.scheme, "step": self.step, "momentum": self.momentum, "penalty": self.penalty}
        return {name: value for name, value in kept.items() if value != 0.0}

    def words(self) -> str:
        """In words, as one would tell somebody."""
        extras = [f"momentum {self.momentum:g}"] if self.momentum else []
        extras += [f"weight decay {significant(self.penalty, 3)}"] if self.penalty else []
        beside = f", {', '.join(extras)}" if extras else ""
        epochs = f"{self.epochs} epoch{'s' if self.epochs != 1 else ''}"
        return f"batches of {self.batch_size}, step {significant(self.step, 3)}{beside}, {epochs}"

    def __repr__(self) -> str:
        return f"PlannedRecipe({self.words()}: test_error={self.test_error:.6g}, {self.method})"


@dataclass(frozen=True)
class SimpleFit(Displayed):
    """Leave-one-out of ordinary least squares or of ridge regression.

    Attributes
    ----------
    name : str
    penalty : float
        Of the loss |y - X b|^2 / (2n) + penalty |b|^2 / 2 on the prepared data; n times it is scikit-learn's alpha.
    mean_square, standard_error : float
    """

    _shown = ("name", "penalty", "test_error", "standard_error")

    name: str
    penalty: float
    mean_square: float
    standard_error: float

    @property
    def test_error(self) -> float:
        """The mean square, as an estimate of the test error."""
        return self.mean_square

    @property
    def weight_decay(self) -> float:
        """The penalty, in torch's word."""
        return self.penalty


@dataclass(frozen=True, eq=False)
class Plan(Displayed):
    """How to train on given data, chosen by leave-one-out: its repr is the recommendation.

    Attributes
    ----------
    best : PlannedRecipe
        Of all recipes whose test error is within a thousandth of the smallest, the one with the fewest epochs.
    runners_up : tuple of PlannedRecipe
        The best of every other batch size, penalty and momentum, ranked in the same way: one that is longer may
        have a test error below that of `best`, by less than a thousandth.
    run : Run
        The best recipe on the prepared data, ready for questions. It takes the means of centred rows for given, so
        that its own `leave_one_out` is smaller than `mean_square`: much smaller, where columns are as many as rows.
    data : PreparedData
        Centred and scaled as asked; `data.coefficients` takes parameters back.
    least_squares, ridge : SimpleFit
        What needs no training: ordinary least squares, and ridge with the best penalty.
    batch_sizes : (B,)
    shares : (S,)
        Steps over the safe step of their batch size.
    penalties : (P,)
    epochs : (E,)
        Those that were looked at.
    mean_squares : (P, B, S, E)
        Leave-one-out of all of them, as if every batch were drawn afresh from all rows.
    spreads : (P, B, S, E)
        About what the random orders of a single run add.
    safe_steps : (P, B)
        Below which single runs are proven to converge in the mean square, if batches are drawn with replacement.
    """

    best: PlannedRecipe
    runners_up: tuple[PlannedRecipe, ...]
    run: Run
    data: PreparedData
    least_squares: SimpleFit
    ridge: SimpleFit
    batch_sizes: FloatArray
    shares: FloatArray
    penalties: FloatArray
    epochs: FloatArray
    mean_squares: FloatArray
    spreads: FloatArray
    safe_steps: FloatArray

    @property
    def test_error(self) -> float:
        """The test error that is expected of the best recipe, E (y - x'b)^2, over outputs on average."""
        return self.best.test_error

    @property
    def standard_error(self) -> float:
        """Of that: the rows are a sample."""
        return self.best.standard_error

    @cached_property
    def coefficients(self) -> tuple[FloatArray, Any]:
        """Of the mean iterate, in the units of the data: one per feature, (p,) or (p, t), and the intercept."""
        return self.data.coefficients(self.run.iterate(self.best.epochs))

    @cached_property
    def critical_step(self) -> CriticalStep:
        """Up to which step single runs of the best recipe converge in the mean square, with its error.

        Computed when it is asked for, since it may take longer than the plan itself; the safe step is below it
        where batches are drawn with replacement.
        """
        best = self.best
        return critical_step(
            self.run.problem, best.scheme, mean_square=True, penalty=best.penalty, momentum=best.momentum
        )

    @cached_property
    def single_run_error(self) -> float:
        """The test error of a single run of the best recipe, with its spread as `run.covariance` knows it.

        Computed when it is asked for, in place of the estimate in `best.spread`.
        """
        run, epochs = self.run, self.best.epochs
        spread = run.excess_training_loss(epochs, of_run=True) - run.excess_training_loss(epochs)
        weights = weights_of(run.problem)
        return float(self.best.mean_square + 2 * run.problem.n * np.mean(spread) / weights.sum())

    @property
    def at_best_epoch(self) -> FloatArray:
        """The test error (B, S) where every step and batch size stops when it is best for it."""
        return np.asarray(self._errors.min(axis=-1))

    @property
    def at_chosen_epoch(self) -> FloatArray:
        """The test error (B, S) where all of them stop after the epochs of the best recipe."""
        when = int(np.argmin(np.abs(self.epochs - self.best.epochs)))
        return np.asarray(self._errors[..., when])

    @property
    def _errors(self) -> FloatArray:
        """The test error (B, S, E) under the chosen penalty."""
        place = int(np.argmin(np.abs(self.penalties - self.best.penalty)))
        return np.asarray(self.mean_squares[place] + self.spreads[place])

    def table(self, *, at_chosen_epoch: bool = False) -> Table:
        """What wrong steps and batch sizes cost: by how many per cent their test error is above the least.

        Every cell stops when it is best for it; with `at_chosen_epoch` after as many epochs as the best recipe.
        It prints as a table; `to_frame()` and iteration have a row for each batch size and step.
        """
        errors = self._errors
        chosen = int(np.argmin(np.abs(self.epochs - self.best.epochs)))
        when = np.full(errors.shape[:2], chosen) if at_chosen_epoch else errors.argmin(axis=-1)
        found, base = np.take_along_axis(errors, when[..., np.newaxis], -1)[..., 0], float(errors.min())
        header = ["batch size", *(f"{share:.3g}" for share in self.shares)]
        cells = [
            [f"{size:g}", *(_above(cell, base) for cell in row)]
            for size, row in zip(self.batch_sizes, found, strict=True)
        ]
        title, width = "step, in safe steps", 9 * len(self.shares)
        lines = [f"{line[0]:>10}" + "".join(f"{cell:>9}" for cell in line[1:]) for line in (header, *cells)]
        sizes, shares = (part.ravel() for part in np.meshgrid(self.batch_sizes, self.shares, indexing="ij"))
        safe = self.safe_steps[int(np.argmin(np.abs(self.penalties - self.best.penalty)))]
        columns = {
            "batch_size": sizes.astype(int).tolist(),
            "learning_rate": (np.repeat(safe, len(self.shares)) * shares).tolist(),
            "share": shares.tolist(),
            "epochs": self.epochs[when].ravel().astype(int).tolist(),
            "test_error": found.ravel().tolist(),
            "excess": (found / base - 1).ravel().tolist() if base > 0 else [0.0] * found.size,
        }
        return Table(columns, "\n".join([f"{'':>10}{title:>{width}}", *lines]), header, cells, title)

    def _columns(self) -> dict[str, Any]:
        """The best recipe, its runners-up and what needs no training, a row each."""
        found: list[tuple[str, PlannedRecipe | SimpleFit]] = [("best", self.best)]
        found += [("runner-up", other) for other in self.runners_up]
        found += [(fit.name, fit) for fit in (self.least_squares, self.ridge)]
        names = (
            "batch_size", "learning_rate", "epochs", "momentum", "weight_decay", "test_error", "standard_error"
        )  # fmt: skip
        columns = {name: [getattr(one, name, None) for _, one in found] for name in names}
        return {"choice": [name for name, _ in found], **columns}

    def _title(self) -> str:
        return repr(self).splitlines()[0]

    def to_dict(self) -> dict[str, Any]:
        """The best recipe, and beside it `runners_up`, `least_squares` and `ridge`, in numbers, words and lists."""
        others = {name: plain(getattr(self, name)) for name in ("runners_up", "least_squares", "ridge")}
        return {**self.best.to_dict(), "rows": self.run.problem.n, **others}

    def __repr__(self) -> str:
        best, n = self.best, self.run.problem.n
        safe = best.step / best.share
        lines = [
            f"train with {best.words()}",
            f"  expected test error {plus_minus(best.test_error, best.standard_error)}, "
            f"leaving out each of {n} rows ({best.method})",
        ]
        if best.spread:
            lines.append(f"    of which {significant(best.spread, 2)} is the spread of single runs")
        lines += [
            f"  the step is {significant(best.share, 3)} of the largest that is safe, {significant(safe, 3)}",
        ]
        for fit in (self.least_squares, self.ridge):
            above = _above(fit.mean_square, best.test_error)
            lines.append(f"  {fit.name}: {significant(fit.mean_square, 4)} ({above})")
        for other in self.runners_up[:2]:
            above = _above(other.test_error, best.test_error)
            lines.append(f"  next: {other.words()}: {significant(other.test_error, 4)} ({above})")
        if any(other.test_error < best.test_error for other in self.runners_up[:2]):
            lines.append(f"  within {EQUAL:.1%} of the least test error, the shortest training is chosen")
        return "\n".join(lines)


def _above(value: float, base: float) -> str:
    """By how many per cent a value is above another."""
    if not np.isfinite(value):
        return "diverges"
    share = value / base - 1 if base > 0 else 0.0
    return f"{100 * share:+.2f}%" if abs(share) < 10 else factor(value / base)
