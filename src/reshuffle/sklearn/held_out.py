"""How well training does on rows that it has not seen, after any number of epochs at once; the table of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata

from reshuffle._arrays import FloatArray, IntArray
from reshuffle.sklearn.estimator_data import Data
from reshuffle.sklearn.training import TrainedOutputs, Training

Fold = tuple[IntArray, IntArray]
"""The rows that are trained on, and those that are held out."""
_AT_A_TIME = 1 << 24
"""Errors of left-out rows that are held in memory."""
_LEFT_OUT = 4000
"""Rows that are left out at most: a mean over so many is known to two percent or so."""


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Mean squares of the errors on held-out rows.

    Attributes
    ----------
    mean : (epochs,)
        The mean over splits of the mean square, and over outputs.
    deviation : (epochs,)
        The standard deviation over splits; over rows, where each row is a split.
    splits : (splits, epochs) or None
        The mean square of each split; None where each row is one.
    """

    mean: FloatArray
    deviation: FloatArray
    splits: FloatArray | None = None


def one_by_one(training: Training, data: Data, epochs: FloatArray) -> HeldOut:
    """Leave out the gradient of each row, and look at it: all rows and all epochs from one run.

    Means are those of the other rows; scales are those of all, which changes about 1 / n of what leaving out a row
    does. Of many rows a sample is left out.
    """
    trained = training.on(data)
    n, outputs = len(trained.data.y), trained.data.y.size // len(trained.data.y)
    rows = np.sort(np.random.default_rng(training.settings.seed).permutation(n)[:_LEFT_OUT])
    parts = np.array_split(epochs, -(-len(epochs) * len(rows) * outputs // _AT_A_TIME))
    found = [_left_out(trained, part, rows) for part in parts]
    return HeldOut(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


def _left_out(trained: TrainedOutputs, epochs: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    """The mean and the deviation (epochs,) over rows of the squares of their errors."""
    data = trained.data
    weights = None if data.weights is None else data.weights[rows]
    found = trained.run.leave_one_out(epochs, rows=rows, centred=trained.data.is_centred)
    residuals = found.residuals.reshape(len(epochs), len(rows), -1)
    with np.errstate(invalid="ignore", over="ignore"):
        squares = np.square(residuals).mean(axis=-1)
        mean = np.average(squares, axis=-1, weights=weights)
        variance = np.average(np.square(squares - mean[:, np.newaxis]), axis=-1, weights=weights)
    is_finite = np.isfinite(mean)
    return np.where(is_finite, mean, np.inf), np.where(is_finite, np.sqrt(variance), np.inf)


def by_folds(training: Training, data: Data, folds: Sequence[Fold], epochs: FloatArray) -> HeldOut:
    """Train on the rows of each fold, its own means included, and look at those held out; inf where it diverges."""
    found = np.array([
        _mean_square(training, data.part(trained), data.part(held_out), epochs) for trained, held_out in folds
    ])  # fmt: skip
    with np.errstate(invalid="ignore", over="ignore"):
        mean, deviation = found.mean(axis=0), found.std(axis=0)
    return HeldOut(mean, np.where(np.isfinite(mean), deviation, np.inf), found)


def _mean_square(training: Training, trained: Data, held_out: Data, epochs: FloatArray) -> FloatArray:
    if held_out.weights is not None and not held_out.weights.any():
        raise ValueError(
            "cv must hold out rows with weight in every split, but in one all of them have sample_weight zero."
        )
    coefficients, intercepts = training.on(trained).path(epochs)
    with np.errstate(invalid="ignore", over="ignore"):
        predicted = coefficients @ held_out.rows.T + intercepts[..., np.newaxis]
        squares = np.square(predicted - held_out.responses.T).mean(axis=-2)
        found = np.average(squares, axis=-1, weights=held_out.weights)
    return np.where(np.isfinite(found), found, np.inf)


def cv_table(
    tried: Sequence[Mapping[str, Any]], scores: Sequence[HeldOut], epochs: FloatArray
) -> dict[str, Any]:
    """A row per candidate and number of epochs: its parameters, its score (less is worse), its rank.

    >>> made = HeldOut(np.array([2.0, 1.0]), np.array([0.5, 0.1]))
    >>> table = cv_table([{"momentum": 0.5}], [made], np.array([1.0, 10.0]))
    >>> table["mean_test_score"], table["rank_test_score"]
    (array([-2., -1.]), array([2, 1], dtype=int32))
    >>> table["params"][1]
    {'momentum': 0.5, 'epochs': 10}
    """
    counts = [int(count) if np.isfinite(count) else float(count) for count in epochs]
    params = [{**candidate, "epochs": count} for candidate in tried for count in counts]
    table: dict[str, Any] = {f"param_{name}": _column([row[name] for row in params]) for name in params[0]}
    table["params"] = params
    splits = [found.splits for found in scores if found.splits is not None]
    for number in range(len(splits[0]) if splits else 0):
        table[f"split{number}_test_score"] = -np.concatenate([split[number] for split in splits])
    table["mean_test_score"] = -np.concatenate([found.mean for found in scores])
    table["std_test_score"] = np.concatenate([found.deviation for found in scores])
    table["rank_test_score"] = rankdata(-table["mean_test_score"], method="min").astype(np.int32)
    return table


def _column(values: list[Any]) -> Any:
    """Numbers where all are; objects where one is something else, such as None."""
    numeric = all(isinstance(value, int | float) for value in values)
    return np.ma.MaskedArray(np.array(values, dtype=None if numeric else object), mask=False)
