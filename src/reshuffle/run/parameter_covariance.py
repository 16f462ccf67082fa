"""How far single runs are from their mean: the covariance of parameters, and the spread of predictions."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import BoolArray, FloatArray, IntArray
from reshuffle._linalg import norms
from reshuffle._uncertainty import ErrorKind, quantile, significant
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.problem.row_space import RowSpace


@dataclass(frozen=True, eq=False)
class ParameterCovariance:
    """E (beta_k - E beta_k)(beta_k - E beta_k)' over the random orders of a run, for the responses at hand.

    It is V Q C Q'V', with C (r, r) in the coordinates of the row space of X, outside of which no two runs differ:
    no matrix of size p x p is made unless `matrix` is asked for. What grows without bound is inf.

    Attributes
    ----------
    epochs : array
        As asked for.
    error : array
        How far the matrix may be off in the Frobenius norm, of the shape of `epochs`.
    error_kind : str
        In which sense: "exact", "three standard errors" where runs or orders were sampled, "estimate" for what is
        left of the iteration for a fixed point.

    >>> import reshuffle as rs
    >>> problem = rs.LeastSquares([[1.0], [2.0]], [1.0, 0.0])
    >>> rs.descend(problem, rs.RandomReshuffling(2), step=0.1).covariance([1, 2]).matrix.round(6).tolist()
    [[[0.0004]], [[0.000517]]]
    """

    epochs: FloatArray
    error: FloatArray
    error_kind: ErrorKind
    _inside: FloatArray = field(repr=False)
    """C, epochs.shape + (r, r), in a unit of 2^exponent."""
    _exponent: int = field(repr=False)
    _space: RowSpace = field(repr=False)
    _problem: LeastSquares = field(repr=False)
    _draws: FloatArray | None = field(default=None, repr=False)
    """Deviations from the mean (distinct epochs, draws, r) of sampled runs; neighbours belong together."""
    _back: IntArray | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        shape = (*self.epochs.shape, self._space.p, self._space.p)
        largest = float(self.error.max(initial=0.0))
        off = f", error at most {significant(largest, 2)} ({self.error_kind})" if largest else ""
        total = f", trace={float(self.trace):.6g}" if not self.epochs.ndim else ""
        return f"ParameterCovariance(shape={shape}{total}{off})"

    @property
    def _grows(self) -> BoolArray:
        """Whether anything grows without bound, of the shape of `epochs`."""
        return np.asarray(~np.isfinite(self._inside).all(axis=(-2, -1)))

    @cached_property
    def _finite(self) -> FloatArray:
        return np.where(self._grows[..., np.newaxis, np.newaxis], 0.0, self._inside)

    @property
    def factor(self) -> FloatArray:
        """F of shape epochs.shape + (p, r), with covariance = F F': all there is to know where p is large."""
        values, vectors = np.linalg.eigh(self._finite)
        roots = vectors * np.sqrt(np.maximum(values, 0.0))[..., np.newaxis, :]
        shape = (*self.epochs.shape, self._space.p, self._space.dimension)
        lifted = np.array([self._space.lift(root) for root in self._flat(roots)]).reshape(shape)
        lifted = np.ldexp(lifted, self._exponent)
        grown = self._grows[..., np.newaxis, np.newaxis] & self._reached[:, np.newaxis]
        return np.where(grown, np.inf, lifted)

    @property
    def matrix(self) -> FloatArray:
        """The covariance itself, epochs.shape + (p, p): meant for moderate p."""
        space, shape = self._space, (*self.epochs.shape, self._space.p, self._space.p)
        made = [space.lift(space.lift(one).T) for one in self._flat(self._finite)]
        with np.errstate(over="ignore"):
            lifted = np.ldexp(np.array(made).reshape(shape), 2 * self._exponent)
        grown = self._grows[..., np.newaxis, np.newaxis] & np.logical_and.outer(self._reached, self._reached)
        return np.where(grown, np.inf, lifted)

    @property
    def trace(self) -> FloatArray:
        """E |beta_k - E beta_k|^2, of the shape of `epochs`."""
        with np.errstate(over="ignore"):
            total = np.ldexp(np.trace(self._finite, axis1=-2, axis2=-1), 2 * self._exponent)
        return np.where(self._grows, np.inf, total)

    @property
    def standard_deviations(self) -> FloatArray:
        """Of each parameter, epochs.shape + (p,)."""
        identity = self._space.coordinates(np.eye(self._space.p)) if self._space.p <= _MANY else None
        if identity is None:
            return norms(self.factor)
        return self._deviations(identity, self._reached)

    def deviation(self, X_new: ArrayLike) -> FloatArray:
        """The standard deviations of what single runs say of new rows X_new (m, p), epochs.shape + (m,)."""
        rows = new_rows(X_new, self._space.p)
        seen = self._space.coordinates(rows.T)
        return self._deviations(seen, norms(seen.T) > _ROUNDING * norms(rows))

    def deviation_error(self, X_new: ArrayLike) -> FloatArray:
        """How far `deviation(X_new)` may be off, epochs.shape + (m,), in the sense of `error_kind`."""
        rows = new_rows(X_new, self._space.p)
        found = self.deviation(X_new)
        if self._draws is None or self._back is None:
            # To first order, and never by more than the root of what the matrix is off by.
            off = self.error[..., np.newaxis] * np.square(norms(rows))
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.where(off == 0, 0.0, np.minimum(off / (2 * found), np.sqrt(off)))
        along = np.square(self._draws @ self._space.coordinates(rows.T))
        pairs = (along[:, 0::2] + along[:, 1::2]) / 2
        count = pairs.shape[1]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            squares = np.ldexp(pairs.std(axis=1, ddof=1) / np.sqrt(count), 2 * self._exponent)
            off = quantile(count) * squares[self._back].reshape(found.shape)
            return np.where(np.isinf(found), np.inf, np.where(off == 0, 0.0, off / (2 * found)))

    def _deviations(self, seen: FloatArray, reached: BoolArray) -> FloatArray:
        """Sqrt(w'C w) for the columns w of (r, m), inf where C grows and w has a part in it."""
        squares = np.einsum("...ij,im,jm->...m", self._finite, seen, seen, optimize=True)
        with np.errstate(over="ignore"):
            found = np.ldexp(np.sqrt(np.maximum(squares, 0.0)), self._exponent)
        return np.where(self._grows[..., np.newaxis] & reached, np.inf, found)

    @cached_property
    def _reached(self) -> BoolArray:
        """Which parameters (p,) the row space has a part in."""
        sizes = self._problem.kept.column_sizes
        return np.asarray(self._space.reach(np.eye(self._space.dimension), sizes).any(axis=1))

    def _flat(self, matrices: FloatArray) -> FloatArray:
        # No -1 in the shape: of features that are all zero there are no coordinates to divide by.
        return matrices.reshape(self.epochs.size, *matrices.shape[-2:])


_ROUNDING = 1e-12
_MANY = 1000
"""Parameters up to which an identity matrix of them is no burden."""


def new_rows(X_new: ArrayLike, p: int) -> FloatArray:
    """Return new rows (m, p), checked."""
    rows = _arrays.matrix("X_new", X_new)
    if rows.shape[1] != p:
        raise ValueError(f"X_new must have {p} columns, one per parameter, but its shape is {rows.shape}.")
    return rows
