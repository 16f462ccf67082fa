"""What an answer is, how it is written down, and when two of them are the same."""

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reshuffle.errors import AccuracyWarning, ArgumentError, BudgetError, UnsupportedError

PATH = Path(__file__).with_name("answers.json")
EXACT = 1e-10
"""Relative difference that rounding may make of an exact answer."""
_GROWN, _SMALL = 10.0, 1e-2
"""An error that grew by more than this factor, and beyond this share of the answer, is another answer."""


@dataclass(frozen=True)
class Answer:
    """Numbers, with an error for each, or for each vector of them.

    value : any shape
    error : value.shape without the last `vector` axes, or a number
    kind : str
        "exact", or in which sense `error` is meant.
    vector : int
        How many of the last axes are those of a vector or matrix, which is compared in the largest norm.
    """

    value: Any
    error: Any = 0.0
    kind: str = "exact"
    vector: int = 0

    def written(self) -> dict[str, Any]:
        """The answer as JSON."""
        value = np.asarray(self.value, dtype=float)
        plain = {"value": value.tolist()}
        if self.vector:
            plain["vector"] = self.vector
        if self.kind != "exact":
            outer = value.shape[: value.ndim - self.vector]
            error = np.broadcast_to(np.asarray(self.error, dtype=float), outer)
            # Two digits that are not below the error itself.
            plain |= {"error": [float(f"{entry * 1.01:.3g}") for entry in error.ravel()], "kind": self.kind}
        return plain


Written = dict[str, Any]
Case = Callable[[], Answer]


def answered(case: Case) -> Written:
    """The answer of a case, or the name of the error with which it is refused."""
    with warnings.catch_warnings():
        # An answer that is less accurate than asked for says so by its error.
        warnings.simplefilter("ignore", AccuracyWarning)
        try:
            return case().written()
        except (UnsupportedError, ValueError, BudgetError) as refusal:
            # An ArgumentError is a ValueError with fields.
            return {"refused": "ValueError" if isinstance(refusal, ArgumentError) else type(refusal).__name__}


def difference(recorded: Written, found: Written) -> str:
    """What differs between a recorded answer and the present one, in words; empty if they are the same."""
    if "refused" in recorded or "refused" in found:
        same = recorded.get("refused") == found.get("refused")
        return "" if same else f"{_brief(found)} in place of {_brief(recorded)}"
    old, new = (np.asarray(answer["value"], dtype=float) for answer in (recorded, found))
    if old.shape != new.shape:
        return f"shape {new.shape} in place of {old.shape}"
    if "kind" not in recorded and "kind" in found:
        return f"no longer exact, but with an error ({found['kind']}) of {max(found['error'])}"
    axes = tuple(range(old.ndim - recorded.get("vector", 0), old.ndim))
    outer = old.shape[: old.ndim - len(axes)]
    allowed, errors = np.zeros(outer), []
    for answer in (recorded, found):
        errors.append(np.reshape(answer.get("error", np.zeros(outer)), outer).astype(float))
        allowed = allowed + errors[-1]
    finite = np.isfinite(old)
    alike = np.array_equal(finite, np.isfinite(new))
    alike = alike and np.array_equal(old[~finite], new[~finite], equal_nan=True)
    # What may grow without bound is open where the error is infinite.
    if not alike and not np.isinf(allowed).all():
        return f"{_brief(found)} in place of {_brief(recorded)}: other entries are infinite"
    old, new = np.where(finite, old, 0.0), np.where(finite & np.isfinite(new), new, 0.0)
    sizes = np.abs(old).max(axis=axes, initial=0.0)
    apart = np.abs(new - old).max(axis=axes, initial=0.0)
    excess = apart - allowed - EXACT * sizes
    if (excess > 0).any():
        worst = np.unravel_index(np.argmax(excess), outer)
        return (
            f"{apart[worst]:.3g} apart where {allowed[worst]:.3g} are allowed and the answer is of size "
            f"{sizes[worst]:.6g}: {_brief(found)} in place of {_brief(recorded)}"
        )
    grown = (errors[1] > _GROWN * errors[0]) & (errors[1] > _SMALL * sizes) & np.isfinite(errors[0])
    return f"the error grew from {errors[0]} to {errors[1]}" if grown.any() else ""


def _brief(answer: Written) -> str:
    if "refused" in answer:
        return f"{answer['refused']}"
    text = ", ".join(f"{number:.12g}" for number in np.ravel(answer["value"])[:6])
    return f"[{text}{', ...' if np.size(answer['value']) > 6 else ''}]"


def read() -> dict[str, Written]:
    """The record."""
    return json.loads(PATH.read_text())


def write(record: dict[str, Written]) -> None:
    """Replace the record: one answer a line, so that changes are seen line by line."""
    lines = [f"{json.dumps(name)}: {json.dumps(record[name])}" for name in sorted(record)]
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n")
