"""Left-out accuracy and confusion of classes that are learned by squared loss: of single runs, and of their mean.

The score of row i in a run that has not seen it is its mean over orders, which leave-one-out knows, plus the
deviation of the run from that mean. Deviations are those of simulated runs on all rows: leaving out a row changes
their variance by a few per cent (measured on wine and breast cancer: 2 to 14% too large, the more the nearer the
number of columns comes to that of rows), where scaling them by the leverage of the row makes it 1.3 to 6 times too
large.
"""

import math
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from reshuffle._arrays import AnyArray, BoolArray, FloatArray, IntArray, columns
from reshuffle._budget import A_SECOND, require_affordable
from reshuffle._display import Displayed
from reshuffle._uncertainty import ErrorKind, plus_minus, significant, with_largest_error
from reshuffle.epoch.select import CLASSIFIED
from reshuffle.errors import ArgumentError
from reshuffle.problem.classes import one_hot
from reshuffle.simulation import simulated_states

if TYPE_CHECKING:
    from reshuffle.run.run import Run
    from reshuffle.validation.leave_one_out import LeaveOneOut

_FEWEST, _MOST = 32, 512
"""Simulated runs. More than the fewest are drawn until chance adds little to the standard error."""
_TOO_LARGE = 0.07
"""Share by which the deviations may be too large, see above: it enters the error."""
_SCORES = 1 << 22
"""Scores of runs, rows and classes in memory at a time."""
_DECISIONS = 1 << 26
"""Decisions of runs at all epochs and rows in memory, at most, beyond those of the fewest runs."""


@dataclass(frozen=True, eq=False, repr=False)
class Classification(Displayed):
    """Shares of left-out rows classified correctly: in a single run on average, and by the mean of all runs.

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
    """Mean scores (epochs, rows, t) of left-out rows, and the decisions of runs that deviate from them."""

    def __init__(self, left_out: "LeaveOneOut"):
        problem, rows = left_out.problem, left_out.rows
        roots = np.sqrt(problem.row_weights)
        y = columns(problem.y) / roots[:, np.newaxis]
        targets = one_hot(y)
        self.truth, self.classes = targets.argmax(axis=1)[rows], targets.shape[1]
        # The middle of two values; several columns are those of 0 and 1, whatever was subtracted from them.
        origin = (y.min(axis=0) + y.max(axis=0)) / 2 if y.shape[1] == 1 else y.min(axis=0)
        self.X, self.weights = problem.X[rows] / roots[rows, np.newaxis], problem.row_weights[rows]
        residuals = left_out.residuals.reshape(left_out.epochs.size, len(rows), -1)
        with np.errstate(invalid="ignore", over="ignore"):
            self.means = (y - origin)[rows] - residuals

    def decided(self, scores: FloatArray) -> AnyArray:
        """Numbers of the classes of scores (..., t); -1 where they are no numbers."""
        found = (scores[..., 0] > 0).astype(int) if scores.shape[-1] == 1 else scores.argmax(axis=-1)
        return np.where(np.isfinite(scores).all(axis=-1), found, -1).astype(np.int16)

    def decided_by(self, places: IntArray, deviations: FloatArray) -> AnyArray:
        """Classes (2, epochs, runs, rows) of runs that deviate (epochs, runs, p, t) from their mean, or by less."""
        epochs, runs, _, outputs = deviations.shape
        found = np.zeros((2, epochs, runs, len(self.X)), dtype=np.int16)
        height = max(1, _SCORES // (runs * outputs))
        with np.errstate(invalid="ignore", over="ignore"):
            for number, first in product(range(epochs), range(0, len(self.X), height)):
                part, place = slice(first, first + height), places[number]
                moved = self.X[part] @ deviations[number]
                for kind, share in enumerate((1.0, 1 - _TOO_LARGE)):
                    found[kind, number, :, part] = self.decided(self.means[place, part] + share * moved)
        return found

    def shares(self, hits: BoolArray | FloatArray) -> FloatArray:
        """The weighted share of rows (..., rows) that are right."""
        return np.asarray(hits @ self.weights / self.weights.sum())

    def standard_error(self, chance: FloatArray) -> FloatArray:
        """Standard error over rows of a mean of probabilities (epochs, rows) to be right."""
        weights, mean = self.weights / self.weights.sum(), self.shares(chance)
        spread = np.square(chance - mean[:, np.newaxis]) @ np.square(weights)
        return np.asarray(np.sqrt(spread * len(weights) / max(len(weights) - 1, 1)))


def accuracy_of_mean(left_out: "LeaveOneOut") -> FloatArray:
    """The share of left-out rows that the mean iterate classifies correctly, of the shape of epochs."""
    scores = _Scores(left_out)
    return scores.shares(scores.decided(scores.means) == scores.truth).reshape(left_out.epochs.shape)


def classification(run: "Run", left_out: "LeaveOneOut") -> Classification:
    """Accuracy and confusion of single runs, at the epochs and rows of a leave-one-out of the same run."""
    epochs, scores, problem = left_out.epochs, _Scores(left_out), run.problem
    when, places, back = np.unique(epochs.ravel(), return_index=True, return_inverse=True)
    varies = run.scheme.is_random and run.scheme.steps(problem.n) > 1 and bool(when.any())
    if varies:
        decided = _simulated(run, scores, when, places)
    else:
        still = np.zeros((len(when), 1, problem.p, problem.outputs or 1))
        decided = scores.decided_by(places, still)
    right, runs = decided == scores.truth, decided.shape[2]
    (accuracies, less), chance = scores.shares(right), right[0].mean(axis=1)
    accuracy, deviation, error = accuracies.mean(axis=1), np.zeros(len(when)), np.zeros(len(when))
    if varies:
        deviation = accuracies.std(axis=1, ddof=1)
        error = 3 * deviation / np.sqrt(runs) + np.abs(less.mean(axis=1) - accuracy)
    told = (decided[0, ..., np.newaxis] == np.arange(scores.classes)).mean(axis=1)
    parts = {
        "accuracy": accuracy,
        "standard_error": scores.standard_error(chance),
        "error": error,
        "deviation": deviation,
        "of_mean": scores.shares(scores.decided(scores.means[places]) == scores.truth),
        "confusion": np.eye(scores.classes)[scores.truth].T @ (scores.weights[:, np.newaxis] * told),
    }
    shown = {name: part[back].reshape(epochs.shape + part.shape[1:]) for name, part in parts.items()}
    kind: ErrorKind = "estimate" if varies else "exact"
    return Classification(epochs=epochs, error_kind=kind, runs=runs if varies else 0, **shown)


def _simulated(run: "Run", scores: _Scores, when: FloatArray, places: IntArray) -> AnyArray:
    """Decisions (2, epochs, runs, rows) of simulated runs: as many as tell the accuracy well enough."""
    if not np.isfinite(when).all():
        rule = "be finite for the accuracy of single runs, which are simulated"
        advice = "ask for leave_one_out(...).accuracy_of_mean, or for many epochs"
        raise ArgumentError("epochs", rule, "one is inf", advice)
    problem, budget, seed = run.problem, max(run.accuracy.budget, A_SECOND), run.accuracy.seed
    each = 4.0 * max(float(when[-1]), 1.0) * problem.X.size * (problem.outputs or 1)
    hint = ("leave_one_out(...).accuracy_of_mean", "fewer epochs", "a larger {budget}")
    require_affordable(_FEWEST * each, budget, f"the accuracy of {_FEWEST} single runs", hint)

    def decided(runs: int, seed: int) -> AnyArray:
        found = simulated_states(problem, run.scheme, run.recipe, run.start, when, runs, seed, np.copy)
        with np.errstate(invalid="ignore", over="ignore"):
            made = found.reshape(len(when), runs, -1, problem.p).swapaxes(2, 3)
            made -= made.mean(axis=1, keepdims=True)
            # The mean of the runs has taken its share of their variance.
            made *= np.sqrt(runs / (runs - 1))
        return scores.decided_by(places, made)

    first = decided(_FEWEST, seed)
    right = first[0] == scores.truth
    error = scores.shares(right).std(axis=1, ddof=1) / np.sqrt(_FEWEST)
    allowed = np.maximum(scores.standard_error(right.mean(axis=1)), 1 / len(scores.X))
    wanted = _FEWEST * math.ceil(
        float(np.max(np.square(error / (run.accuracy.of(CLASSIFIED) * allowed)), initial=1.0))
    )
    more = min(wanted, _MOST, int(budget / 10 / each), _DECISIONS // max(right.size // _FEWEST, 1)) - _FEWEST
    return np.concatenate([first, decided(more, seed + 1)], axis=2) if more > 1 else first
