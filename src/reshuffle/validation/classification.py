"""Left-out accuracy and confusion of classes that are learned by squared loss: of single runs, and of their mean.

The score of row i in a run that has not seen it is its mean over orders, which leave-one-out knows, plus the
deviation of the run from that mean. Deviations are those of simulated runs on all rows: leaving out a row changes
their variance by a few per cent (measured on wine and breast cancer: 2 to 14% too large, the more the nearer the
number of columns comes to that of rows), where scaling them by the leverage of the row makes it 1.3 to 6 times too
large.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reshuffle._arrays import FloatArray, IntArray, columns
from reshuffle._budget import A_SECOND, require_affordable
from reshuffle._display import Displayed
from reshuffle._uncertainty import ErrorKind, plus_minus, significant, with_largest_error
from reshuffle.problem.classes import one_hot
from reshuffle.simulation import simulated_states

if TYPE_CHECKING:
    from reshuffle.run.run import Run
    from reshuffle.validation.leave_one_out import LeaveOneOut

_FEWEST, _MOST = 32, 512
"""Simulated runs. More than the fewest are drawn until chance adds little to the standard error."""
_OF_STANDARD_ERROR = 0.5
"""Standard error over runs, relative to that over rows, that is small enough."""
_TOO_LARGE = 0.07
"""Share by which the deviations may be too large, see above: it enters the error."""
_SCORES = 1 << 22
"""Scores of runs, rows and classes in memory at a time."""


@dataclass(frozen=True, eq=False, repr=False)
class Classification(Displayed):
    """Shares of left-out rows that are told right: in a single run on average, and by the mean of all runs.

    Scores that are no numbers, after divergence, count as wrong.

    Attributes
    ----------
    epochs : any shape
    accuracy : epochs.shape
        The accuracy to expect of a single run.
    standard_error : epochs.shape
        Its standard error as an estimate of the accuracy on new rows: the rows are a sample.
    error : epochs.shape
        Numerical error, since runs are simulated; 0 where all runs are the same.
    error_kind : str
        "estimate", or "exact".
    deviation : epochs.shape
        The standard deviation of the accuracy from run to run.
    of_mean : epochs.shape
        The accuracy of the mean iterate, which is mostly higher.
    confusion : epochs.shape + (K, K)
        The number of rows of each class (first) that a single run is expected to take for each class (last); the
        sum of their weights, if they have any.
    runs : int
        Simulated runs; 0 where all are the same.
    """

    _shown = ("epochs", "accuracy", "standard_error", "error", "error_kind", "deviation", "of_mean")

    epochs: FloatArray
    accuracy: FloatArray
    standard_error: FloatArray
    error: FloatArray
    error_kind: ErrorKind
    deviation: FloatArray
    of_mean: FloatArray
    confusion: FloatArray
    runs: int

    def __repr__(self) -> str:
        if self.accuracy.size != 1:
            shown = with_largest_error(self.accuracy.shape, self.error, self.error_kind)
            return f"Classification(accuracy of single runs {shown})"
        shown = plus_minus(self.accuracy.item(), self.standard_error.item(), "+-")
        mean = significant(self.of_mean.item(), 3)
        return f"Classification(accuracy={shown} (standard error) in a single run, {mean} by the mean of all)"


class _Scores:
    """Scores of left-out rows: (rows, K), whose largest entry is the decision."""

    def __init__(self, left_out: "LeaveOneOut"):
        problem, self.rows = left_out.problem, left_out.rows
        roots = np.sqrt(problem.row_weights)
        y = columns(problem.y) / roots[:, np.newaxis]
        targets = one_hot(y)
        self.truth, self.classes = targets.argmax(axis=1)[self.rows], targets.shape[1]
        self.is_pair = y.shape[1] == 1
        # The middle of two values; several columns are those of 0 and 1, whatever was subtracted from them.
        origin = (y.min(axis=0) + y.max(axis=0)) / 2 if self.is_pair else y.min(axis=0)
        self.X = problem.X[self.rows] / roots[self.rows, np.newaxis]
        self.weights = problem.row_weights[self.rows]
        self.total = float(self.weights.sum())
        # Epochs in one axis, also where there is one output or epochs are a number.
        residuals = left_out.residuals.reshape(left_out.epochs.size, len(self.rows), -1)
        with np.errstate(invalid="ignore", over="ignore"):
            self.means = (y - origin)[self.rows] - residuals

    def decided(self, scores: FloatArray) -> FloatArray:
        """Numbers of the classes of scores (..., rows, t); -1 where they are no numbers."""
        found = (scores[..., 0] > 0).astype(int) if self.is_pair else scores.argmax(axis=-1)
        return np.where(np.isfinite(scores).all(axis=-1), found, -1)


def accuracy_of_mean(left_out: "LeaveOneOut") -> FloatArray:
    """The share of left-out rows that the mean iterate tells right, of the shape of epochs."""
    scores = _Scores(left_out)
    hits = scores.decided(scores.means) == scores.truth
    return np.asarray((hits @ scores.weights / scores.total).reshape(left_out.epochs.shape))


def classification(run: "Run", left_out: "LeaveOneOut") -> Classification:
    """Accuracy and confusion of single runs, at the epochs and rows of a leave-one-out of the same run."""
    epochs, scores, problem = left_out.epochs, _Scores(left_out), run.problem
    when, back = np.unique(epochs.ravel(), return_inverse=True)
    varies = run.scheme.is_random and run.scheme.steps(problem.n) > 1 and bool(when.any())
    if varies and not np.isfinite(when).all():
        raise ValueError(
            "epochs must be finite for the accuracy of single runs, which are simulated, but one is inf; ask for "
            "leave_one_out(...).accuracy_of_mean, or for many epochs."
        )
    places = np.array([int(np.flatnonzero(epochs.ravel() == one)[0]) for one in when], dtype=int)
    each = 4.0 * max(float(when.max(initial=0.0)), 1.0) * problem.X.size * (problem.outputs or 1)
    deviations = [np.zeros((len(when), 1, problem.p, problem.outputs or 1))]
    tally = _Tally(scores, places)
    if varies:
        budget = max(run.accuracy.budget, A_SECOND)
        hint = ("leave_one_out(...).accuracy_of_mean", "fewer epochs", "a larger {budget}")
        require_affordable(_FEWEST * each, budget, f"the accuracy of {_FEWEST} single runs", hint)
        deviations = [_deviations(run, when, _FEWEST, run.accuracy.seed)]
        tally.add(deviations[0])
        wanted = _FEWEST * math.ceil(float(np.max(tally.runs_needed, initial=1.0)))
        more = min(wanted, _MOST, int(budget / 10 / each)) - _FEWEST
        if more > 1:
            tally.add(_deviations(run, when, more, run.accuracy.seed + 1))
    else:
        tally.add(deviations[0])
    return tally.result(epochs, back, varies)


def _deviations(run: "Run", when: FloatArray, runs: int, seed: int) -> FloatArray:
    """Parameters of simulated runs less their mean, (epochs, runs, p, t), with the variance of a single run."""
    found = simulated_states(run.problem, run.scheme, run.recipe, run.start, when, runs, seed, np.copy)
    with np.errstate(invalid="ignore", over="ignore"):
        made = found.reshape(len(when), runs, -1, run.problem.p).swapaxes(2, 3)
        made -= made.mean(axis=1, keepdims=True)
        made *= np.sqrt(runs / (runs - 1))
    return made


class _Tally:
    """Hits of runs at some epochs, added up over rows and over runs."""

    def __init__(self, scores: _Scores, places: IntArray):
        self._scores, self._places, self._runs = scores, places, 0
        count = len(places)
        self._of_runs: list[FloatArray] = []
        """Accuracies (epochs, runs), and those where deviations are smaller, of each set of runs."""
        self._right = np.zeros((count, len(scores.rows)))
        self._confusion = np.zeros((count, scores.classes, scores.classes))

    def add(self, deviations: FloatArray) -> None:
        """Take in runs by their deviations (epochs, runs, p, t)."""
        scores, runs = self._scores, deviations.shape[1]
        self._runs += runs
        height = max(1, _SCORES // (runs * deviations.shape[3]))
        found = np.zeros((2, len(self._places), runs))
        for number, place in enumerate(self._places):
            for first in range(0, len(scores.rows), height):
                part = slice(first, first + height)
                weights, truth = scores.weights[part], scores.truth[part]
                with np.errstate(invalid="ignore", over="ignore"):
                    moved = scores.X[part] @ deviations[number]
                    decided = scores.decided(scores.means[place, part] + moved)
                    less = scores.decided(scores.means[place, part] + (1 - _TOO_LARGE) * moved)
                found[0, number] += (decided == truth) @ weights
                found[1, number] += (less == truth) @ weights
                self._right[number, part] += (decided == truth).sum(axis=0)
                for told in range(scores.classes):
                    share = (decided == told).sum(axis=0) * weights
                    self._confusion[number, :, told] += np.bincount(truth, share, scores.classes)
        self._of_runs.append(found / scores.total)

    def _rows_error(self) -> FloatArray:
        """Standard error over rows (epochs,): of a mean of probabilities to be right."""
        weights, chance = self._scores.weights / self._scores.total, self._right / self._runs
        mean = chance @ weights
        spread = np.square(chance - mean[:, np.newaxis]) @ np.square(weights)
        return np.asarray(np.sqrt(spread * len(weights) / max(len(weights) - 1, 1)))

    @property
    def runs_needed(self) -> FloatArray:
        """The multiple of runs (epochs,) with which their standard error is small."""
        error = np.concatenate(self._of_runs, axis=2)[0].std(axis=1, ddof=1) / np.sqrt(self._runs)
        allowed = _OF_STANDARD_ERROR * np.maximum(self._rows_error(), 1 / len(self._scores.rows))
        return np.asarray(np.square(error / allowed))

    def result(self, epochs: FloatArray, back: IntArray, varies: bool) -> Classification:
        """The result at the requested epochs, the places of which among the distinct ones are given."""
        scores, (found, less) = self._scores, np.concatenate(self._of_runs, axis=2)
        accuracy, deviation, error = found.mean(axis=1), np.zeros(len(found)), np.zeros(len(found))
        if varies:
            deviation = found.std(axis=1, ddof=1)
            error = 3 * deviation / np.sqrt(self._runs) + np.abs(less.mean(axis=1) - accuracy)
        hits = scores.decided(scores.means[self._places]) == scores.truth
        of_mean = hits @ scores.weights / scores.total
        parts = {
            "accuracy": accuracy,
            "standard_error": self._rows_error(),
            "error": error,
            "deviation": deviation,
            "of_mean": of_mean,
            "confusion": self._confusion / self._runs,
        }
        shown = {name: part[back].reshape(epochs.shape + part.shape[1:]) for name, part in parts.items()}
        kind: ErrorKind = "estimate" if varies else "exact"
        return Classification(epochs=epochs, error_kind=kind, runs=self._runs if varies else 0, **shown)
