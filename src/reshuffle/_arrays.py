"""Array types, checks of arguments, and the arrays of other libraries.

Each check returns the cleaned value, or names the argument, the allowed range and the value. Inside the package
values are trusted; nothing is checked twice.
"""

import math
import numbers
import os
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeAlias, cast

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

from reshuffle.errors import BudgetError

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]
AnyArray: TypeAlias = NDArray[Any]

_UNKNOWN_MEMORY = 1.6e10
"""Bytes that a machine is taken to have which does not tell."""
_SHARE = 0.5
"""Of the memory, that features may take: what is made of them needs some too."""
_MISSING = ("NoneType", "NAType", "NaTType")
"""Types that stand for a missing value, by name: pandas is not imported to be asked for its own."""


def without_graph(value: Any) -> Any:
    """A tensor, known by its methods, as one that numpy can read; anything else as it is."""
    # torch refuses numpy a tensor that is part of a graph or on another device, and is not imported to be asked.
    if callable(getattr(value, "detach", None)) and callable(getattr(value, "cpu", None)):
        return value.detach().cpu()
    return value


def dense(name: str, value: Any) -> Any:
    """A sparse matrix or array of any format as a dense one, if that fits into memory; anything else as it is.

    >>> dense("X", scipy.sparse.eye_array(2)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if not scipy.sparse.issparse(value):
        return value
    given = cast(Any, value)
    # Whatever it holds becomes float64.
    needed = 8.0 * float(math.prod(given.shape))
    if needed > _SHARE * memory():
        raise BudgetError(
            f"{name} is stored dense, which takes {needed:.2g} bytes for its shape {given.shape}, but this machine "
            f"has {memory():.2g}, of which at most half is used; try fewer rows, or fewer columns (select some, or "
            "project them)."
        )
    return given.toarray()


def memory() -> float:
    """The bytes of memory that this machine has."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * float(os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return _UNKNOWN_MEMORY


def place(name: str, array: AnyArray, wrong: BoolArray) -> str:
    """Where the first of the wrong entries is, and what it is.

    >>> place("X", np.array([["1", "red"]]), np.array([[False, True]]))
    "X[0, 1] is 'red'"
    """
    where = tuple(int(i) for i in np.argwhere(wrong)[0]) if array.ndim else ()
    entry = array[where]
    shown = repr(entry.item() if isinstance(entry, np.generic) else entry)
    return f"{name}[{', '.join(map(str, where))}] is {shown}" if where else f"it is {shown}"


def wrong_entries(array: AnyArray, is_right: Callable[[Any], bool]) -> BoolArray:
    """Which entries of an array of another kind are no real numbers: all of them, unless told one by one."""
    if array.dtype.kind == "O":
        return np.array([not is_right(entry) for entry in array.flat], dtype=bool).reshape(array.shape)
    if array.dtype.kind == "c" and array.imag.any():
        return np.asarray(array.imag != 0)
    if array.dtype.kind in "US":
        # Numbers beside text have become text too, and are not what is wrong.
        words = np.array([not _reads_as_number(entry) for entry in array.flat], dtype=bool)
        return words.reshape(array.shape) if words.any() else np.ones(array.shape, dtype=bool)
    return np.ones(array.shape, dtype=bool)


def _reads_as_number(text: Any) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def are_missing(array: AnyArray, wrong: BoolArray) -> bool:
    """Whether all that is wrong with the entries is that they are missing."""
    return array.ndim > 0 and all(type(entry).__name__ in _MISSING for entry in array[wrong])


def advice_on_entries(array: AnyArray) -> str:
    """What to do about entries of another kind than numbers."""
    if array.dtype.kind == "c":
        return "take their real parts, if the others are zero"
    if array.dtype.kind in "Mm":
        return "convert times to numbers, such as days since the first"
    return "one-hot encode categories, and convert text to numbers, first"


_DROP_ROWS = "drop or impute such rows first"


def real_array(name: str, value: Any, advice: str = _DROP_ROWS) -> FloatArray:
    """Return `value` as finite float64, without a copy where it is that already.

    Lists, integers, flags, float32, pandas frames, tensors and sparse matrices (made dense) are accepted; text,
    complex numbers, missing values, NaN and infinity are refused, with the place of the first.

    >>> real_array("y", [1, 2])
    array([1., 2.])
    >>> real_array("y", [1.0, float("nan")])
    Traceback (most recent call last):
    ...
    ValueError: y must be finite, but y[1] is nan; drop or impute such rows first.
    """
    value = dense(name, value)
    if np.ma.is_masked(value):
        raise ValueError(f"{name} must have no masked entries; drop or impute them first.")
    array = any_array(name, value)
    if array.dtype.kind == "O" and all(map(_is_number_or_flag, array.flat)):
        array = array.astype(np.float64)
    if array.dtype.kind not in "biuf":
        _refuse_entries(name, value, array)
    with np.errstate(over="ignore"):
        # A long double beyond the range of float64 becomes infinite, and is refused as such below.
        array = array.astype(np.float64, copy=False)
    _require_finite(name, array, advice)
    return array


def any_array(name: str, value: Any) -> AnyArray:
    """Return `value` as an array of whatever it holds, a tensor without its gradient."""
    try:
        return np.asarray(without_graph(value))
    except (RuntimeError, TypeError, ValueError) as error:
        message = f"{name} must be a rectangular array of numbers that numpy can read: {error}"
    raise ValueError(message.rstrip(".") + ".")


def _refuse_entries(name: str, value: Any, array: AnyArray) -> NoReturn:
    """Say which entries are no numbers, where the first is, and what to do."""
    wrong = wrong_entries(array, _is_number_or_flag)
    first = place(name, array, wrong)
    if are_missing(array, wrong):
        raise ValueError(
            f"{name} must have no missing values, but {first}; impute them, or drop such rows first."
        )
    kind, what_to_do = _of_another_kind(value, array), advice_on_entries(array)
    raise TypeError(f"{name} must hold real numbers, but {kind}: {first}; {what_to_do}.")


def _of_another_kind(value: Any, array: AnyArray) -> str:
    """What is wrong with the type of the entries: which columns of a table hold them, if it has any."""
    names = getattr(value, "columns", None)
    kinds = getattr(value, "dtypes", None)
    if names is None or kinds is None or np.ndim(kinds) != 1 or array.ndim != 2:
        return f"its dtype is {array.dtype}"
    columns = zip(names, array.T, strict=True)
    wrong = [repr(name) for name, entries in columns if not all(map(_is_number_or_flag, entries))]
    if not wrong:
        return f"its dtype is {array.dtype}"
    named = f"column {wrong[0]} does" if len(wrong) == 1 else f"columns {', '.join(wrong)} do"
    return f"{named} not; drop such columns, or encode them as numbers first"


def _require_finite(name: str, array: FloatArray, advice: str) -> None:
    # The extremes show a NaN or an infinity without the mask of n * p bytes that isfinite would make.
    if array.size == 0 or (math.isfinite(array.min()) and math.isfinite(array.max())):
        return
    where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
    index = ", ".join(map(str, where))
    raise ValueError(f"{name} must be finite, but {name}[{index}] is {array[where]}; {advice}.")


def matrix(name: str, value: Any) -> FloatArray:
    """Return a two-dimensional array with at least one row and one column.

    >>> matrix("X", [1.0, 2.0])
    Traceback (most recent call last):
    ...
    ValueError: X must be two-dimensional, (rows, columns), but its shape is (2,); try X.reshape(-1, 1).
    """
    array = real_array(name, value)
    if array.ndim != 2:
        raise ValueError(
            f"{name} must be two-dimensional, (rows, columns), but its shape is {array.shape}; "
            f"try {name}.reshape(-1, 1)."
        )
    if array.size == 0:
        raise ValueError(f"{name} must have at least one row and one column, but its shape is {array.shape}.")
    return array


def vector(name: str, value: Any, length: int, meaning: str) -> FloatArray:
    """Return a vector of the given length; a single column counts as a vector.

    >>> vector("y", [1, 2, 3], 2, "one entry per row of X")
    Traceback (most recent call last):
    ...
    ValueError: y must have shape (2,), one entry per row of X, but its shape is (3,).
    """
    array = real_array(name, value)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape != (length,):
        raise ValueError(f"{name} must have shape ({length},), {meaning}, but its shape is {array.shape}.")
    return array


def whole_number(name: str, value: Any, low: int, high: int | None = None, hint: str = "") -> int:
    """Return an int between `low` and `high`.

    >>> whole_number("batches", 0, 1, 10)
    Traceback (most recent call last):
    ...
    ValueError: batches must be a whole number between 1 and 10, but it is 0.
    """
    allowed = f"of at least {low}" if high is None else f"between {low} and {high}"
    number = _whole_number(value)
    if number is None or number < low or (high is not None and number > high):
        raise ValueError(f"{name} must be a whole number {allowed}, but it is {value!r}. {hint}".rstrip())
    return number


def nonnegative(name: str, value: Any) -> float:
    """Return a finite float that is zero or more.

    >>> nonnegative("step", -0.1)
    Traceback (most recent call last):
    ...
    ValueError: step must be a finite number >= 0, but it is -0.1.
    """
    number = _real_number(value)
    if not (number is not None and math.isfinite(number) and number >= 0):
        raise ValueError(f"{name} must be a finite number >= 0, but it is {value!r}.")
    return number


def positive(name: str, value: Any, meaning: str = "") -> float:
    """Return a finite float above zero.

    >>> positive("rtol", 0)
    Traceback (most recent call last):
    ...
    ValueError: rtol must be a finite number > 0, but it is 0.
    >>> positive("aspect", -1, "the limit of p/n")
    Traceback (most recent call last):
    ...
    ValueError: aspect must be a finite number > 0, the limit of p/n, but it is -1.
    """
    number = _real_number(value)
    if not (number is not None and math.isfinite(number) and number > 0):
        allowed = f"a finite number > 0, {meaning}" if meaning else "a finite number > 0"
        raise ValueError(f"{name} must be {allowed}, but it is {value!r}.")
    return number


def choice(name: str, value: Any, allowed: Sequence[str]) -> str:
    """Return one of a few words.

    >>> choice("normalize", "mean", ("own", "equal"))
    Traceback (most recent call last):
    ...
    ValueError: normalize must be "own" or "equal", but it is 'mean'.
    """
    if not isinstance(value, str) or value not in allowed:
        words = [f'"{word}"' for word in allowed]
        raise ValueError(f"{name} must be {', '.join(words[:-1])} or {words[-1]}, but it is {value!r}.")
    return value


def flag(name: str, value: Any) -> bool:
    """Return True or False.

    >>> flag("drop_last", 1)
    Traceback (most recent call last):
    ...
    ValueError: drop_last must be True or False, but it is 1.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, but it is {value!r}.")
    return bool(value)


def _real_number(value: Any) -> float | None:
    """A float if `value` is a real number (or a zero-dimensional array of one) within its range, else None."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if not _is_real(value):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _is_real(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))


def _is_number_or_flag(value: Any) -> bool:
    """Whether an entry of a table counts as a number: a column of True and False does, alone or beside others."""
    return isinstance(value, (bool, np.bool_)) or _real_number(value) is not None


def _rounded(number: Any) -> float:
    """The nearest float64, infinity beyond their range."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _whole_number(value: Any) -> int | None:
    """An int if `value` is a whole number within the range of float64, to its last digit, else None."""
    number = _real_number(value)
    if number is None or not number.is_integer():
        return None
    return int(value) if isinstance(value, numbers.Integral) else int(number)


def epochs(value: Any) -> FloatArray:
    """Return whole numbers of epochs >= 0 as float64, of any shape; infinity asks for the limit.

    >>> epochs([0, 10, math.inf])
    array([ 0., 10., inf])
    >>> epochs(2.5)
    Traceback (most recent call last):
    ...
    ValueError: epochs must be whole numbers >= 0 or math.inf, but one is 2.5.
    """
    return _clock("epochs", value, whole=True)


def times(value: Any) -> FloatArray:
    """Return times >= 0 as float64, of any shape; infinity asks for the limit."""
    return _clock("times", value, whole=False)


def _clock(name: str, value: Any, whole: bool) -> FloatArray:
    array = any_array(name, value)
    if array.dtype.kind == "O" and all(_is_real(entry) for entry in array.flat):
        # Whole numbers beyond 2^63, which numpy keeps as objects, and whatever stands beside them.
        array = np.array([_rounded(entry) for entry in array.flat]).reshape(array.shape)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be numbers, but their dtype is {array.dtype}.")
    ticks = array.astype(np.float64)
    wrong = ~(ticks >= 0)
    if whole:
        wrong |= ticks != np.floor(ticks)
    if wrong.any():
        kind = "whole numbers" if whole else "numbers"
        raise ValueError(f"{name} must be {kind} >= 0 or math.inf, but one is {float(ticks[wrong][0])}.")
    return ticks


def generator(name: str, value: Any) -> np.random.Generator:
    """Return a numpy Generator from a seed >= 0, a SeedSequence or a Generator."""
    if isinstance(value, np.random.Generator):
        return value
    if isinstance(value, np.random.SeedSequence):
        return np.random.default_rng(value)
    return np.random.default_rng(whole_number(name, value, 0, hint="Or pass a numpy Generator."))


def semidefinite(name: str, matrix: FloatArray) -> FloatArray:
    """Return a square matrix made exactly symmetric, if it is so and positive semidefinite up to rounding."""
    size = float(np.abs(matrix).max())
    if size == 0.0:
        return matrix
    # Half the matrix and its transpose: the sum of two entries may be beyond the range of numbers.
    skew = 2 * float(np.abs(matrix / 2 - matrix.T / 2).max())
    if skew > 1e-8 * size:
        raise ValueError(
            f"{name} must be symmetric, but it differs from its transpose by up to {skew:.3g}; "
            f"try ({name} + {name}.T) / 2 if that is rounding."
        )
    symmetric = (matrix / 2 + matrix.T / 2) / size
    # A Cholesky factor of Sigma plus its own rounding error exists exactly when Sigma has no eigenvalue
    # below that error, at a tenth of the price of the eigenvalues.
    slack = 1e-10 * len(matrix)
    try:
        scipy.linalg.cholesky(symmetric + slack * np.eye(len(matrix)), check_finite=False)
    except scipy.linalg.LinAlgError:
        smallest = size * float(scipy.linalg.eigvalsh(symmetric, driver="evd")[0])
        raise ValueError(
            f"{name} must be positive semidefinite, but its smallest eigenvalue is {smallest:.6g}."
        ) from None
    return symmetric * size


def checked_weights(value: Any, n: int) -> FloatArray:
    """Return weights (n,), finite and positive.

    >>> checked_weights([1, 0, 2], 3)
    Traceback (most recent call last):
    ...
    ValueError: sample_weight must be positive, but sample_weight[1] is 0.0; drop rows that do not count.
    """
    weights = vector("sample_weight", value, n, "one entry per row of X")
    if weights.min() <= 0:
        where = int(np.argmax(weights <= 0))
        what = "drop rows that do not count" if weights[where] == 0 else "weights are precisions"
        raise ValueError(
            f"sample_weight must be positive, but sample_weight[{where}] is {weights[where]}; {what}."
        )
    return weights


def weighted(X: FloatArray, y: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The rows of X (n, p) and y (n,) or (n, t), multiplied by the roots of the weights."""
    roots = np.sqrt(weights)[:, np.newaxis]
    return X * roots, y * roots.reshape(-1, *[1] * (y.ndim - 1))


def checked_responses(value: Any, n: int) -> FloatArray:
    """Return y, (n,) or (n, t) with at least one column.

    >>> checked_responses([[1, 2], [3, 4], [5, 6]], 3).shape
    (3, 2)
    >>> checked_responses(np.zeros((2, 3)), 3)
    Traceback (most recent call last):
    ...
    ValueError: y must have shape (3,) or (3, outputs), one row per row of X, but its shape is (2, 3).
    """
    array = real_array("y", value)
    if array.ndim != 2:
        return vector("y", array, n, "one entry per row of X")
    if len(array) != n or not array.shape[1]:
        raise ValueError(
            f"y must have shape ({n},) or ({n}, outputs), one row per row of X, but its shape is {array.shape}."
        )
    return array


def checked_columns(name: str, value: Any, length: int, outputs: int | None, meaning: str) -> FloatArray:
    """Return a vector (length,), or a column per output (length, t) if there are several."""
    if outputs is None:
        return vector(name, value, length, meaning)
    array = real_array(name, value)
    if array.shape != (length, outputs):
        raise ValueError(
            f"{name} must have shape ({length}, {outputs}), {meaning} and one column per output, but its shape is "
            f"{array.shape}."
        )
    return array


def checked_noise(value: Any, outputs: int | None) -> float | FloatArray:
    """Return a number >= 0, or one per output (t,)."""
    if outputs is None or np.ndim(any_array("noise", value)) == 0:
        number = nonnegative("noise", value)
        return number if outputs is None else np.full(outputs, number)
    array = vector("noise", value, outputs, "one entry per output")
    if array.min() < 0:
        worst = int(array.argmin())
        raise ValueError(f"noise must be finite numbers >= 0, but noise[{worst}] is {array[worst]}.")
    return array


def checked_output(value: Any, outputs: int | None) -> int:
    """Return the number of an output; there must be several."""
    if outputs is None:
        raise ValueError("output(number) needs responses y of shape (n, outputs), but y is a vector (n,).")
    return whole_number("number", value, 0, outputs - 1)
