"""The space in which everything happens if a penalty leaves some parameters out.

A penalty on all parameters but some is lambda (I - E E'), with E (p, k) the unit vectors of those. It does not keep
the row space of X, but it keeps the span of the rows and of E, and so do the visits. That span is E beside the row
space V of the *other* columns; in the coordinates (E, V) the penalty is lambda times zeros and ones. Outside of it
no row sees anything, and all is penalized.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from reshuffle._arrays import BoolArray, FloatArray, IntArray
from reshuffle.problem import row_space
from reshuffle.problem.blocks import KeptRows
from reshuffle.problem.row_space import Reduction, RowSpace


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


def extended_space(kept: KeptRows, reduction: Reduction, columns: IntArray) -> ExtendedSpace:
    """Extend the row space of the rows, known by their reduction, by the unit vectors of some columns.

    >>> X, y = np.array([[1.0, 1.0, 1.0]]), np.array([2.0])
    >>> extended = extended_space(KeptRows(X, y), row_space.reduce(X, y), np.array([2]))
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
    inner = row_space.reduce(others, y, replace(kept, X=others, sizes=sizes).stand_for).space
    r = len(columns) + inner.dimension
    basis = np.zeros((p, r))
    basis[columns, np.arange(len(columns))] = 1.0
    basis[np.flatnonzero(penalized), len(columns) :] = inner.lift(np.eye(inner.dimension))
    features = np.column_stack([X[:, columns], inner.coordinates(others.T).T])
    rows, response = features / scale, y
    if len(X) >= r:
        tables = row_space.chunks(features, y, scale, None)
        if y.ndim == 1:
            table = row_space.compress(tables)
            rows, response = table[:, :-1], table[:, -1]
        else:
            rows, response = row_space.compress_apart(tables, r)
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
