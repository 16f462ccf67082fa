"""The row space of X, the only place where anything moves, and the data seen from inside it.

Outside Range(X') every W_b, Z and Xtilde' vanish and the error stays frozen, so the dynamics live in
r = rank X <= min(n, p) coordinates and no p x p matrix is ever needed when p > n.

A penalty on all parameters but some is lambda (I - E E'), with E (p, k) the unit vectors of those. It does not keep
the row space of X, but it keeps the span of the rows and of E, and so do the visits. That span is E beside the row
space V of the *other* columns; in the coordinates (E, V) the penalty is lambda times zeros and ones. Outside of it
no row sees anything, and all is penalized.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from reshuffle._arrays import BoolArray, FloatArray, IntArray
from reshuffle._linalg import norms, thin_qr, triangle

if TYPE_CHECKING:
    from reshuffle.problem.batches import KeptRows

_EPS = float(np.finfo(np.float64).eps)
_UNREACHED = 1e-12
"""Share of a unit vector in a parameter, relative to the size of its column, that is mere rounding."""
_CHUNK = 1 << 21
"""Entries of X that are copied at a time."""


@dataclass(frozen=True, eq=False)
class RowSpace:
    """An orthonormal basis V (p, r) of Range(X'), and the power of two that X is measured in.

    `basis` is None when the row space is all of R^p, where V = I costs nothing. Dividing X by `scale`
    (about its largest entry) is exact and keeps products of many features within the range of float64.
    With `turn` Q (r, r), orthogonal, the coordinates are those of V Q, which is never formed.
    """

    p: int
    dimension: int
    scale: float
    basis: FloatArray | None
    turn: FloatArray | None = None

    def coordinates(self, vectors: FloatArray) -> FloatArray:
        """Q'V' v, for a vector (p,) or the columns of (p, m)."""
        inside = vectors if self.basis is None else self.basis.T @ vectors
        return inside if self.turn is None else self.turn.T @ inside

    def lift(self, coordinates: FloatArray) -> FloatArray:
        """V Q c, for a vector (r,) or the columns of (r, m)."""
        inside = coordinates if self.turn is None else self.turn @ coordinates
        return inside if self.basis is None else self.basis @ inside

    def reach(self, directions: FloatArray, sizes: FloatArray) -> BoolArray:
        """Which parameters (p, m) the directions (r, m) have a part in beyond rounding, by the sizes of columns."""
        # What drives a parameter is in its column: if that is small so is the share, and zero stays where it is.
        shares = np.maximum(_UNREACHED * (sizes / (sizes.max() or 1.0)), 4 * _EPS * self.dimension)
        shares[sizes == 0] = np.inf
        return np.asarray(np.abs(self.lift(directions)) > shares[:, np.newaxis])

    def outside(self, vector: FloatArray) -> FloatArray:
        """(I - V V') v, the part that X does not see."""
        if self.basis is None:
            return np.zeros_like(vector)
        # Projecting twice: once leaves a remainder of size eps |v|, which matters when v is nearly inside.
        for _ in range(2):
            vector = vector - self.lift(self.coordinates(vector))
        return vector


@dataclass(frozen=True, eq=False)
class Reduction:
    """The data in the coordinates of the row space: |y - X b|^2 = |response - scale rows V' b|^2.

    `rows` (q, r) are the rows of X V / scale themselves when X is wide; when X is tall they are the
    triangular factor of a QR decomposition, q = p + 1 rows that carry the same information.
    """

    space: RowSpace
    rows: FloatArray
    response: FloatArray
    """(q,), or (q, t) if there are several outputs."""

    def fitted(self, parameters: FloatArray) -> FloatArray:
        """What stands for X b, (q, m) for the columns of (p, m): with any two of these it has the same products."""
        return self.rows @ (self.space.scale * self.space.coordinates(parameters))

    def squares(self, parameters: FloatArray, axis: int = 0) -> FloatArray:
        """|X b|^2 for each b along an axis of many; inf where it grows without bound.

        >>> reduce(np.array([[1.0, 0.0], [0.0, 2.0]]), np.zeros(2)).squares(np.array([[1.0, 1.0], [3.0, 0.0]]), 1)
        array([5., 9.])
        """
        moved = np.moveaxis(parameters, axis, 0)
        with np.errstate(over="ignore", invalid="ignore"):
            seen = self.fitted(moved.reshape(len(moved), int(np.prod(moved.shape[1:]))))
            total = np.square(seen).sum(axis=0).reshape(moved.shape[1:])
        return np.where(np.isnan(total), np.inf, total)


def reduce(X: FloatArray, y: FloatArray, stand_for: tuple[int, float] | None = None) -> Reduction:
    """Find the row space of X (n, p) and the data in it, with no matrix of size p x p when p > n.

    `stand_for` are the number and the largest entry of the rows that these stand for, if they are not the rows of
    the data themselves.

    The rank is numerical, with the tolerance of numpy.linalg.matrix_rank: max(n, p) eps times the
    largest singular value. What it discards must be rounding: a row or a column that is small but has a
    direction of its own is refused, since its fate after many epochs cannot be told.
    """
    n, scale = (len(X), scale_of(X)) if stand_for is None else (stand_for[0], unit_of(stand_for[1]))
    reduction = _reduce_wide(X, y, scale) if X.shape[1] > X.shape[0] else _reduce_tall(X, y, scale, n)
    if reduction.space.dimension < min(X.shape):
        _require_one_scale(X, reduction.space.dimension, n)
    if reduction.space.basis is not None:
        # What no row sees has no part in the row space, not even by rounding: what grows must not leak there.
        reduction.space.basis[~X.any(axis=0)] = 0.0
    return reduction


def scale_of(X: FloatArray) -> float:
    """A power of two about as large as the largest entry of X."""
    return unit_of(max(float(X.max()), -float(X.min())))


def unit_of(largest: float) -> float:
    """A power of two about as large as the largest entry of X, which is given."""
    if largest == 0:
        return 1.0
    if not 1e-152 <= largest <= 1e152:
        raise ValueError(
            f"X must have its largest entry between 1e-152 and 1e152, so that its squares are numbers, "
            f"but that is {largest:.3g}; rescale X."
        )
    return float(np.ldexp(1.0, np.frexp(largest)[1]))


def _reduce_wide(X: FloatArray, y: FloatArray, scale: float) -> Reduction:
    p = X.shape[1]
    basis, upper = thin_qr(X.T / scale, overwrite=True)
    rows = np.ascontiguousarray(upper.T)
    if not _clearly_full_rank(upper, p):
        left, values, right = scipy.linalg.svd(upper, check_finite=False)
        kept = values > _tolerance(values, p)
        basis = basis @ left[:, kept]
        rows = right[kept].T * values[kept]
        rows[~X.any(axis=1)] = 0.0
    return Reduction(RowSpace(p, rows.shape[1], scale, basis), rows, y)


def _reduce_tall(X: FloatArray, y: FloatArray, scale: float, n: int) -> Reduction:
    p = X.shape[1]
    if y.ndim == 1:
        table = triangle(compress(chunks(X, y, scale, None)))
        rows, response = table[:, :p], table[:, p]
    else:
        rows, response = compress_apart(chunks(X, y, scale, None), p, p - 1)
    basis = None
    if not _clearly_full_rank(rows[:p], n):
        _, values, right = scipy.linalg.svd(rows[:p], check_finite=False)
        kept = values > _tolerance(values, n)
        if not kept.all():
            basis = np.ascontiguousarray(right[kept].T)
            rows = rows @ basis
    return Reduction(RowSpace(p, rows.shape[1], scale, basis), np.ascontiguousarray(rows), response)


def _require_one_scale(X: FloatArray, rank: int, n: int) -> None:
    """Refuse X if its rank grows once its rows, or its columns, are brought to one size.

    Rows that stand for n others have sizes of no meaning, rounding in the last of them: only columns are compared.
    """
    tall = X if X.shape[0] >= X.shape[1] else X.T
    kinds = ("column", "row") if tall is X else ("row", "column")
    height = _height(tall.shape[1])
    parts = [slice(start, start + height) for start in range(0, len(tall), height)]
    across = np.max([np.abs(tall[part]).max(axis=0) for part in parts], axis=0)
    along = np.concatenate([np.abs(tall[part]).max(axis=1) for part in parts])
    across_rank = _rank((tall[part] / _or_one(across) for part in parts), max(len(tall), n))
    along_rank = rank
    if n == len(X):
        along_rank = _rank((tall[part] / _or_one(along[part, np.newaxis]) for part in parts), len(tall))
    for kind, sizes, other in ((kinds[0], across, across_rank), (kinds[1], along, along_rank)):
        if other > rank:
            smallest = int(np.argmin(np.where(sizes > 0, sizes, np.inf)))
            raise ValueError(
                f"X mixes scales too far apart for double precision: {kind} {smallest} has entries of at most "
                f"{sizes[smallest]:.1g}, which are lost beside those of {sizes.max():.1g}; "
                f"rescale or drop such {kind}s."
            )


def _or_one(sizes: FloatArray) -> FloatArray:
    return np.where(sizes > 0, sizes, 1.0)


def _rank(tables: Iterable[FloatArray], size: int) -> int:
    values = scipy.linalg.svdvals(compress(tables), check_finite=False)
    return int((values > _tolerance(values, size)).sum())


def _tolerance(values: FloatArray, size: int) -> float:
    return size * float(np.finfo(np.float64).eps) * float(values[0])


def _clearly_full_rank(upper: FloatArray, size: int) -> bool:
    # LAPACK's estimate of the condition number costs O(r^2) and is trusted only when it leaves no doubt;
    # the singular values, at O(r^3), decide the rest.
    reciprocal, _ = lapack.dtrcon(np.asfortranarray(upper), norm="1", uplo="U")
    return bool(reciprocal > 100 * size**2 * np.finfo(np.float64).eps)


def compress(tables: Iterable[FloatArray]) -> FloatArray:
    """The triangular factor of the tables stacked on one another: at most as many rows as columns.

    Any orthogonal change of rows keeps X_b'X_b, X_b'y_b and y_b'y_b; through QR they keep the accuracy
    of X itself, where the products would square its condition number.
    """
    kept: FloatArray | None = None
    for table in tables:
        stacked = table if kept is None else np.vstack([kept, table])
        kept = stacked if len(stacked) <= stacked.shape[1] else triangle(stacked)
    assert kept is not None
    return kept


def compress_apart(
    tables: Iterable[FloatArray], columns: int, fewest: int | None = None
) -> tuple[FloatArray, FloatArray]:
    """The triangular factor of the first columns of the tables, and what it makes of the others (rows, t).

    Outputs are many and share their features: these alone are triangularised, and the others multiplied with Q'.
    What is left of each output is one more row, of features that are zero. Up to `fewest` rows, by default as many
    as that, are left as they are.
    """
    fewest = columns + 1 if fewest is None else fewest
    kept: FloatArray | None = None
    left: FloatArray | None = None
    for table in tables:
        stacked = table if kept is None else np.vstack([kept, table])
        kept = stacked
        if len(stacked) > fewest:
            basis, upper = thin_qr(stacked[:, :columns])
            others = stacked[:, columns:]
            explained = basis.T @ others
            kept = np.hstack([upper, explained])
            if len(stacked) > columns:
                rest = norms((others - basis @ explained).T)
                left = rest if left is None else np.hypot(left, rest)
    assert kept is not None
    if left is not None:
        kept = np.vstack([kept, np.concatenate([np.zeros(columns), left])])
    return np.ascontiguousarray(kept[:, :columns]), np.ascontiguousarray(kept[:, columns:])


def _height(columns: int) -> int:
    return max(_CHUNK // (columns + 1), 4 * (columns + 1))


def chunks(X: FloatArray, y: FloatArray, scale: float, members: IntArray | None) -> Iterator[FloatArray]:
    """Tables [X / scale, y] of some thousand rows at a time, of all rows or of the given members."""
    n = len(X) if members is None else len(members)
    height = _height(X.shape[1] + (0 if y.ndim == 1 else y.shape[1] - 1))
    for start in range(0, n, height):
        part = slice(start, min(start + height, n))
        chosen = part if members is None else members[part]
        yield np.column_stack([X[chosen] / scale, y[chosen]])


@dataclass(frozen=True, eq=False)
class ExtendedSpace:
    """The span of the rows of X (n, p) and of the unit vectors of some parameters, of dimension r.

    Attributes
    ----------
    space : RowSpace
        An orthonormal basis (p, r) of it.
    features : (n, r)
        X in these coordinates.
    reduction : Reduction
        The same features as a problem of their own, all of whose parameters count.
    penalized : (r,)
        Which of the coordinates a penalty acts on.
    """

    space: RowSpace
    features: FloatArray
    reduction: Reduction
    penalized: BoolArray


def extended_space(kept: "KeptRows", reduction: Reduction, columns: IntArray) -> ExtendedSpace:
    """Extend the row space of the rows, known by their reduction, by the unit vectors of some columns.

    >>> from reshuffle.problem.batches import KeptRows
    >>> X, y = np.array([[1.0, 1.0, 1.0]]), np.array([2.0])
    >>> extended = extended_space(KeptRows(X, y), reduce(X, y), np.array([2]))
    >>> np.abs(extended.features).round(4), extended.penalized
    (array([[1.    , 1.4142]]), array([False,  True]))
    """
    X, y = kept.X, kept.y
    p, scale = X.shape[1], reduction.space.scale
    penalized = np.ones(p, dtype=bool)
    penalized[columns] = False
    if reduction.space.basis is None:
        # The rows span everything, and X is known in the coordinates of the parameters.
        return ExtendedSpace(reduction.space, X, reduction, penalized)
    _require_told_apart(X, columns)
    others = X[:, penalized]
    sizes = None if kept.sizes is None else kept.sizes[penalized]
    inner = reduce(others, y, replace(kept, X=others, sizes=sizes).stand_for).space
    r = len(columns) + inner.dimension
    basis = np.zeros((p, r))
    basis[columns, np.arange(len(columns))] = 1.0
    basis[np.flatnonzero(penalized), len(columns) :] = inner.lift(np.eye(inner.dimension))
    features = np.column_stack([X[:, columns], inner.coordinates(others.T).T])
    rows, response = features / scale, y
    if len(X) >= r:
        tables = chunks(features, y, scale, None)
        if y.ndim == 1:
            table = compress(tables)
            rows, response = table[:, :-1], table[:, -1]
        else:
            rows, response = compress_apart(tables, r)
    own = Reduction(RowSpace(r, r, scale, None), rows, response)
    return ExtendedSpace(RowSpace(p, r, scale, basis), features, own, np.arange(r) >= len(columns))


def _require_told_apart(X: FloatArray, columns: IntArray) -> None:
    """Refuse columns that are linearly dependent: neither the rows nor the penalty act on what they differ by."""
    part = X[:, columns]
    sizes = np.abs(part).max(axis=0)
    values = scipy.linalg.svdvals(part / np.where(sizes > 0, sizes, 1.0), check_finite=False)
    rank = int((values > max(part.shape) * float(np.finfo(np.float64).eps) * values[0]).sum())
    if rank < len(columns):
        raise ValueError(
            f"unpenalized must name columns that are linearly independent over the rows that are visited, but "
            f"{columns.tolist()} have rank {rank}: nothing would act on some combination of them; "
            "leave fewer columns unpenalized."
        )
