"""Exact rational matrices, certified real ones, and values that are known well enough."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, TypeVar

from flint import arb, arb_mat, ctx, fmpq, fmpq_mat

Rational: TypeAlias = fmpq
Matrix: TypeAlias = fmpq_mat
Either = TypeVar("Either", fmpq_mat, arb_mat)
Summand = TypeVar("Summand", fmpq_mat, arb_mat, arb)

ZERO, ONE = fmpq(0), fmpq(1)


def rational(number: float) -> Rational:
    """The number itself: every float is a ratio of whole numbers."""
    return fmpq(*float(number).as_integer_ratio())


def matrix(rows: Sequence[Sequence[float]]) -> Matrix:
    """A matrix of floats, exactly."""
    return fmpq_mat(len(rows), len(rows[0]), [rational(entry) for row in rows for entry in row])


def column(entries: Iterable[float]) -> Matrix:
    """A column of floats, exactly."""
    values = [rational(entry) for entry in entries]
    return fmpq_mat(len(values), 1, values)


def identity(size: int) -> Matrix:
    """The identity matrix."""
    return fmpq_mat(size, size, [ONE if i == j else ZERO for i in range(size) for j in range(size)])


def zeros(rows: int, columns: int) -> Matrix:
    """A matrix of zeros."""
    return fmpq_mat(rows, columns, [ZERO] * (rows * columns))


def part(whole: Either, rows: Sequence[int], columns: Sequence[int]) -> Either:
    """The chosen rows and columns, of a rational matrix or of a real one."""
    return type(whole)(len(rows), len(columns), [whole[i, j] for i in rows for j in columns])


def top(whole: Either, rows: int) -> Either:
    """The first rows."""
    return part(whole, range(rows), range(whole.ncols()))


def beside(left: Matrix, right: Matrix) -> Matrix:
    """[left, right]."""
    entries = []
    for i in range(left.nrows()):
        entries += [left[i, j] for j in range(left.ncols())] + [right[i, j] for j in range(right.ncols())]
    return type(left)(left.nrows(), left.ncols() + right.ncols(), entries)


def above(upper: Matrix, lower: Matrix) -> Matrix:
    """[upper; lower]."""
    return type(upper)(
        upper.nrows() + lower.nrows(), upper.ncols(), list(upper.entries()) + list(lower.entries())
    )


def is_zero(whole: Matrix) -> bool:
    """Whether every entry is zero, exactly."""
    return all(entry == 0 for entry in whole.entries())


def pivots(reduced: Matrix, rank: int) -> list[int]:
    """The pivot columns of a reduced row echelon form."""
    found = []
    for row in range(rank):
        found.append(next(j for j in range(reduced.ncols()) if reduced[row, j] != 0))
    return found


def null_space(square: Matrix) -> Matrix:
    """A basis (d, m) of the vectors that the matrix sends to zero."""
    size = square.ncols()
    reduced, rank = square.rref()
    leading = pivots(reduced, rank)
    free = [j for j in range(size) if j not in leading]
    basis = [[ZERO] * len(free) for _ in range(size)]
    for number, j in enumerate(free):
        basis[j][number] = ONE
        for row, pivot in enumerate(leading):
            basis[pivot][number] = -reduced[row, j]
    return fmpq_mat(size, len(free), [entry for row in basis for entry in row])


def rank_factors(whole: Matrix) -> tuple[Matrix, Matrix]:
    """C (n, r) and M (r, p) with whole = C M, where C are columns of the matrix itself."""
    reduced, rank = whole.rref()
    chosen = pivots(reduced, rank)
    return part(whole, range(whole.nrows()), chosen), top(reduced, rank)


def total(parts: Sequence[Summand]) -> Summand:
    """The sum of one or more."""
    summed = parts[0]
    for each in parts[1:]:
        summed = summed + each
    return summed


def real(whole: Matrix) -> arb_mat:
    """Enclosures of the entries, at the precision that is set."""
    return arb_mat(whole.nrows(), whole.ncols(), [arb(entry) for entry in whole.entries()])


Value: TypeAlias = "arb | float | None"
"""An enclosure; math.inf where it grows; None where there is no one answer (it oscillates for ever)."""
Values: TypeAlias = list[Value]

_PRECISIONS = (320, 900, 3000)
_KNOWN = 1e-13
"""Relative to the largest number of an answer: the radius at which it counts as known."""


def size(value: Value) -> float:
    """The size of a value; inf beyond the range of floats."""
    return 0.0 if value is None else math.inf if isinstance(value, float) else float(abs(value).mid())


def is_beyond(value: arb) -> bool:
    """Whether every number in the enclosure is beyond the range of floats."""
    return bool(abs(value) > arb(2) ** 1025)


def certified(compute: Callable[[], list[Values]]) -> list[Values]:
    """What is computed, at the first precision at which it is known well enough; None where it never is."""
    groups: list[Values] = []
    for precision in _PRECISIONS:
        with ctx.workprec(precision):
            groups = [[beyond_is_infinite(value) for value in group] for group in compute()]
            if all(_is_known(value, group) for group in groups for value in group):
                return groups
    with ctx.workprec(_PRECISIONS[-1]):
        return [[value if _is_known(value, group) else None for value in group] for group in groups]


def beyond_is_infinite(value: Value) -> Value:
    """Infinity in place of an enclosure beyond the range of floats."""
    return math.inf if isinstance(value, arb) and value.is_finite() and is_beyond(value) else value


def _is_known(value: Value, group: Values) -> bool:
    if not isinstance(value, arb):
        return True
    if not value.is_finite():
        return False
    largest = max(abs(each).mid() for each in group if isinstance(each, arb) and each.is_finite())
    return bool(value.rad() <= largest * _KNOWN)
