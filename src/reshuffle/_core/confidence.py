"""How far an answer from random draws may be off, and how many more draws would do.

The draws are spread over a few groups, and the answer without each group in turn tells its standard error. So few
groups know their own spread no better than Student's t says: the error is as many standard errors as make it cover
in 999 of 1000 cases if the groups are normal. That leaves room for what is not normal, and for looking more than
once, in the promise: 99 of 100.
"""

import math
from typing import Literal, TypeAlias, get_args

import numpy as np
import scipy.special

from reshuffle._core import FloatArray, formatting
from reshuffle._core.numerics import norms

ErrorKind: TypeAlias = Literal["exact", "bound", "three standard errors", "estimate"]
"""In which sense `error` tells how far an answer may be off.

"exact": not at all, beyond rounding; "bound": never by more, proven; "three standard errors": in at least 99 of 100
cases by no more, over what was drawn; "estimate": by about that much, as far as can be told.
"""

ERROR_KINDS: dict[str, ErrorKind] = {
    "exact": "exact",
    "series": "bound",
    "cavity": "estimate",
    "sampling": "three standard errors",
}
"""The kind of error that each way of averaging over orders has."""


def weakest(*kinds: ErrorKind) -> ErrorKind:
    """The kind of an error that is the sum of errors of these kinds: that which promises least.

    >>> weakest("exact", "bound"), weakest("three standard errors", "bound"), weakest()
    ('bound', 'three standard errors', 'exact')
    """
    return max(kinds, key=get_args(ErrorKind).index, default="exact")


def with_largest_error(shape: tuple[int, ...], error: FloatArray, kind: ErrorKind) -> str:
    """An array in words: its shape, and the largest of its errors where there is one.

    >>> with_largest_error((2,), np.array([0.5, 0.0]), "estimate"), with_largest_error((3,), np.zeros(3), "exact")
    ('of shape (2,) +- 0.5 at most (estimate)', 'of shape (3,)')
    """
    largest = float(np.max(error, initial=0.0))
    return f"of shape {shape}" + (
        f" +- {formatting.significant(largest, 2)} at most ({kind})" if largest else ""
    )


def with_error(value: FloatArray | float, error: FloatArray | float, kind: ErrorKind = "exact") -> str:
    """A number in words, with its error where there is one.

    >>> with_error(2.0, 0.0), with_error(2.0, 0.0123, "bound")
    ('2', '2.000 +- 0.012 (bound)')
    """
    return formatting.with_error(float(value), float(error), "+-") + (f" ({kind})" if error else "")


MOST_GROUPS = 16
"""Groups of draws. More would tell the error better, and be more to remember and to decompose."""
FEWEST_GROUPS = 8
_LEVEL = 0.999
_GROUP_BYTES = 2e9
_MARGIN = 1.2
"""More draws than the estimate says, so that the next look is likely to be the last."""


def quantile(groups: int) -> float:
    """How many standard errors an error is, told by so many groups.

    >>> round(quantile(16), 3), round(quantile(8), 3), round(quantile(10_000), 2)
    (4.073, 5.408, 3.29)
    """
    return float(scipy.special.stdtrit(groups - 1, (1 + _LEVEL) / 2)) if groups > 1 else math.inf


def number_of_groups(flops: float, size: float, budget: float) -> int:
    """How many groups there can be, if one draw for each takes `flops` operations and `size` bytes."""
    affordable = min(budget / max(flops, 1.0), _GROUP_BYTES / max(size, 1.0))
    return int(min(max(affordable, FEWEST_GROUPS), MOST_GROUPS))


def further_rounds(rounds: int, excess: float, affordable: float) -> int:
    """How many rounds of draws to add to those there are, whose error is `excess` times what it should be.

    Every look at the error is a chance to stop because it happens to look small, so looks must be few: no addition
    is smaller than a quarter of what there is.

    >>> further_rounds(1, 10.0, 1e9), further_rounds(100, 1.01, 1e9), further_rounds(100, 1.01, 7.5)
    (119, 25, 7)
    """
    missing = _MARGIN * excess * excess * rounds - rounds
    return int(min(math.ceil(min(max(missing, rounds / 4, 1.0), 1e15)), affordable))


def error_of_mean(values: FloatArray) -> FloatArray:
    """How far the mean of independent values along the first axis may be off; inf if any is infinite."""
    count = len(values)
    with np.errstate(over="ignore", invalid="ignore"):
        spread = norms(np.moveaxis(values - values.mean(axis=0), 0, -1))
        error = quantile(count) * spread / math.sqrt(count * max(count - 1, 1))
    return np.where(np.isfinite(error), error, np.inf)


def of_replicas(kind: ErrorKind, answer: FloatArray, replicas: FloatArray) -> FloatArray:
    """How far an answer may be off, from the answers of replicas along the first axis.

    Replicas of drawn orders leave out one group each. Those of an estimate are each put off by as much as it may
    be, in different directions, and their effects add up like independent ones.

    >>> round(float(of_replicas("estimate", np.array(1.0), np.array([1.3, 0.6]))), 3)
    0.5
    """
    if kind != "estimate":
        return jackknife(answer, replicas)
    with np.errstate(over="ignore", invalid="ignore"):
        error = norms(np.moveaxis(replicas - answer, 0, -1))
    return np.where(np.isfinite(error), error, np.inf)


def jackknife(answer: FloatArray, without: FloatArray) -> FloatArray:
    """How far an answer may be off, from what it is without each group of draws in turn, along the first axis.

    Standard errors, plus the bias that an answer has which is not linear in what was drawn.

    >>> values = np.array([1.0, 2.0, 4.0, 5.0])
    >>> without = np.array([np.delete(values, group).mean() for group in range(4)])
    >>> bool(np.isclose(jackknife(values.mean(), without), error_of_mean(values)))
    True
    """
    groups = len(without)
    with np.errstate(over="ignore", invalid="ignore"):
        centre = without.mean(axis=0)
        spread = norms(np.moveaxis(without - centre, 0, -1)) * math.sqrt((groups - 1) / groups)
        error = quantile(groups) * spread + (groups - 1) * np.abs(centre - answer)
    return np.where(np.isfinite(error), error, np.inf)
