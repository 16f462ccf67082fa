"""Errors of answers that are not exact: their kinds, their size from random draws, and how they are written.

Draws are spread over a few groups, and the answer without each group in turn gives its standard error. So few
groups know their own spread no better than Student's t says: the error is as many standard errors as make it cover
in 999 of 1000 cases if the groups are normal. The margin to the 99 of 100 that are
reported is for what is not normal, and for checking the error more than once.
"""

import math
import warnings
from decimal import Context, Decimal
from typing import Literal, TypeAlias, cast, get_args

import numpy as np
import scipy.special

from reshuffle._arrays import FloatArray
from reshuffle._linalg import norms

_LEAST, _MOST = Decimal("1e-4"), Decimal("1e6")
"""Sizes from the first to below the second are written without an exponent."""
_DIGITS = 6
"""Significant digits of a value, at most: nobody reads more."""
MOST_GROUPS, FEWEST_GROUPS = 16, 8
"""Groups of draws. More would tell the error better, and be more to remember and to decompose."""
_LEVEL = 0.999
_GROUP_BYTES = 2e9
_MARGIN = 1.2
"""More draws than the estimate says, so that the next check is likely to be the last."""


def significant(value: float, digits: int = _DIGITS) -> str:
    """A number to so many significant digits, without an exponent from 1e-4 to 1e6.

    >>> significant(0.61478912), significant(3001.4, 2), significant(67.31, 2)
    ('0.614789', '3000', '67')
    >>> significant(1e-9), significant(23456789.0), significant(math.inf)
    ('1e-09', '2.34568e+07', 'inf')
    """
    value = float(value)
    if not value or not math.isfinite(value):
        return f"{value if value else abs(value):g}"
    rounded = _rounded(value, digits)
    if not _LEAST <= abs(rounded) < _MOST:
        return f"{value:.{digits}g}"
    text = f"{rounded:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def factor(value: float) -> str:
    """A factor as text, to two digits: x6.7."""
    return f"x{significant(value, 2)}"


def plus_minus(value: float, error: float, sign: str = "±") -> str:
    """A value and its error: two significant digits of the error, and the value to the same decimal.

    Without an exponent where the larger of both is from 1e-4 to 1e6, and with one for both elsewhere. An error of
    zero is left out. A value has six significant digits at most; an error below these is written by itself.

    >>> plus_minus(3001.2, 178.2), plus_minus(0.48123, 0.0311), plus_minus(0.61478912, 0.0)
    ('3000 ± 180', '0.481 ± 0.031', '0.614789')
    >>> plus_minus(3.0012e7, 1.782e6), plus_minus(1.5e-9, 2e-11, "+-"), plus_minus(2.5, 30.0)
    ('(3.00 ± 0.18)e+07', '(1.500 +- 0.020)e-09', '2 ± 30')
    >>> plus_minus(0.61478912, 9.7e-9), plus_minus(2.5, math.inf)
    ('0.614789 ± 9.7e-09', '2.5 ± inf')
    """
    value, error = float(value), abs(float(error))
    if not error:
        return significant(value)
    apart = f"{significant(value)} {sign} {significant(error, 2)}"
    if not (math.isfinite(value) and math.isfinite(error)):
        return apart
    off = _rounded(error, 2)
    # That of the second digit; 10 has two, although it is one digit longer than the 9.99 that it was rounded from.
    last = off.adjusted() - 1
    if value and Decimal(value).adjusted() - last >= _DIGITS:
        return apart
    pair = [one.quantize(Decimal((0, (1,), last))) for one in (Decimal(value), off)]
    if not pair[0]:
        pair[0] = abs(pair[0])
    largest = max(map(abs, pair))
    if _LEAST <= largest < _MOST:
        return f" {sign} ".join(f"{one:f}" for one in pair)
    power = largest.adjusted()
    mantissas = f" {sign} ".join(f"{one.scaleb(-power):f}" for one in pair)
    return f"({mantissas})e{power:+03d}"


def _rounded(value: float, digits: int) -> Decimal:
    return Context(prec=digits).plus(Decimal(value))


ErrorKind: TypeAlias = Literal["exact", "bound", "confidence 99%", "estimate"]
"""The kind of an `error`, the possible deviation of an answer.

"exact": not at all, beyond rounding; "bound": never by more, proven; "confidence 99%": in at least 99 of 100
cases by no more, over what was drawn; "estimate": by about that much.
"""


class _Confidence(str):
    """The word "confidence 99%", which for one more release equals its old name, too."""

    def __eq__(self, other: object) -> bool:
        return _is_old_name(other) or str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not (_is_old_name(other) or str.__eq__(self, other))

    __hash__ = str.__hash__


def _is_old_name(word: object) -> bool:
    found = isinstance(word, str) and str.__eq__(word, "three standard errors")
    if found:
        message = 'error_kind "three standard errors" is now "confidence 99%".'
        warnings.warn(message, DeprecationWarning, stacklevel=3)
    return found


CONFIDENCE = cast(Literal["confidence 99%"], _Confidence("confidence 99%"))
"""The kind of every error that comes from random draws."""

ERROR_KINDS: dict[str, ErrorKind] = {"exact": "exact", "cavity": "estimate", "sampling": CONFIDENCE}
"""The kind of error that each way of averaging over orders has."""


def weakest(*kinds: ErrorKind) -> ErrorKind:
    """The weakest of these kinds, that of the sum of errors of each."""
    return max(kinds, key=get_args(ErrorKind).index, default="exact")


def with_largest_error(shape: tuple[int, ...], error: FloatArray, kind: ErrorKind) -> str:
    """An array in words: its shape, and the largest of its errors where there is one."""
    largest = float(np.max(error, initial=0.0))
    return f"of shape {shape}" + (f" +- {significant(largest, 2)} at most ({kind})" if largest else "")


def with_error(value: FloatArray | float, error: FloatArray | float, kind: ErrorKind = "exact") -> str:
    """A number in words, with its error where there is one: 2.000 +- 0.012 (bound)."""
    return plus_minus(float(value), float(error), "+-") + (f" ({kind})" if error else "")


def quantile(groups: int) -> float:
    """The number of standard errors in an error that comes from so many groups: 4.07 for 16."""
    return float(scipy.special.stdtrit(groups - 1, (1 + _LEVEL) / 2)) if groups > 1 else math.inf


def number_of_groups(flops: float, size: float, budget: float) -> int:
    """The number of groups, if one draw for each takes `flops` operations and `size` bytes."""
    affordable = min(budget / max(flops, 1.0), _GROUP_BYTES / max(size, 1.0))
    return int(min(max(affordable, FEWEST_GROUPS), MOST_GROUPS))


def further_rounds(rounds: int, excess: float, affordable: float) -> int:
    """The number of rounds of draws to add to `rounds`, whose error is `excess` times what it should be.

    Every check of the error is a chance to stop because it happens to be small, so checks must be few: no addition
    is smaller than a quarter of what there is.
    """
    missing = _MARGIN * excess * excess * rounds - rounds
    return int(min(math.ceil(min(max(missing, rounds / 4, 1.0), 1e15)), affordable))


def error_of_mean(values: FloatArray) -> FloatArray:
    """Error of the mean of independent values along the first axis; inf if any is infinite."""
    count = len(values)
    with np.errstate(over="ignore", invalid="ignore"):
        spread = norms(np.moveaxis(values - values.mean(axis=0), 0, -1))
        error = quantile(count) * spread / math.sqrt(count * max(count - 1, 1))
    return np.where(np.isfinite(error), error, np.inf)


def of_replicas(kind: ErrorKind, answer: FloatArray, replicas: FloatArray) -> FloatArray:
    """Error of an answer, from the answers of replicas along the first axis.

    Replicas of drawn orders leave out one group each. Those of an estimate are each put off by as much as it may
    be, in different directions, and their effects add up like independent ones.
    """
    if kind != "estimate":
        return jackknife(answer, replicas)
    with np.errstate(over="ignore", invalid="ignore"):
        error = norms(np.moveaxis(replicas - answer, 0, -1))
    return np.where(np.isfinite(error), error, np.inf)


def jackknife(answer: FloatArray, without: FloatArray) -> FloatArray:
    """Error of an answer, from those without each group of draws in turn, along the first axis.

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
