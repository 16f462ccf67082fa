"""Array types, checks of arguments, and the arrays of other libraries.

Each check returns the cleaned value, or names the argument, the allowed range and the value. Inside the package
values are trusted; nothing is checked twice.
"""

import difflib
import inspect
import math
import numbers
import os
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NoReturn, TypeAlias, TypeVar, cast

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

from reshuffle.errors import ArgumentError, BudgetError, Hint

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.intp]
"""Indices: of 32 bits in a browser, where numpy refuses wider ones."""
BoolArray: TypeAlias = NDArray[np.bool_]
AnyArray: TypeAlias = NDArray[Any]

MOST_EPOCHS = 1e15
"""Beyond, whole numbers run out of digits soon; `math.inf` asks for the limit."""
_UNKNOWN_MEMORY = 1.6e10
"""Bytes assumed on a machine that does not tell."""
_SHARE, _MOST_OF_MEMORY = 0.5, 0.8
"""Shares of the memory that features, and what is computed from them, may take."""
_MISSING = ("NoneType", "NAType", "NaTType")
"""Types of missing values, by name: pandas is not imported to ask for its own."""


_OTHER_WORDS = {
    "lr": ("step", "step=lr with the loss MSELoss() / 2, and step=2*lr with MSELoss()"),
    "learning_rate": (
        "step",
        "step=learning_rate with torch's loss MSELoss() / 2, and 2*learning_rate with MSELoss()",
    ),
    "weight_decay": (
        "penalty",
        "penalty=weight_decay with torch's loss MSELoss() / 2, and weight_decay/2 with MSELoss()",
    ),
}
"""Arguments of torch: the names that they have here, and what to write; torch's MSELoss has no factor 1/2."""
Function = TypeVar("Function", bound=Callable[..., Any])


def with_known_keywords(function: Function) -> Function:
    """Decorate a function: a keyword that it has not got is answered with the one to use."""
    names = list(inspect.signature(function).parameters)

    @wraps(function)
    def called(*positional: Any, **named: Any) -> Any:
        for name in named:
            if name in names:
                continue
            known, advice = _OTHER_WORDS.get(name, ("", ""))
            if known not in names:
                near = difflib.get_close_matches(name, names, 1)
                advice = f"did you mean {near[0]}?" if near else f"it takes {', '.join(names)}."
                raise TypeError(f"{function.__name__} has no argument {name!r}; {advice}")
            raise TypeError(f"{function.__name__} has no argument {name!r}; write {advice}.")
        return function(*positional, **named)

    return cast(Function, called)


def real_array(
    name: str, value: Any, advice: str = "drop or impute such rows first", first_row: int = 0
) -> FloatArray:
    """Return `value` as finite float64, without a copy where it is that already; its rows begin at `first_row`.

    Lists, integers, flags, float32, pandas frames, tensors and sparse matrices (made dense) are accepted; text,
    complex numbers, missing values, NaN and infinity are refused, with the place of the first.

    >>> real_array("y", [1, 2])
    array([1., 2.])
    >>> real_array("y", [1.0, float("nan")])
    Traceback (most recent call last):
    ...
    reshuffle.errors.ArgumentError: y must be finite, but y[1] is nan; drop or impute such rows first.
    """
    if scipy.sparse.issparse(value):
        value = _dense(name, value)
    if np.ma.is_masked(value):
        raise ValueError(f"{name} must have no masked entries; drop or impute them first.")
    array = any_array(name, value)
    if array.dtype.kind == "O" and all(map(_is_number_or_flag, array.flat)):
        array = array.astype(np.float64)
    if array.dtype.kind not in "biuf":
        _refuse_entries(name, value, array, first_row)
    with np.errstate(over="ignore"):
        # A long double beyond the range of float64 becomes infinite, and is refused as such below.
        array = array.astype(np.float64, copy=False)
    # The extremes show a NaN or an infinity without the mask of n * p bytes that isfinite would make.
    if array.size and not (math.isfinite(array.min()) and math.isfinite(array.max())):
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ArgumentError(name, "be finite", f"{_place(name, where, first_row)} is {array[where]}", advice)
    return array


def any_array(name: str, value: Any) -> AnyArray:
    """Return `value` as an array of whatever it holds, a tensor without its gradient."""
    # torch refuses numpy a tensor that is part of a graph or on another device, and is not imported here.
    if callable(getattr(value, "detach", None)) and callable(getattr(value, "cpu", None)):
        value = value.detach().cpu()
    try:
        return np.asarray(value)
    except (RuntimeError, TypeError, ValueError) as error:
        message = f"{name} must be a rectangular array of numbers that numpy can read: {error}"
    raise ValueError(message.rstrip(".") + ".")


def available_bytes() -> float:
    """Memory that an answer may use: most of what this machine has."""
    return _MOST_OF_MEMORY * memory()


def memory() -> float:
    """The bytes of memory that this machine has."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * float(os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return _UNKNOWN_MEMORY


def _dense(name: str, value: Any) -> Any:
    """A sparse matrix or array of any format as a dense one, if that fits into memory as float64."""
    needed = 8.0 * float(math.prod(value.shape))
    if needed > _SHARE * memory():
        raise BudgetError(
            f"{name} is stored dense, which takes {needed:.2g} bytes for its shape {value.shape}, but this machine "
            f"has {memory():.2g}, of which at most half is used",
            hint=("fewer rows", "fewer columns (select some, or project them)"),
        )
    return value.toarray()


def _place(name: str, where: tuple[int, ...], first_row: int) -> str:
    return f"{name}[{', '.join(map(str, (first_row + where[0], *where[1:])))}]" if where else "it"


def _refuse_entries(name: str, value: Any, array: AnyArray, first_row: int) -> NoReturn:
    """Say which entries are no numbers, where the first is, and what to do."""
    wrong = _wrong_entries(array)
    where = tuple(int(i) for i in np.argwhere(wrong)[0]) if array.ndim else ()
    entry = array[where]
    shown = repr(entry.item() if isinstance(entry, np.generic) else entry)
    first = f"{_place(name, where, first_row)} is {shown}"
    if array.ndim and all(type(entry).__name__ in _MISSING for entry in array[wrong]):
        raise ArgumentError(name, "have no missing values", first, "impute them, or drop such rows first")
    advice = "one-hot encode categories, and convert text to numbers, first"
    if name == "y":
        advice += "; plan(X, labels) and MiniBatchClassifier learn classes"
    if array.dtype.kind == "c":
        advice = "take their real parts, if the others are zero"
    elif array.dtype.kind in "Mm":
        advice = "convert times to numbers, such as days since the first"
    found = f"its dtype is {array.dtype}"
    # The columns of a table that hold them, if it has any.
    names, kinds = getattr(value, "columns", None), getattr(value, "dtypes", None)
    if names is not None and kinds is not None and np.ndim(kinds) == 1 and array.ndim == 2:
        columns = zip(names, array.T, strict=True)
        named = [repr(name) for name, entries in columns if not all(map(_is_number_or_flag, entries))]
        if named:
            which = f"column {named[0]} does" if len(named) == 1 else f"columns {', '.join(named)} do"
            found = f"{which} not; drop such columns, or encode them as numbers first"
    raise TypeError(f"{name} must hold real numbers, but {found}: {first}; {advice}.")


def _wrong_entries(array: AnyArray) -> BoolArray:
    """Mask of the entries of an array of another kind that are no real numbers; all, if none differs."""
    tests: dict[str, Callable[[Any], bool]] = {
        "O": lambda entry: not _is_number_or_flag(entry),
        "c": lambda entry: bool(entry.imag),
        # Numbers next to text have become text too, and are not the mistake.
        "U": _is_text,
        "S": _is_text,
    }
    test = tests.get(array.dtype.kind, lambda _: True)
    wrong = np.array([test(entry) for entry in array.flat], dtype=bool).reshape(array.shape)
    return wrong if wrong.any() else ~wrong


def _is_text(entry: Any) -> bool:
    try:
        float(entry)
    except ValueError:
        return True
    return False


def matrix(name: str, value: Any) -> FloatArray:
    """Return a two-dimensional array with at least one row and one column."""
    array = real_array(name, value)
    if array.ndim != 2:
        shape = f"(len({name}), -1)" if array.ndim > 2 else "(-1, 1)"
        allowed, hint = "be two-dimensional, (rows, columns)", f"try {name}.reshape{shape}"
        raise ArgumentError(name, allowed, f"its shape is {array.shape}", hint)
    if array.size == 0:
        raise ArgumentError(name, "have at least one row and one column", f"its shape is {array.shape}")
    return array


def vector(name: str, value: Any, length: int, meaning: str) -> FloatArray:
    """Return a vector of the given length; a single column counts as a vector."""
    array = real_array(name, value)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape != (length,):
        raise ArgumentError(name, f"have shape ({length},), {meaning}", f"its shape is {array.shape}")
    return array


def whole_number(name: str, value: Any, low: int, high: int | None = None, hint: Hint = "") -> int:
    """Return an int between `low` and `high`.

    >>> whole_number("batches", 0, 1, 10)
    Traceback (most recent call last):
    ...
    reshuffle.errors.ArgumentError: batches must be a whole number between 1 and 10, but it is 0.
    """
    real, number = _real_number(value), None
    if real is not None and real.is_integer():
        # To its last digit, where float64 has not as many.
        number = int(value) if isinstance(value, numbers.Integral) else int(real)
    if number is None or number < low or (high is not None and number > high):
        allowed = f"of at least {low}" if high is None else f"between {low} and {high}"
        raise ArgumentError(name, f"be a whole number {allowed}", f"it is {value!r}", hint)
    return number


def nonnegative(name: str, value: Any) -> float:
    """Return a finite float that is zero or more."""
    number = _real_number(value)
    if number is None or not 0 <= number < math.inf:
        raise ArgumentError(name, "be a finite number >= 0", f"it is {value!r}")
    return number


def below_one(name: str, value: Any) -> float:
    """Return a float that is zero or more, and below one."""
    number = nonnegative(name, value)
    if number >= 1:
        raise ArgumentError(name, "be at least 0 and below 1", f"it is {value!r}")
    return number


def positive(name: str, value: Any, meaning: str = "") -> float:
    """Return a finite float above zero, or say what it means."""
    number = _real_number(value)
    if number is None or not 0 < number < math.inf:
        allowed = "be a finite number > 0" + (f", {meaning}" if meaning else "")
        raise ArgumentError(name, allowed, f"it is {value!r}")
    return number


def choice(name: str, value: Any, allowed: Sequence[str]) -> str:
    """Return one of a few words."""
    if not isinstance(value, str) or value not in allowed:
        words = [f'"{word}"' for word in allowed]
        raise ArgumentError(name, f"be {', '.join(words[:-1])} or {words[-1]}", f"it is {value!r}")
    return value


def flag(name: str, value: Any) -> bool:
    """Return True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ArgumentError(name, "be True or False", f"it is {value!r}")
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
    return isinstance(value, (bool, np.bool_)) or _real_number(value) is not None


def epochs(value: Any, name: str = "epochs") -> FloatArray:
    """Return whole numbers of epochs from 0 to 1e15 as float64, of any shape; infinity means the limit."""
    ticks = times(value, name, "whole numbers")
    wrong = ticks != np.floor(ticks)
    if wrong.any():
        raise ArgumentError(name, "be whole numbers >= 0 or math.inf", f"one is {ticks[wrong][0]}")
    wrong = np.isfinite(ticks) & (ticks > MOST_EPOCHS)
    if wrong.any():
        allowed, given = f"be at most {MOST_EPOCHS:g}, or math.inf", f"one is {float(ticks[wrong][0]):g}"
        raise ArgumentError(name, allowed, given, "ask for the limit, math.inf")
    return ticks


def times(value: Any, name: str = "times", kind: str = "numbers") -> FloatArray:
    """Return times >= 0 as float64, of any shape; infinity means the limit."""
    array = any_array(name, value)
    if array.dtype.kind == "O" and all(map(_is_real, array.flat)):
        # Whole numbers beyond 2^63, and the other entries.
        array = np.array([float(max(min(entry, 1e300), -1e300)) for entry in array.flat]).reshape(array.shape)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be numbers, but their dtype is {array.dtype}.")
    ticks = array.astype(np.float64)
    wrong = ~(ticks >= 0)
    if wrong.any():
        raise ArgumentError(name, f"be {kind} >= 0 or math.inf", f"one is {float(ticks[wrong][0])}")
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
        given = f"it differs from its transpose by up to {skew:.3g}"
        raise ArgumentError(name, "be symmetric", given, f"try ({name} + {name}.T) / 2 if that is rounding")
    symmetric = (matrix / 2 + matrix.T / 2) / size
    # A Cholesky factor of Sigma plus its own rounding error exists exactly when Sigma has no eigenvalue
    # below that error, at a tenth of the price of the eigenvalues.
    slack = 1e-10 * len(matrix)
    try:
        scipy.linalg.cholesky(symmetric + slack * np.eye(len(matrix)), check_finite=False)
    except scipy.linalg.LinAlgError:
        smallest = size * float(scipy.linalg.eigvalsh(symmetric, driver="evd")[0])
        given = f"its smallest eigenvalue is {smallest:.6g}"
        raise ArgumentError(name, "be positive semidefinite", given) from None
    return symmetric * size


def columns(values: FloatArray) -> FloatArray:
    """A vector (k,) as a column (k, 1); a column per output (k, t) as it is."""
    return values[:, np.newaxis] if values.ndim == 1 else values


def checked_weights(value: Any, n: int) -> FloatArray:
    """Return weights (n,), finite and positive."""
    weights = vector("sample_weight", value, n, "one entry per row of X")
    if weights.min() <= 0:
        where = int(np.argmax(weights <= 0))
        what = "drop rows that do not count" if weights[where] == 0 else "weights are precisions"
        raise ArgumentError(
            "sample_weight", "be positive", f"sample_weight[{where}] is {weights[where]}", what
        )
    return weights


def weighted(X: FloatArray, y: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rows of X (n, p) and y (n,) or (n, t), multiplied by the roots of the weights."""
    roots = np.sqrt(weights)[:, np.newaxis]
    return X * roots, y * roots.reshape(-1, *[1] * (y.ndim - 1))


def checked_responses(value: Any, n: int) -> FloatArray:
    """Return y, (n,) or (n, t) with at least one column."""
    array = real_array("y", value)
    if array.ndim != 2:
        return vector("y", array, n, "one entry per row of X")
    if len(array) != n or not array.shape[1]:
        allowed = f"have shape ({n},) or ({n}, outputs), one row per row of X"
        raise ArgumentError("y", allowed, f"its shape is {array.shape}")
    return array


def checked_columns(name: str, value: Any, length: int, outputs: int | None, meaning: str) -> FloatArray:
    """Return a vector (length,), or a column per output (length, t) if there are several."""
    if outputs is None:
        return vector(name, value, length, meaning)
    array = real_array(name, value)
    if array.shape != (length, outputs):
        allowed = f"have shape ({length}, {outputs}), {meaning} and one column per output"
        raise ArgumentError(name, allowed, f"its shape is {array.shape}")
    return array
