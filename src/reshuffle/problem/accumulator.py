"""Data that come in pieces: the statistics of each batch, and the least-squares problem that they are all of."""

import os
import tempfile
import zipfile
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import AnyArray, FloatArray, IntArray
from reshuffle.errors import ArgumentError
from reshuffle.problem.batches import BatchFactors
from reshuffle.problem.least_squares import CovarianceLike, LeastSquares
from reshuffle.problem.row_space import CompressedRows

_FORMAT = "reshuffle accumulator 1"
_NAMES = ("format", "batches", "weighted", "X", "y", "counts", "offsets", "sizes")

_UNREADABLE = (OSError, zipfile.BadZipFile, KeyError, ValueError, EOFError, TypeError, AttributeError)
_SHOWN = 8
"""Batches whose rows are counted where an accumulator is printed."""


def _wrong(found: dict[str, AnyArray]) -> str:
    """The reason why arrays do not fit together; nothing if they do."""
    if found["format"].dtype.kind != "U" or str(found["format"]) != _FORMAT:
        return "it is of another format"
    if any(found[name].dtype.kind not in "iufb" for name in _NAMES[1:]):
        return "it holds no numbers"
    batches, _, X, y, counts, offsets, sizes = (found[name] for name in _NAMES[1:])
    if not X.size:
        return ""
    fits = (
        X.ndim == 2 and y.ndim in (1, 2) and len(y) == len(X) and counts.shape == (int(batches),)
        and offsets.shape == (int(batches) + 1,) and sizes.shape == X.shape[1:]
    )  # fmt: skip
    if not fits:
        return "its arrays do not fit together"
    kept = np.diff(offsets)
    if offsets[0] != 0 or offsets[-1] != len(X) or (kept < 0).any() or (counts < kept.clip(max=1)).any():
        return "its counts are not those of its rows"
    if not all(np.isfinite(part).all() for part in (X, y, sizes)):
        return "not all of its entries are finite"
    return ""


class Accumulator:
    """Least squares on rows that arrive in pieces, any number in any order, and are not stored.

    Only the triangular factor of each batch is stored, B (p + 1) rows in all. The problem made of them has the
    same answers as that of the rows in memory, up to rounding, for all schemes that visit these batches: an
    orthogonal transformation of the rows of a batch changes nothing that the batch does.

    Parameters
    ----------
    batches : int
        B, the batches that the rows are put into; 1 for the full batch, or for `coef` alone.

    >>> rng = np.random.default_rng(0)
    >>> data = Accumulator(batches=2)
    >>> for number in range(10):
    ...     X = rng.standard_normal((50, 3))
    ...     data = data.add(X, X @ [1.0, 2.0, 3.0], batch=number % 2)
    >>> data
    Accumulator(batches=2, n=500, p=3, counts=[250, 250])
    >>> data.coef().round(6)
    array([1., 2., 3.])
    >>> data.problem()
    LeastSquares(n=500, p=3, truth unknown)
    """

    def __init__(self, batches: int = 1):
        self.batches = _arrays.whole_number("batches", batches, 1)
        self._factors: BatchFactors | None = None
        self._is_weighted = False
        self._outputs: int | None = None

    def __repr__(self) -> str:
        if self._factors is None:
            return f"Accumulator(batches={self.batches}, empty)"
        shown = [str(count) for count in self.counts[:_SHOWN]] + ["..."] * (self.batches > _SHOWN)
        outputs = "" if self.outputs is None else f"outputs={self.outputs}, "
        weights = "weighted, " if self._is_weighted else ""
        return (
            f"Accumulator(batches={self.batches}, n={self.n}, p={self.p}, {outputs}{weights}"
            f"counts=[{', '.join(shown)}])"
        )

    @property
    def n(self) -> int:
        """The rows that were added."""
        return int(self.counts.sum())

    @property
    def p(self) -> int | None:
        """The columns of X, once there are rows."""
        return None if self._factors is None else self._factors.p

    @property
    def outputs(self) -> int | None:
        """The columns of y; None if it is a vector."""
        return self._outputs

    @property
    def counts(self) -> IntArray:
        """The rows of each batch, (B,)."""
        return np.zeros(self.batches, dtype=np.int64) if self._factors is None else self._factors.counts

    def add(
        self,
        X: ArrayLike,
        y: ArrayLike,
        batch: int | ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> "Accumulator":
        """Add rows X (m, p) with responses y (m,) or (m, t) to a batch, and return self.

        `batch` is its number, from 0, or one number per row (m,); it need not be given if there is one batch.
        `sample_weight` (m,) is as in LeastSquares, for all rows or for none.

        >>> Accumulator(batches=2).add([[1.0], [2.0]], [1.0, 3.0], batch=2)
        Traceback (most recent call last):
        ...
        reshuffle.errors.ArgumentError: batch must be a whole number between 0 and 1, but it is 2.
        """
        features = _arrays.matrix("X", X)
        responses = _arrays.checked_responses(y, len(features))
        labels = self._labels(batch, len(features))
        outputs = None if responses.ndim == 1 else responses.shape[1]
        if self._factors is not None:
            self._require_like(features.shape[1], outputs, sample_weight is not None)
        if sample_weight is not None:
            weights = _arrays.checked_weights(sample_weight, len(features))
            features, responses = _arrays.weighted(features, responses, weights)
        if self._factors is None:
            self._factors = BatchFactors(self.batches, features.shape[1], outputs or 1)
            self._is_weighted, self._outputs = sample_weight is not None, outputs
        self._factors.add_labelled(features, _arrays.columns(responses), labels)
        return self

    def _labels(self, batch: Any, rows: int) -> IntArray:
        """The batch of each row, (rows,)."""
        if batch is None and self.batches > 1:
            raise ValueError(
                f"batch must be given, a whole number between 0 and {self.batches - 1}: that of these rows."
            )
        labels = _arrays.any_array("batch", 0 if batch is None else batch)
        if labels.ndim == 0:
            number = 0 if batch is None else batch
            return np.full(rows, _arrays.whole_number("batch", number, 0, self.batches - 1))
        if labels.shape != (rows,) or labels.dtype.kind not in "iu":
            allowed = f"be a whole number or one per row, of shape ({rows},)"
            raise ArgumentError("batch", allowed, f"its shape is {labels.shape} and its dtype {labels.dtype}")
        wrong = (labels < 0) | (labels >= self.batches)
        if wrong.any():
            row = int(np.argmax(wrong))
            allowed = f"hold whole numbers between 0 and {self.batches - 1}"
            raise ArgumentError("batch", allowed, f"batch[{row}] is {labels[row]}")
        return labels.astype(np.intp)

    def _require_like(self, p: int, outputs: int | None, is_weighted: bool) -> None:
        """Refuse pieces that are of another problem."""
        if p != self.p:
            raise ArgumentError("X", f"have {self.p} columns, as the rows before", f"it has {p}")
        if outputs != self.outputs:
            raise ArgumentError("y", f"be {_shape(self.outputs)}, as before", f"it is {_shape(outputs)}")
        if is_weighted != self._is_weighted:
            before = "with" if self._is_weighted else "without"
            allowed = "be given for all rows or for none"
            raise ArgumentError("sample_weight", allowed, f"rows were added {before} before")

    def merge(self, other: "Accumulator") -> "Accumulator":
        """Add what another accumulator has, batch by batch, and return self; the other one is left as it is.

        >>> first, second = Accumulator().add([[1.0]], [1.0]), Accumulator().add([[2.0]], [3.0])
        >>> first.merge(second)
        Accumulator(batches=1, n=2, p=1, counts=[2])
        """
        if not isinstance(other, Accumulator):
            raise TypeError(f"other must be an Accumulator, but it is a {type(other).__name__}.")
        if other.batches != self.batches:
            allowed = f"have {self.batches} batches as this one"
            raise ArgumentError("other", allowed, f"it has {other.batches}")
        if other._factors is None:
            return self
        if self._factors is None:
            self._factors = BatchFactors(self.batches, other._factors.p, other._factors.t)
            self._is_weighted, self._outputs = other._is_weighted, other._outputs
        else:
            try:
                self._require_like(other._factors.p, other.outputs, other._is_weighted)
            except ValueError as difference:
                raise ValueError(f"other must be of the same problem: in it, {difference}") from None
        # Its own rows may be among those that wait, where it is merged with itself.
        self._factors.merge(other._factors.compressed())
        return self

    def save(self, path: "str | PathLike[str]") -> None:
        """Write everything to the file `path`, of numpy's format npz; nothing is left if that fails midway."""
        target, none = Path(path), np.zeros(0)
        parts: tuple[Any, ...] = np.zeros((0, 0)), none, none, none, none
        if self._factors is not None:
            rows = self._factors.compressed()
            y = rows.y[:, 0] if self.outputs is None else rows.y
            parts = rows.X, y, rows.counts, rows.offsets, rows.sizes
        named = zip(_NAMES, (_FORMAT, self.batches, self._is_weighted, *parts), strict=True)
        # Written to a temporary file in the same folder, and renamed once it is complete.
        handle, name = tempfile.mkstemp(prefix=target.name, suffix=".part", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, **{key: np.asarray(part) for key, part in named})  # type: ignore[arg-type]
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise

    @classmethod
    def load(cls, path: "str | PathLike[str]") -> "Accumulator":
        """The accumulator that `save` has written to `path`, for more rows to be added."""
        try:
            # numpy leaves a file open that it was given by name and cannot read.
            with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
                found = {name: np.asarray(file[name]) for name in _NAMES}
            wrong = _wrong(found)
        except (FileNotFoundError, IsADirectoryError, PermissionError):
            raise
        except _UNREADABLE as error:
            wrong = str(error)
        if wrong:
            allowed = "be a whole file that Accumulator.save has written"
            raise ArgumentError("path", allowed, f"{os.fspath(path)!r} is not: {wrong.rstrip('.')}")
        X, y, counts, offsets, sizes = (found[name] for name in _NAMES[3:])
        made = cls(int(found["batches"]))
        if X.size:
            made._is_weighted, made._outputs = bool(found["weighted"]), None if y.ndim == 1 else y.shape[1]
            made._factors = BatchFactors(made.batches, X.shape[1], made.outputs or 1)
            counts, offsets = counts.astype(np.int64), offsets.astype(np.intp)
            made._factors.merge(CompressedRows(X, _arrays.columns(y), counts, offsets, sizes))
        return made

    def _kept(self) -> CompressedRows:
        if self._factors is None:
            raise ArgumentError("there", "be rows", "none were added: call add(X, y) first")
        return self._factors.compressed()

    def problem(
        self,
        beta_star: ArrayLike | None = None,
        covariance: CovarianceLike = None,
        noise: float | ArrayLike | None = None,
    ) -> LeastSquares:
        """The problem of all rows so far, for schemes that visit these batches.

        beta_star, covariance and noise are those of LeastSquares.

        >>> from reshuffle import RandomReshuffling, descend
        >>> data = Accumulator(batches=2).add([[1.0], [2.0], [3.0]], [1.0, 0.0, 2.0], batch=[0, 1, 1])
        >>> descend(data.problem(), RandomReshuffling(batches=2), step=0.05).iterate(3).round(4)
        array([0.3861])
        """
        kept = self._kept()
        empty = np.flatnonzero(self.counts == 0)
        if len(empty):
            allowed, hint = "have a row", "add rows to it, or make an accumulator with fewer batches"
            raise ArgumentError("every batch", allowed, f"batch {empty[0]} of {self.batches} has none", hint)
        return LeastSquares.of_compressed(kept, self.outputs, self._is_weighted, beta_star, covariance, noise)

    def coef(self) -> FloatArray:
        """The least-squares solution of all rows so far, (p,) or (p, t), of smallest norm where there are many.

        Without an intercept; add a column of ones for that. From the factors by singular values, so that it has as
        many digits as if all rows were there.
        """
        kept = self._kept()
        tolerance = max(kept.n, kept.X.shape[1]) * float(np.finfo(np.float64).eps)
        found, *_ = scipy.linalg.lstsq(kept.X / kept.scale, kept.y, cond=tolerance, check_finite=False)
        return np.asarray(found[:, 0] if self.outputs is None else found) / kept.scale


def _shape(outputs: int | None) -> str:
    return "a vector" if outputs is None else f"of {outputs} outputs"
