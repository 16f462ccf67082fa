"""The row space of X, the only place where anything moves, and the data seen from inside it.

Outside Range(X') every W_b, Z and Xtilde' vanish and the error stays frozen, so the dynamics live in
r = rank X <= min(n, p) coordinates and no p x p matrix is ever needed when p > n.

A penalty on all parameters but some is lambda (I - E E'), with E (p, k) the unit vectors of those. It does not keep
the row space of X, but it keeps the span of the rows and of E, and so do the visits. That span is E beside the row
space V of the *other* columns; in the coordinates (E, V) the penalty is lambda times zeros and ones. Outside of it
no row sees anything, and all is penalized.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from reshuffle._arrays import BoolArray, FloatArray, IntArray
from reshuffle._linalg import norms, thin_qr, triangularized
from reshuffle.errors import UnsupportedError

_EPS = float(np.finfo(np.float64).eps)
_UNREACHED = 1e-12
"""Share of a unit vector in a parameter, relative to the size of its column, that is mere rounding."""
_CHUNK = 1 << 21
"""Entries of X that are copied at a time."""


@dataclass(frozen=True, eq=False)
class CompressedRows:
    """Rows X (k, p) with responses y (k,) or (k, t): those of the data, or fewer that represent them.

    Attributes
    ----------
    X, y
    counts : (B,), optional
        The rows that each batch has in the data, where others represent them; None if all are kept.
    offsets : (B + 1,), optional
        Batch b is X[offsets[b]:offsets[b + 1]].
    sizes : (p,), optional
        The largest absolute entry of each column of the data.
    """

    X: FloatArray
    y: FloatArray
    counts: IntArray | None = None
    offsets: IntArray | None = None
    sizes: FloatArray | None = None

    @property
    def n(self) -> int:
        """The number of rows of the data."""
        return len(self.X) if self.counts is None else int(self.counts.sum())

    @property
    def are_all(self) -> bool:
        """True if these are the rows of the data."""
        return self.counts is None

    @cached_property
    def scale(self) -> float:
        """A power of two about as large as the largest entry of the features."""
        if self.counts is None:
            return scale_of(self.X)
        return unit_of(float(self.column_sizes.max()))

    @cached_property
    def column_sizes(self) -> FloatArray:
        """The largest absolute entry of each column, (p,)."""
        if self.sizes is not None:
            return self.sizes
        return np.asarray(np.maximum(self.X.max(axis=0), -self.X.min(axis=0)))

    @property
    def batches(self) -> list[IntArray]:
        """Indices of the kept rows of each batch."""
        assert self.offsets is not None
        return np.split(np.arange(len(self.X), dtype=np.int64), self.offsets[1:-1])

    def first(self, count: int) -> "CompressedRows":
        """The first of the rows, whole batches where they represent others."""
        if self.counts is None or self.offsets is None:
            return CompressedRows(self.X[:count], self.y[:count])
        batches = int(np.searchsorted(self.offsets, count, side="left"))
        return CompressedRows(
            self.X[:count], self.y[:count], self.counts[:batches], self.offsets[: batches + 1], self.sizes
        )

    def require_whole(self, partition: Sequence[IntArray]) -> None:
        """Refuse parts that are no whole batches: rows that represent a batch mean nothing apart."""
        if self.offsets is None:
            return
        ends = set(self.offsets.tolist())
        for part in partition:
            contiguous = len(part) and part[-1] - part[0] + 1 == len(part)
            if not contiguous or int(part[0]) not in ends or int(part[-1]) + 1 not in ends:
                raise UnsupportedError(
                    f"this question cuts {self.n} rows in another way than the batches whose statistics are kept; "
                    "give a sample of the rows that fits into memory to LeastSquares(X, y)."
                )


@dataclass(frozen=True, eq=False)
class RowSpace:
    """An orthonormal basis V (p, r) of Range(X'), and the power of two that X is measured in.

    `basis` is None when the row space is all of R^p, where V = I costs nothing. Dividing X by `scale`
    (about its largest entry) is exact and keeps products of many features within the range of float64.
    With `rotation` Q (r, r), orthogonal, the coordinates are those of V Q, which is never formed.
    """

    p: int
    dimension: int
    scale: float
    basis: FloatArray | None
    rotation: FloatArray | None = None

    def coordinates(self, vectors: FloatArray) -> FloatArray:
        """Q'V' v, for a vector (p,) or the columns of (p, m)."""
        inside = vectors if self.basis is None else self.basis.T @ vectors
        return inside if self.rotation is None else self.rotation.T @ inside

    def lift(self, coordinates: FloatArray) -> FloatArray:
        """V Q c, for a vector (r,) or the columns of (r, m)."""
        inside = coordinates if self.rotation is None else self.rotation @ coordinates
        return inside if self.basis is None else self.basis @ inside

    def reach(self, directions: FloatArray, sizes: FloatArray) -> BoolArray:
        """Mask (p, m) of the parameters that directions (r, m) move beyond rounding, by the sizes of columns."""
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
        """Q'X b, (q, m) for the columns of (p, m), with Q orthogonal: products of any two are those of X b."""
        return self.rows @ (self.space.scale * self.space.coordinates(parameters))

    def squares(self, parameters: FloatArray, axis: int = 0) -> FloatArray:
        """|X b|^2 for each b along an axis of many; inf where it grows without bound.

        >>> reduction = reduce(np.array([[1.0, 0.0], [0.0, 2.0]]), np.zeros(2), 1.0, 2)
        >>> reduction.squares(np.array([[1.0, 1.0], [3.0, 0.0]]), 1)
        array([5., 9.])
        """
        moved = np.moveaxis(parameters, axis, 0)
        with np.errstate(over="ignore", invalid="ignore"):
            seen = self.fitted(moved.reshape(len(moved), int(np.prod(moved.shape[1:]))))
            total = np.square(seen).sum(axis=0).reshape(moved.shape[1:])
        return np.where(np.isnan(total), np.inf, total)


def reduce(X: FloatArray, y: FloatArray, scale: float, n: int) -> Reduction:
    """Find the row space of X and the data in it, with no matrix of size p x p when p > n.

    The rank is numerical, with the tolerance of numpy.linalg.matrix_rank: max(n, p) eps times the largest singular
    value. It must discard rounding alone: a row or a column that is small but has a direction of its own is
    refused, since its fate after many epochs cannot be told.

    Parameters
    ----------
    X, y : (k, p) and (k,) or (k, t)
    scale : float
        The power of two that X is divided by.
    n : int
        How many rows of the data the k rows represent.
    """
    rows, p = len(X), X.shape[1]
    basis: FloatArray | None = None
    if p > rows:
        basis, upper = thin_qr(X.T / scale, overwrite=True)
        inside, response, size = np.ascontiguousarray(upper.T), y, p
    else:
        inside, response = compress(chunks(X, y, scale, None), p, p - 1, y.ndim)
        upper, size = inside[:p], n
    if not _clearly_full_rank(upper, size):
        left, values, right = scipy.linalg.svd(upper, check_finite=False)
        kept = values > _tolerance(values, size)
        if basis is not None:
            basis = basis @ left[:, kept]
            inside = right[kept].T * values[kept]
            inside[~X.any(axis=1)] = 0.0
        elif not kept.all():
            basis = np.ascontiguousarray(right[kept].T)
            inside = inside @ basis
    dimension = inside.shape[1]
    if dimension < min(rows, p):
        _require_one_scale(X, dimension, n)
    if basis is not None:
        # What no row sees has no part in the row space, not even by rounding: what grows must not leak there.
        basis[~X.any(axis=0)] = 0.0
    return Reduction(RowSpace(p, dimension, scale, basis), np.ascontiguousarray(inside), response)


def scale_of(X: FloatArray) -> float:
    """A power of two about as large as the largest entry of X."""
    return unit_of(max(float(X.max()), -float(X.min())))


def unit_of(largest: float) -> float:
    """A power of two about as large as the largest entry of X, which is given."""
    require_size("X", largest, 152)
    return float(np.ldexp(1.0, np.frexp(largest)[1])) if largest else 1.0


def require_size(name: str, largest: float, digits: int, among: str = "") -> None:
    """Refuse an argument whose largest entry is neither zero nor between 10^-digits and 10^digits."""
    if largest and not 10.0**-digits <= largest <= 10.0**digits:
        raise ValueError(
            f"{name} must have its largest entry{among} between 1e-{digits} and 1e{digits}, so that its squares "
            f"are numbers, but that is {largest:.3g}; rescale {name}."
        )


def _require_one_scale(X: FloatArray, rank: int, n: int) -> None:
    """Refuse X if its rank grows once its rows, or its columns, are brought to one size.

    The sizes of rows that represent n others mean nothing: then only columns are compared.
    """
    tall = X if X.shape[0] >= X.shape[1] else X.T
    kinds = ("column", "row") if tall is X else ("row", "column")
    height = _height(tall.shape[1])
    parts = [slice(start, start + height) for start in range(0, len(tall), height)]
    across = np.max([np.abs(tall[part]).max(axis=0) for part in parts], axis=0)
    along = np.concatenate([np.abs(tall[part]).max(axis=1) for part in parts])

    def rank_of(tables: Iterable[FloatArray], size: int) -> int:
        factor, _ = compress((table for table in tables), tall.shape[1])
        values = scipy.linalg.svdvals(factor, check_finite=False)
        return int((values > _tolerance(values, size)).sum())

    ranks = [rank_of((tall[part] / _or_one(across) for part in parts), max(len(tall), n)), rank]
    if n == len(X):
        ranks[1] = rank_of((tall[part] / _or_one(along[part, np.newaxis]) for part in parts), len(tall))
    for kind, sizes, found in zip(kinds, (across, along), ranks, strict=True):
        if found > rank:
            smallest = int(np.argmin(np.where(sizes > 0, sizes, np.inf)))
            raise ValueError(
                f"X mixes scales too far apart for double precision: {kind} {smallest} has entries of at most "
                f"{sizes[smallest]:.1g}, which are lost beside those of {sizes.max():.1g}; "
                f"rescale or drop such {kind}s."
            )


def _or_one(sizes: FloatArray) -> FloatArray:
    return np.where(sizes > 0, sizes, 1.0)


def _tolerance(values: FloatArray, size: int) -> float:
    return size * _EPS * float(values[0])


def _clearly_full_rank(upper: FloatArray, size: int) -> bool:
    # LAPACK's estimate of the condition number costs O(r^2) and is trusted only when it leaves no doubt;
    # the singular values, at O(r^3), decide the rest.
    reciprocal, _ = lapack.dtrcon(np.asfortranarray(upper), norm="1", uplo="U")
    return bool(reciprocal > 100 * size**2 * _EPS)


def compress(
    tables: Iterable[FloatArray], columns: int, fewest: int | None = None, dimensions: int = 2
) -> tuple[FloatArray, FloatArray]:
    """The triangular factor R of the first columns of stacked tables, and Q' times the others (rows, t).

    Any orthogonal change of rows keeps X_b'X_b, X_b'y_b and y_b'y_b; through QR they keep the accuracy of X itself,
    where the products would square its condition number. The norm of what Q does not span is one more row, of
    features that are zero. Up to `fewest` rows, by default one more than columns, are left as they are. With
    `dimensions` of 1 the others, a single column, are a vector.
    """
    fewest = columns + 1 if fewest is None else fewest
    kept: FloatArray | None = None
    left: FloatArray | None = None
    for table in tables:
        kept = stacked = table if kept is None else np.vstack([kept, table])
        if len(stacked) > fewest:
            upper, others = triangularized(stacked[:, :columns], stacked[:, columns:])
            kept = np.hstack([upper, others[: len(upper)]])
            if len(stacked) > columns and others.size:
                rest = norms(others[columns:].T)
                left = rest if left is None else np.hypot(left, rest)
    assert kept is not None
    if left is not None:
        kept = np.vstack([kept, np.concatenate([np.zeros(columns), left])])
    responses = kept[:, columns] if dimensions == 1 else kept[:, columns:]
    return np.ascontiguousarray(kept[:, :columns]), np.ascontiguousarray(responses)


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


def extended_space(kept: CompressedRows, reduction: Reduction, columns: IntArray) -> ExtendedSpace:
    """Extend the row space of the rows, known by their reduction, by the unit vectors of some columns.

    >>> rows = CompressedRows(np.array([[1.0, 1.0, 1.0]]), np.array([2.0]))
    >>> extended = extended_space(rows, reduce(rows.X, rows.y, 1.0, 1), np.array([2]))
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
    part = X[:, columns]
    values = scipy.linalg.svdvals(part / _or_one(np.abs(part).max(axis=0)), check_finite=False)
    rank = int((values > _tolerance(values, max(part.shape))).sum())
    if rank < len(columns):
        raise ValueError(
            f"unpenalized must name columns that are linearly independent over the rows that are visited, but "
            f"{columns.tolist()} have rank {rank}: nothing would act on some combination of them; "
            "leave fewer columns unpenalized."
        )
    others = X[:, penalized]
    inner = reduce(others, y, scale, kept.n).space
    r = len(columns) + inner.dimension
    basis = np.zeros((p, r))
    basis[columns, np.arange(len(columns))] = 1.0
    basis[np.flatnonzero(penalized), len(columns) :] = inner.lift(np.eye(inner.dimension))
    features = np.column_stack([part, inner.coordinates(others.T).T])
    rows, response = features / scale, y
    if len(X) >= r:
        rows, response = compress(chunks(features, y, scale, None), r, dimensions=y.ndim)
    own = Reduction(RowSpace(r, r, scale, None), rows, response)
    return ExtendedSpace(RowSpace(p, r, scale, basis), features, own, np.arange(r) >= len(columns))
