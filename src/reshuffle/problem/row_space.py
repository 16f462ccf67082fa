"""The row space of X, the only place where anything moves, and the data in its coordinates.

Outside Range(X') every W_b, Z and Xtilde' vanish and the error stays frozen, so the dynamics live in
r = rank X <= min(n, p) coordinates and no p x p matrix is ever needed when p > n.

An orthogonal change of the rows of a batch keeps X_b'X_b, X_b'y_b and y_b'y_b, which is all that a batch does to
the parameters. So a triangular factor of p + 1 rows represents any number of them, with the accuracy of X itself,
where X'X would square its condition number.

A penalty on all parameters but some is lambda (I - E E'), with E (p, k) the unit vectors of those. It does not keep
the row space of X, but it keeps the span of the rows and of E, and so do the visits. That span is E and the row
space V of the *other* columns; in the coordinates (E, V) the penalty is lambda times zeros and ones. Outside of it
no row sees anything, and all is penalized.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from reshuffle._arrays import BoolArray, FloatArray, IntArray
from reshuffle._linalg import few_threads, norms, thin_qr
from reshuffle.errors import ArgumentError, UnsupportedError

_EPS = float(np.finfo(np.float64).eps)
_PANEL = 32
"""Columns that LAPACK works on at a time."""
_FEW_ROWS = 256
"""Rows that wait for others: a QR of a single row costs as much as one of some dozens."""
_MANY_ROWS = 4096
"""Rows that are taken in at a time: more would not stay in the cache."""


_SAMPLE = 100_000
"""Rows of a sample that knows the test error to a percent of itself or so."""


def needs_rows(purpose: str, n: int) -> UnsupportedError:
    """The refusal of a question that needs n rows one by one, which are not in memory, with the ways to ask it."""
    stride = max(2, -(-n // _SAMPLE))
    return UnsupportedError(
        f"{purpose} needs the rows one by one, but of these {n} rows only the statistics of each batch are stored; "
        "if they fit into memory, LeastSquares(X, y, in_memory=True) reads all of them, and otherwise give it a "
        f"sample, such as LeastSquares(X[::{stride}], y[::{stride}], in_memory=True)."
    )


@dataclass(frozen=True, eq=False)
class CompressedRows:
    """Rows X (k, p) with responses y (k, t): those of the data, or fewer that represent them."""

    X: FloatArray
    y: FloatArray
    counts: IntArray | None = (
        None  # (B,): rows of each batch in the data; None if these are the rows themselves
    )
    offsets: IntArray | None = None  # (B + 1,): batch b is X[offsets[b]:offsets[b + 1]]
    sizes: FloatArray | None = None  # (p,): the largest absolute entry of each column of the data

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
        return scale_of(self.X if self.counts is None else self.column_sizes)

    @cached_property
    def column_sizes(self) -> FloatArray:
        """The largest absolute entry of each column, (p,)."""
        if self.sizes is not None:
            return self.sizes
        return np.asarray(np.maximum(self.X.max(axis=0), -self.X.min(axis=0)))

    @property
    def batches(self) -> list[IntArray]:
        """Indices of the compressed rows of each batch."""
        assert self.offsets is not None
        return np.split(np.arange(len(self.X), dtype=np.intp), self.offsets[1:-1])

    def first(self, count: int) -> "CompressedRows":
        """The first of the rows, whole batches where they represent others."""
        if self.counts is None or self.offsets is None:
            return CompressedRows(self.X[:count], self.y[:count])
        batches = int(np.searchsorted(self.offsets, count, side="left"))
        return CompressedRows(
            self.X[:count], self.y[:count], self.counts[:batches], self.offsets[: batches + 1], self.sizes
        )

    def require_whole(self, partition: Sequence[IntArray]) -> None:
        """Refuse parts that are not whole batches: rows that represent a batch mean nothing apart."""
        if self.offsets is None:
            return
        ends = set(self.offsets.tolist())
        for part in partition:
            contiguous = len(part) and part[-1] - part[0] + 1 == len(part)
            if not contiguous or int(part[0]) not in ends or int(part[-1]) + 1 not in ends:
                raise needs_rows("this question", self.n)


class BatchFactor:
    """Triangular factor of rows with p features and t responses, and a few rows that wait for others.

    R (p, p), Q' times the responses, and the norm of the rest of them. New rows enter by LAPACK's QR of a triangle
    on top of rows (dtpqrt), which costs no more than a QR of the rows alone.
    """

    def __init__(self, p: int, t: int):
        self.p, self.t, self.count = p, t, 0
        self._triangle: FloatArray | None = None
        self._explained, self._left = np.zeros((p, t)), np.zeros(t)
        self._waiting: list[tuple[FloatArray, FloatArray]] = []
        self._waiting_rows = 0

    def add(self, X: FloatArray, y: FloatArray, count: int | None = None) -> None:
        """Add rows (m, p) and responses (m, t), which represent `count` rows of the data, by default m."""
        self.count += len(X) if count is None else count
        if self._waiting_rows + len(X) <= max(_FEW_ROWS, self.p + 1):
            # A copy, since whoever adds may fill the same array with the next rows.
            self._waiting += [(np.array(X), np.array(y))] if len(X) else []
            self._waiting_rows += len(X)
            return
        self._factorize_waiting()
        height = max(_MANY_ROWS, self.p + 1)
        for start in range(0, len(X), height):
            self._factorize(X[start : start + height], y[start : start + height])

    def rows(self) -> tuple[FloatArray, FloatArray]:
        """Rows (k, p) and responses (k, t) that represent the batch: its own if they are few, else p + 1 others."""
        if self._triangle is None and self._waiting_rows <= self.p + 1:
            if not self._waiting:
                return np.zeros((0, self.p)), np.zeros((0, self.t))
            self._waiting = [self._joined()]
            return self._waiting[0]
        return self.factor()

    def factor(self) -> tuple[FloatArray, FloatArray]:
        """R over a row of zeros (p + 1, p), and the responses (p + 1, t), the norm of what is left of them last."""
        self._factorize_waiting()
        assert self._triangle is not None
        return np.vstack([np.triu(self._triangle), np.zeros(self.p)]), np.vstack(
            [self._explained, self._left]
        )

    def _joined(self) -> tuple[FloatArray, FloatArray]:
        features, responses = zip(*self._waiting, strict=True)
        return np.concatenate(features), np.concatenate(responses)

    def _factorize_waiting(self) -> None:
        if self._waiting:
            self._factorize(*self._joined())
            self._waiting, self._waiting_rows = [], 0

    def _factorize(self, X: FloatArray, y: FloatArray) -> None:
        """One QR of the triangle on top of the rows."""
        if self._triangle is None:
            self._triangle = np.zeros((self.p, self.p), order="F")
        left = np.array(y, order="F")
        if self.p:
            with few_threads(self.p):
                self._triangle, reflectors, T, _ = lapack.dtpqrt(
                    0, min(_PANEL, self.p), self._triangle, np.array(X, order="F"),
                    overwrite_a=True, overwrite_b=True,
                )  # fmt: skip
                if self.t:
                    self._explained, left, _ = lapack.dtpmqrt(
                        0, reflectors, T, np.asfortranarray(self._explained), left, trans="T",
                        overwrite_a=True, overwrite_b=True,
                    )  # fmt: skip
        self._left = np.hypot(self._left, norms(left.T))


@dataclass(frozen=True, eq=False)
class RowSpace:
    """An orthonormal basis V (p, r) of Range(X'), and the power of two that X is divided by.

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
    """(q, t)"""

    def fitted(self, parameters: FloatArray) -> FloatArray:
        """Q'X b, (q, m) for the columns of (p, m), with Q orthogonal: products of any two are those of X b."""
        return self.rows @ (self.space.scale * self.space.coordinates(parameters))

    def squares(self, parameters: FloatArray, axis: int = 0) -> FloatArray:
        """|X b|^2 for each b along an axis of many; inf where it grows without bound.

        >>> reduction = reduce(np.array([[1.0, 0.0], [0.0, 2.0]]), np.zeros((2, 1)), 1.0, 2)
        >>> reduction.squares(np.array([[1.0, 1.0], [3.0, 0.0]]), 1)
        array([5., 9.])
        """
        moved = np.moveaxis(parameters, axis, 0)
        with np.errstate(over="ignore", invalid="ignore"):
            seen = self.fitted(moved.reshape(len(moved), int(np.prod(moved.shape[1:]))))
            total = np.square(seen).sum(axis=0).reshape(moved.shape[1:])
        return np.where(np.isnan(total), np.inf, total)

    def rows_of(self, X: FloatArray, members: IntArray) -> FloatArray:
        """Some rows of X (n, p) in the coordinates of the row space, over their scale: (m, r)."""
        if X.shape[1] > X.shape[0]:
            return self.rows[members]
        rows = X[members] / self.space.scale
        return rows if self.space.basis is None else rows @ self.space.basis

    def factor_of(self, X: FloatArray, y: FloatArray, members: IntArray) -> BatchFactor:
        """The factor of some rows of X (n, p) in these coordinates, with responses y (n, t)."""
        made, height = BatchFactor(self.space.dimension, y.shape[1]), max(_MANY_ROWS, X.shape[1] + 1)
        for start in range(0, len(members), height):
            part = members[start : start + height]
            made.add(self.rows_of(X, part), y[part])
        return made


def reduce(X: FloatArray, y: FloatArray, scale: float, n: int) -> Reduction:
    """Row space of X (k, p) and the data in it, with no matrix of size p x p when p > k.

    The rank is numerical, with the tolerance of numpy.linalg.matrix_rank: max(n, p) eps times the largest singular
    value. It must discard rounding alone: a row or a column that is small but has a direction that no other has is
    refused, since its limit is lost to rounding. The k rows represent n rows of the data; `scale` is the power of
    two that X is divided by.
    """
    rows, p = X.shape
    basis: FloatArray | None = None
    if p > rows:
        basis, upper = thin_qr(X.T / scale, overwrite=True)
        inside, response, size = np.ascontiguousarray(upper.T), y, p
    else:
        whole = Reduction(RowSpace(p, p, scale, None), X, y)
        inside, response = whole.factor_of(X, y, np.arange(rows)).factor()
        upper, size = inside[:p], n
    # LAPACK's estimate of the condition number costs O(r^2) and is trusted only when it leaves no doubt;
    # the singular values, at O(r^3), decide the rest.
    reciprocal, _ = lapack.dtrcon(np.asfortranarray(upper), norm="1", uplo="U")
    if not reciprocal > 100 * size**2 * _EPS:
        left, values, right = scipy.linalg.svd(upper, check_finite=False)
        kept = values > size * _EPS * values[0]
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


@dataclass(frozen=True, eq=False)
class Blocks:
    """The per-batch statistics: each batch's rows and responses, in row-space coordinates.

    Batch b holds rows[offsets[b]:offsets[b + 1]], and its gradients are divided by divisors[b] = m_b, the number of
    its rows in the data by default: W_b = scale^2 V rows_b' rows_b V' / m_b. A batch of more than r + 1
    rows is replaced by its triangular factor, so that memory is bounded by B (r + 1)^2 however many rows there are.
    """

    rows: FloatArray
    response: FloatArray
    """(rows, t)"""
    offsets: IntArray
    divisors: FloatArray

    @property
    def batches(self) -> int:
        """The number of batches."""
        return len(self.divisors)

    @property
    def sizes(self) -> IntArray:
        """The number of compressed rows of each batch."""
        return np.diff(self.offsets)

    @property
    def weight(self) -> float:
        """The largest weight 1 / (B m_b) that a row has in the mean gradient of the batches."""
        return 1 / (self.batches * float(self.divisors.min()))

    def of(self, batch: int) -> slice | IntArray:
        """The place of one batch's rows."""
        return slice(int(self.offsets[batch]), int(self.offsets[batch + 1]))


def split(
    X: FloatArray,
    y: FloatArray,
    reduction: Reduction,
    partition: list[IntArray],
    divisors: FloatArray | None = None,
) -> Blocks:
    """Cut the data into the batches of a partition, given as row indices; divisors are their lengths by default."""
    lengths, (n, p) = [len(members) for members in partition], X.shape
    divisors = np.array(lengths, dtype=np.float64) if divisors is None else divisors
    if max(lengths) == 1:
        # Many, and nothing to compress: nothing is copied but once.
        members = np.concatenate(partition)
        return Blocks(reduction.rows_of(X, members), y[members], np.arange(len(members) + 1), divisors)
    if len(partition) == 1 and len(partition[0]) == n >= p:
        return Blocks(reduction.rows, reduction.response, np.array([0, len(reduction.rows)]), divisors)
    parts = [reduction.factor_of(X, y, members).rows() for members in partition]
    offsets = np.concatenate([[0], np.cumsum([len(rows) for rows, _ in parts])]).astype(np.intp)
    rows, responses = (np.concatenate(halves) for halves in zip(*parts, strict=True))
    return Blocks(rows, responses, offsets, divisors)


def scale_of(X: FloatArray) -> float:
    """A power of two about as large as the largest entry of X."""
    largest = max(float(X.max()), -float(X.min()))
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
    """Refuse X if its rank grows once its rows, or its columns, are divided by their largest entries.

    The sizes of rows that represent n others mean nothing: then only columns are compared.
    """
    tall = X if X.shape[0] >= X.shape[1] else X.T
    height = max(_MANY_ROWS, tall.shape[1] + 1)
    parts = [slice(start, start + height) for start in range(0, len(tall), height)]
    across = np.max([np.abs(tall[part]).max(axis=0) for part in parts], axis=0)
    along = np.concatenate([np.abs(tall[part]).max(axis=1) for part in parts])
    across_rows = np.where(across > 0, across, 1.0)
    along_rows = np.where(along > 0, along, 1.0)[:, np.newaxis]
    checks = [("column", across, across_rows, max(len(tall), n)), ("row", along, along_rows, len(tall))]
    for kind, sizes, divisors, size in checks[: 2 if n == len(X) else 1]:
        factor = BatchFactor(tall.shape[1], 0)
        for part in parts:
            scaled = tall[part] / (divisors if divisors.ndim == 1 else divisors[part])
            factor.add(scaled, scaled[:, :0])
        values = scipy.linalg.svdvals(factor.factor()[0], check_finite=False)
        if int((values > size * _EPS * values[0]).sum()) > rank:
            kind = kind if tall is X else {"column": "row", "row": "column"}[kind]
            smallest = int(np.argmin(np.where(sizes > 0, sizes, np.inf)))
            raise ValueError(
                f"X mixes scales too far apart for double precision: {kind} {smallest} has entries of at most "
                f"{sizes[smallest]:.1g}, which are lost next to those of {sizes.max():.1g}; "
                f"rescale or drop such {kind}s."
            )


def extended_space(
    kept: CompressedRows, reduction: Reduction, columns: IntArray
) -> tuple[RowSpace, FloatArray, Reduction, BoolArray]:
    """Span of the rows, known by their reduction, and of the unit vectors of some columns, of dimension r.

    Returns it with its basis (p, r), X (n, r) in these coordinates, the same features as a separate problem,
    and the mask (r,) of the coordinates that a penalty acts on.

    >>> rows = CompressedRows(np.array([[1.0, 1.0, 1.0]]), np.array([[2.0]]))
    >>> _, features, _, penalized = extended_space(rows, reduce(rows.X, rows.y, 1.0, 1), np.array([2]))
    >>> np.abs(features).round(4), penalized
    (array([[1.    , 1.4142]]), array([False,  True]))
    """
    X, y = kept.X, kept.y
    p, scale = X.shape[1], reduction.space.scale
    penalized = np.ones(p, dtype=bool)
    penalized[columns] = False
    if reduction.space.basis is None:
        # The rows span everything, and X is known in the coordinates of the parameters.
        return reduction.space, X, reduction, penalized
    part = X[:, columns]
    sizes = np.abs(part).max(axis=0)
    values = scipy.linalg.svdvals(part / np.where(sizes > 0, sizes, 1.0), check_finite=False)
    rank = int((values > max(part.shape) * _EPS * values[0]).sum())
    if rank < len(columns):
        allowed = "name columns that are linearly independent over the rows that are visited"
        given = f"{columns.tolist()} have rank {rank}: nothing would act on some combination of them"
        raise ArgumentError("unpenalized", allowed, given, "leave fewer columns unpenalized")
    others = X[:, penalized]
    inner = reduce(others, y, scale, kept.n).space
    r = len(columns) + inner.dimension
    basis = np.zeros((p, r))
    basis[columns, np.arange(len(columns))] = 1.0
    basis[np.flatnonzero(penalized), len(columns) :] = inner.lift(np.eye(inner.dimension))
    features = np.column_stack([part, inner.coordinates(others.T).T])
    own = Reduction(RowSpace(r, r, scale, None), features / scale, y)
    if len(X) >= r:
        own = Reduction(own.space, *own.factor_of(features, y, np.arange(len(X))).rows())
    return RowSpace(p, r, scale, basis), features, own, np.arange(r) >= len(columns)
