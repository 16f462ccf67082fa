"""What was tried, as GridSearchCV's cv_results_ has it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from reshuffle._core import FloatArray
from reshuffle.sklearn.held_out import HeldOut


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
