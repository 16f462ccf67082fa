"""The least-squares problem that is learned, with or without the truth behind it."""

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property, wraps
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator

from reshuffle import _arrays
from reshuffle._arrays import BoolArray, FloatArray, IntArray
from reshuffle._linalg import few_threads, thin_qr
from reshuffle.errors import ArgumentError, MissingTruthError
from reshuffle.problem import kernel, row_space
from reshuffle.problem.batches import RowGroups
from reshuffle.problem.kernel import KernelFeatures
from reshuffle.problem.row_space import Blocks, CompressedRows, Reduction, RowSpace, needs_rows, require_size
from reshuffle.problem.sources import Stream, opened

CovarianceLike: TypeAlias = ArrayLike | LinearOperator | None
"""None (identity), a number, a vector (diagonal), a matrix or a scipy LinearOperator."""

_PROBES = 4
"""Random vectors that an operator is tried on."""
_ALONE = 1e-9
"""Rounding of a leverage of one."""


@dataclass(frozen=True, eq=False)
class Covariance:
    """Sigma as the map v -> Sigma v, on R^p.

    `value` is a number (a multiple of the identity), a vector (a diagonal), a dense matrix or a
    LinearOperator; nothing of size p x p is made unless the user brought it.
    """

    p: int
    value: float | FloatArray | LinearOperator

    @property
    def is_isotropic(self) -> bool:
        """True if Sigma is a multiple of the identity, so that every quadratic form in it is diagonal."""
        return isinstance(self.value, float)

    def apply(self, vectors: FloatArray) -> FloatArray:
        """Sigma v for a vector (p,) or for the columns of a matrix (p, m)."""
        if isinstance(self.value, float):
            return np.multiply(self.value, vectors)
        if isinstance(self.value, LinearOperator):
            return np.asarray(self.value @ vectors, dtype=np.float64)
        if self.value.ndim == 1:
            return np.asarray((self.value * vectors.T).T)
        return np.asarray(self.value @ vectors)

    def norm_squared(self, vector: FloatArray) -> float:
        """|v|_Sigma^2 = v' Sigma v."""
        # Dividing by the largest entry keeps the squares of very large and very small vectors in range.
        size = float(np.abs(vector).max(initial=0.0))
        if size == 0.0:
            return 0.0
        unit = vector / size
        with np.errstate(over="ignore"):
            return float(np.float64(size) * (size * max(float(unit @ self.apply(unit)), 0.0)))

    def gram(self, vectors: FloatArray) -> FloatArray:
        """V' Sigma V for the columns of V (p, m), made exactly symmetric."""
        product = vectors.T @ self.apply(vectors)
        return product / 2 + product.T / 2

    def root(self) -> Callable[[FloatArray], FloatArray]:
        """The map of rows (n, p) by the symmetric root of Sigma, which is taken once."""
        value = self.value
        if isinstance(value, float):
            size = math.sqrt(value)
            return lambda rows: rows if size == 1.0 else size * rows
        if isinstance(value, LinearOperator):
            raise TypeError(
                "covariance must be a number, a vector or a matrix to draw features from it, "
                "but it is a LinearOperator, whose square root is not known; "
                "draw X yourself and pass the operator to LeastSquares."
            )
        if value.ndim == 1:
            sizes = np.sqrt(value)
            return lambda rows: rows * sizes
        values, vectors = scipy.linalg.eigh(value)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        return lambda rows: np.asarray(rows @ root)


def checked_covariance(value: CovarianceLike, p: int) -> Covariance:
    """Check a covariance of p features and wrap it.

    >>> checked_covariance([1.0, 4.0], p=2).apply(np.array([1.0, 1.0]))
    array([1., 4.])
    >>> checked_covariance([1.0, -4.0], p=2)
    Traceback (most recent call last):
    ...
    reshuffle.errors.ArgumentError: covariance must be positive semidefinite, but its diagonal holds -4.0.
    """
    if value is None:
        return Covariance(p, 1.0)
    if isinstance(value, LinearOperator):
        if value.shape != (p, p):
            allowed = f"map R^{p} to itself for p = {p} features"
            raise ArgumentError("covariance", allowed, f"its shape is {value.shape}")
        # Evidence of symmetry and definiteness, not proof.
        probes = np.random.default_rng(0).standard_normal((p, _PROBES))
        image = np.asarray(value @ probes, dtype=np.float64)
        if not np.isfinite(image).all():
            raise ArgumentError("covariance", "map finite vectors to finite vectors", "it does not")
        _arrays.semidefinite("covariance", probes.T @ image)
        return Covariance(p, value)
    array = _arrays.real_array("covariance", value)
    require_size("covariance", float(np.abs(array).max(initial=0.0)), 100)
    if array.ndim == 0:
        return Covariance(p, _arrays.nonnegative("covariance", float(array)))
    if array.shape not in ((p,), (p, p)):
        allowed = f"be a number, of shape ({p},) or of shape ({p}, {p}) for p = {p} features"
        raise ArgumentError("covariance", allowed, f"its shape is {array.shape}")
    if array.ndim == 1:
        if array.min() < 0:
            allowed = "be positive semidefinite"
            raise ArgumentError("covariance", allowed, f"its diagonal holds {float(array.min())}")
        return Covariance(p, array)
    return Covariance(p, _arrays.semidefinite("covariance", array))


class LeastSquares:
    """Minimise |y - X b|^2 / (2n) over b in R^p, where y = X beta_star + eta (Section 2 of the paper).

    Parameters
    ----------
    X : (n, p)
        Features, a row per sample. float64 arrays are used as they are, without a copy: do not change them. Frames,
        tensors and sparse matrices are taken too, the latter made dense. Or a source of rows that need not fit into
        memory: a numpy memmap, a folder of .npy or of .parquet files (sorted by name), a pyarrow dataset, a Dask
        array or dataframe. Where they are more than 64 MB, or Dask's, they are read in chunks, one pass for all
        batches of a scheme, and only the statistics of batches are stored.
    y : (n,) or (n, t)
        Responses; of t outputs if they have t columns, each with its parameters. The outputs share all that
        does not depend on y, so that a thousand cost one more product. With a source: an array, a source of the
        same kind, or the name of a column (a list of names for several outputs), the other columns being X.
    beta_star : (p,) or (p, t), optional
        The true parameters. Needed for the risk.
    covariance : optional
        Sigma = E x x', of a new sample: None (identity), a number, a vector (diagonal), a matrix or a
        scipy LinearOperator.
    noise : float or (t,), optional
        The standard deviation sigma of the independent entries of eta. Needed for the risk.
    sample_weight : (n,), optional
        Positive weights w: the loss is sum_i w_i (y_i - x_i'b)^2 / (2n), and the gradient of a batch is divided by
        its number of rows as ever, like torch's (w * loss).mean(). Weights are precisions: the noise in row i then
        has standard deviation noise / sqrt(w_i). X and y hold the rows multiplied by sqrt(w_i).
    in_memory : bool, optional
        True to read the rows of a source into memory, where every method is available; False for chunks. By
        default they are read into memory up to 64 MB, but never those of Dask.

    Attributes
    ----------
    new_rows : (m, p) or None
        New points of a problem that was posed by a kernel, in its coordinates.
    outputs : int or None
        t, or None if y is a vector. Then beta_star is (p, t) and noise (t,), and `output(j)` is the problem of one.

    >>> problem = LeastSquares([[1, 0], [1, 1], [1, 2]], [1, 2, 2])
    >>> problem
    LeastSquares(n=3, p=2, truth unknown)
    >>> LeastSquares([[1, 0], [1, 1], [1, 2]], [[1, 0], [2, 0], [2, 1]])
    LeastSquares(n=3, p=2, outputs=2, truth unknown)
    """

    n: int
    p: int
    outputs: int | None
    sample_weight: FloatArray | None = None
    is_weighted: bool
    beta_star: FloatArray | None = None
    noise: float | FloatArray | None = None
    new_rows: FloatArray | None = None
    stream: Stream | None = None
    """The source of rows that are read in chunks, if they are."""
    _compressed: CompressedRows | None = None
    _of: "tuple[LeastSquares, int] | None" = None

    def __init__(
        self,
        X: Any,
        y: Any,
        beta_star: ArrayLike | None = None,
        covariance: CovarianceLike = None,
        noise: float | ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        in_memory: bool | None = None,
    ):
        keep = None if in_memory is None else _arrays.flag("in_memory", in_memory)
        is_plain = type(X) is np.ndarray and keep is None
        found = X if isinstance(X, Stream) else None if is_plain else opened(X, y, sample_weight, keep)
        if isinstance(found, Stream):
            self.stream, self.n, self.is_weighted = found, found.n, found.weights is not None
            self._pose(found.p, found.outputs, beta_star, covariance, noise)
            return
        if found is not None:
            X, y = found.X, found.y
        features = _arrays.matrix("X", X)
        responses, self.is_weighted = _arrays.checked_responses(y, len(features)), sample_weight is not None
        if sample_weight is not None:
            self.sample_weight = _arrays.checked_weights(sample_weight, len(features))
            features, responses = _arrays.weighted(features, responses, self.sample_weight)
        self._compressed, self.n = CompressedRows(features, _arrays.columns(responses)), len(features)
        outputs = None if responses.ndim == 1 else responses.shape[1]
        self._pose(features.shape[1], outputs, beta_star, covariance, noise)

    @classmethod
    def of_compressed(
        cls,
        rows: CompressedRows,
        outputs: int | None,
        is_weighted: bool,
        beta_star: ArrayLike | None = None,
        covariance: CovarianceLike = None,
        noise: float | ArrayLike | None = None,
    ) -> "LeastSquares":
        """The problem of compressed `rows`, weighted or not (is_weighted); the truth is as in LeastSquares."""
        made = cls.__new__(cls)
        made._compressed, made.n, made.is_weighted = rows, rows.n, is_weighted
        made._pose(rows.X.shape[1], outputs, beta_star, covariance, noise)
        return made

    def _pose(
        self,
        p: int,
        outputs: int | None,
        beta_star: ArrayLike | None,
        covariance: CovarianceLike,
        noise: float | ArrayLike | None,
    ) -> None:
        """Check and keep the truth."""
        self.p, self.outputs, self.covariance = p, outputs, checked_covariance(covariance, p)
        if beta_star is not None:
            meaning = "one entry per column of X"
            self.beta_star = _arrays.checked_columns("beta_star", beta_star, p, outputs, meaning)
        if noise is not None and (outputs is None or np.ndim(_arrays.any_array("noise", noise)) == 0):
            number = _arrays.nonnegative("noise", noise)
            self.noise = number if outputs is None else np.full(outputs, number)
        elif noise is not None and outputs is not None:
            levels = _arrays.vector("noise", noise, outputs, "one entry per output")
            if levels.min() < 0:
                worst = int(levels.argmin())
                raise ArgumentError("noise", "be finite numbers >= 0", f"noise[{worst}] is {levels[worst]}")
            self.noise = levels

    def _copy(self, rows: CompressedRows, **changes: Any) -> "LeastSquares":
        """The problem of other rows, with other attributes."""
        made = copy(self)
        for name in ("reduction", "leverages"):
            made.__dict__.pop(name, None)
        made.__dict__.update(_compressed=rows, n=rows.n, _of=None)
        made.__dict__.update(changes)
        return made

    @property
    def compressed(self) -> CompressedRows:
        """The rows, or others that represent them; of rows read in chunks, those of the last pass."""
        if self._compressed is not None:
            return self._compressed
        assert self.stream is not None
        return self.stream.compressed()

    def has_compressed(self, rows: CompressedRows) -> bool:
        """True if the compressed rows are these; nothing is read to find out."""
        return self._compressed is not None and self._compressed.offsets is rows.offsets

    def of_groups(self, groups: RowGroups) -> "LeastSquares":
        """The problem by rows that represent those of each of the groups: one pass over rows on disk."""
        assert self.stream is not None
        return self._copy(self.stream.compressed(groups))

    def require_rows(self, purpose: str) -> None:
        """Raise if the rows, which `purpose` needs one by one, are not in memory."""
        if self.stream is not None or not self.compressed.are_all:
            raise needs_rows(purpose, self.n)

    @property
    def X(self) -> FloatArray:
        """The rows (n, p), multiplied by the roots of their weights if they have any."""
        self.require_rows("this question")
        return self.compressed.X

    @property
    def y(self) -> FloatArray:
        """The responses (n,) or (n, t), weighted like the rows."""
        self.require_rows("this question")
        return self.squeezed(self.compressed.y)

    def squeezed(self, answer: FloatArray) -> FloatArray:
        """An answer (..., t) without its last axis if y is a vector."""
        return np.asarray(answer[..., 0]) if self.outputs is None else answer

    @classmethod
    def from_kernel(
        cls,
        K: ArrayLike | str,
        y: ArrayLike,
        K_new: ArrayLike | None = None,
        *,
        X: ArrayLike | None = None,
        X_new: ArrayLike | None = None,
        **parameters: Any,
    ) -> "LeastSquares":
        """The problem of any features with the kernel K = Phi Phi', which need not be known.

        Mini-batch descent on them is mini-batch descent in the space of functions; the parameters of the problem
        are coordinates in the eigenvectors of K. Losses, predictions, leave-one-out and thresholds are those of
        the kernel.

        Parameters
        ----------
        K : (n, n), or the name of a kernel of scikit-learn
            k(x_i, x_j), symmetric and positive semidefinite up to rounding. By name ("rbf", "laplacian",
            "polynomial", ...) it is computed between the rows of X, with its parameters (gamma, degree, ...) as
            keywords.
        y : (n,) or (n, t)
            Responses.
        K_new : (m, n), optional
            The kernel between new points and the old ones: `run.predict(None, epochs)` is about these.
        X, X_new : (n, d) and (m, d), optional
            With the name of a kernel: the points, and new ones.
        **parameters
            Parameters of the kernel of that name.

        >>> import reshuffle as rs
        >>> x = np.linspace(0, 3, 20)[:, np.newaxis]
        >>> problem = rs.LeastSquares.from_kernel("rbf", np.sin(x[:, 0]), X=x, X_new=[[1.5]], gamma=1.0)
        >>> run = rs.descend(problem, rs.SampleReshuffling(batch_size=10), step=0.5)
        >>> run.predict(None, 500).round(1), round(float(np.sin(1.5)), 1)
        (array([1.]), 1.0)
        """
        if isinstance(K, str):
            K, K_new = kernel.named(K, X, X_new, parameters)
        elif X is not None or X_new is not None or parameters:
            raise TypeError(
                "X, X_new and parameters of a kernel must come with its name, as in from_kernel('rbf', y, X=X, "
                "gamma=1.0), but K is a matrix."
            )
        features = KernelFeatures(K)
        made = cls(features.rows, y)
        made.reduction = features.reduction(made.compressed.y)
        if K_new is not None:
            made.new_rows = features.of(K_new)
        return made

    def __repr__(self) -> str:
        known = [name for name in ("beta_star", "noise") if getattr(self, name) is not None]
        truth = "truth unknown" if not known else "truth known" if len(known) == 2 else f"{known[0]} known"
        outputs = "" if self.outputs is None else f"outputs={self.outputs}, "
        weights = "weighted, " if self.is_weighted else ""
        return f"LeastSquares(n={self.n}, p={self.p}, {outputs}{weights}{truth})"

    def output(self, number: int) -> "LeastSquares":
        """The problem of one output alone, that of this `number`, which shares all that does not depend on y.

        >>> LeastSquares([[1.0], [2.0]], [[1.0, 0.0], [2.0, 5.0]]).output(1).y
        array([0., 5.])
        """
        if self.outputs is None:
            raise ValueError(
                "output(number) needs responses y of shape (n, outputs), but y is a vector (n,)."
            )
        number = _arrays.whole_number("number", number, 0, self.outputs - 1)
        return self._copy(
            replace(self.compressed, y=np.ascontiguousarray(self.compressed.y[:, [number]])),
            outputs=None,
            stream=None,
            beta_star=None if self.beta_star is None else np.ascontiguousarray(self.beta_star[:, number]),
            noise=None if self.noise is None else float(np.asarray(self.noise)[number]),
            _of=(self, number),
        )

    @cached_property
    def reduction(self) -> Reduction:
        """The data in the coordinates of its row space, computed once."""
        if self._of is not None:
            whole, number = self._of
            return replace(whole.reduction, response=whole.reduction.response[:, [number]])
        rows = self.compressed
        with few_threads(math.sqrt(rows.X.size)):
            return row_space.reduce(rows.X, rows.y, rows.scale, rows.n)

    @property
    def row_space(self) -> RowSpace:
        """Range(X'), where everything happens."""
        return self.reduction.space

    @property
    def row_weights(self) -> FloatArray:
        """Sample weights (n,), ones if there are none."""
        given = self.sample_weight if self.stream is None else self.stream.weights
        return np.ones(self.n) if given is None else given

    @property
    def centring_factors(self) -> FloatArray:
        """a_i = W / (W - w_i) (n,), for weights w of sum W.

        Centred rows add up to zero, so that all others know the one that is left out; with as many columns as rows
        they predict it perfectly. Centred by the mean of the others row i is a_i x_i, and X'X and X'y of the others
        are those of all rows less a_i x_i x_i' and a_i x_i y_i.
        """
        weights = self.row_weights
        return np.asarray(weights.sum() / (weights.sum() - weights))

    @property
    def rank(self) -> int:
        """The numerical rank of X."""
        return self.row_space.dimension

    def blocks(self, partition: list[IntArray], divisors: FloatArray | None = None) -> Blocks:
        """The per-batch statistics of a partition, gradients divided by its parts' lengths or by divisors."""
        self.compressed.require_whole(partition)
        with few_threads(math.sqrt(self.compressed.X.size)):
            return row_space.split(self.compressed.X, self.compressed.y, self.reduction, partition, divisors)

    def rows_inside(self, members: IntArray) -> FloatArray:
        """The rows `members` in the coordinates of the row space, over their scale: x_i'V / scale (m, r)."""
        return self.reduction.rows_of(self.X, members)

    @cached_property
    def leverages(self) -> FloatArray:
        """h_i = x_i'(X'X)^+ x_i (n,), between 0 and 1: the derivative of the least-squares fit of row i by y_i.

        A row of leverage 1 is the only one to see some direction.

        >>> LeastSquares([[1, 0], [1, 0], [0, 1]], [1, 2, 3]).leverages.round(6)
        array([0.5, 0.5, 1. ])
        """
        basis, _ = thin_qr(self.rows_inside(np.arange(self.n)))
        return np.asarray(np.einsum("ij,ij->i", basis, basis))

    def rows_alone(self, *, besides_mean: bool = False) -> BoolArray:
        """Mask (n,) of the rows that alone see some direction: no combinations of others, whatever their size.

        With `besides_mean` directions count that change the differences of rows, not their common mean.

        >>> LeastSquares([[1, 0], [1e-9, 0], [0, 1]], [1, 2, 3]).rows_alone()
        array([False, False,  True])
        """
        rows = self.rows_inside(np.arange(self.n))
        if besides_mean:
            roots = np.ones(self.n) if self.sample_weight is None else np.sqrt(self.sample_weight)
            rows = np.column_stack([rows, roots])
        sizes = np.linalg.norm(rows, axis=1)
        basis, _ = thin_qr(rows / np.where(sizes > 0, sizes, 1.0)[:, np.newaxis])
        return np.asarray(np.einsum("ij,ij->i", basis, basis) > 1 - _ALONE)

    def without(self, rows: IntArray) -> "LeastSquares":
        """The problem with some rows set to zero, so that they have no gradient, all else unchanged.

        >>> LeastSquares([[1, 0], [1, 1]], [1, 2]).without(np.array([1])).X
        array([[1., 0.],
               [0., 0.]])
        """
        X, y = self.X.copy(), self.compressed.y.copy()
        X[rows], y[rows] = 0.0, 0.0
        return self._copy(CompressedRows(X, y))

    def of_first(self, count: int) -> "LeastSquares":
        """The problem of the first `count` of the compressed rows alone."""
        return self._copy(self.compressed.first(count), sample_weight=None, stream=None)

    def of_rows(self, rows: IntArray) -> "LeastSquares":
        """The problem of some of the rows alone.

        >>> LeastSquares([[1, 0], [1, 1], [1, 2]], [1, 2, 2]).of_rows(np.array([0, 2]))
        LeastSquares(n=2, p=2, truth unknown)
        """
        weights = None if self.sample_weight is None else self.sample_weight[rows]
        chosen = CompressedRows(self.X[rows], self.compressed.y[rows])
        return self._copy(chosen, sample_weight=weights, new_rows=None)

    @property
    def residual_squares(self) -> FloatArray:
        """|y - X b|^2 of least squares, () or (t,).

        >>> round(float(LeastSquares([[1, 0], [1, 1], [1, 2]], [1, 2, 2]).residual_squares), 6)
        0.166667
        """
        basis, _ = thin_qr(self.reduction.rows)
        response = self.reduction.response
        squares = np.square(response - basis @ (basis.T @ response)).sum(axis=0)
        return np.asarray(self.squeezed(squares))

    def require_ordinary(self, start: FloatArray) -> None:
        """Refuse responses, noise, and a truth or `start` times X, of sizes whose squares are no numbers."""
        scale = self.compressed.scale
        given = {"y": self.compressed.y, "noise": self.noise, "start": start, "beta_star": self.beta_star}
        sizes = {
            name: float(np.abs(value).max()) * (scale if name in ("start", "beta_star") else 1.0)
            for name, value in given.items()
            if value is not None
        }
        name = max(sizes, key=lambda each: sizes[each])
        require_size(name, sizes[name], 100, "" if name in ("y", "noise") else ", times that of X,")

    def parameters(self, purpose: str) -> FloatArray:
        """Return beta_star, or say that `purpose` needs it."""
        if self.beta_star is None:
            raise MissingTruthError(
                f"{purpose} needs beta_star, which this problem does not know; pass beta_star=... to LeastSquares."
            )
        return self.beta_star

    def require_truth(self, purpose: str) -> None:
        """Raise if beta_star or the noise, which `purpose` needs, is missing."""
        missing = [name for name in ("beta_star", "noise") if getattr(self, name) is None]
        if missing:
            raise MissingTruthError(
                f"{purpose} needs {' and '.join(missing)}, which this problem does not know; "
                f"pass {', '.join(name + '=...' for name in missing)} to LeastSquares."
            )

    def truth(self, purpose: str) -> tuple[FloatArray, Covariance, float]:
        """Return beta_star, the covariance and the noise, or say which is missing for `purpose`."""
        self.require_truth(purpose)
        assert self.beta_star is not None
        assert isinstance(self.noise, float), "a risk is that of one output"
        return self.beta_star, self.covariance, self.noise


def checked_problem(value: Any) -> LeastSquares:
    """Return `value` if it is a least-squares problem."""
    if not isinstance(value, LeastSquares):
        raise TypeError(
            f"problem must be a LeastSquares, but it is a {type(value).__name__}; try rs.LeastSquares(X, y)."
        )
    return value


def checked_start(value: ArrayLike | None, problem: LeastSquares) -> FloatArray:
    """Return beta_0, zero by default: (p,), or (p, t) for t outputs, which a vector (p,) is repeated for."""
    outputs = problem.outputs
    if value is None:
        return np.zeros(problem.p if outputs is None else (problem.p, outputs))
    shared = outputs is None or np.ndim(_arrays.any_array("start", value)) == 1
    start = _arrays.checked_columns(
        "start", value, problem.p, None if shared else outputs, "one entry per parameter"
    )
    return start if start.ndim == 2 or outputs is None else np.repeat(_arrays.columns(start), outputs, axis=1)


def checked_new_rows(value: ArrayLike | None, problem: LeastSquares) -> FloatArray:
    """Return new rows (m, p): for None the new points that a kernel problem was posed with."""
    p = problem.p
    if value is None:
        if problem.new_rows is None:
            raise ValueError(
                f"X_new must have shape (new rows, {p}), but it is None, which means the new points of a "
                "kernel, and this problem was posed without any; pass X_new, or K_new to LeastSquares.from_kernel."
            )
        return problem.new_rows
    rows = _arrays.matrix("X_new", value)
    if rows.shape[1] != p:
        raise ArgumentError("X_new", f"have {p} columns, one per parameter", f"its shape is {rows.shape}")
    return rows


_SHARED = ("epochs", "error_kind", "runs")
"""Fields of answers that all outputs have in common."""
Method = TypeVar("Method", bound=Callable[..., Any])
Answer = TypeVar("Answer")


def per_output(method: Method) -> Method:
    """Let a method of a run that answers for one output answer for many, one after the other."""

    @wraps(method)
    def answer(run: Any, *args: Any, **kwargs: Any) -> Any:
        if run.problem.outputs is None:
            return method(run, *args, **kwargs)
        return stacked([method(run.output(number), *args, **kwargs) for number in range(run.problem.outputs)])

    return cast(Method, answer)


def stacked(answers: Sequence[Answer]) -> Answer:
    """Dataclasses field by field, arrays with the outputs as their last axis, numbers as an array (t,).

    >>> stacked([np.zeros((3, 2)), np.ones((3, 2))]).shape
    (3, 2, 2)
    >>> stacked([1.5, 2.0])
    array([1.5, 2. ])
    """
    first: Any = answers[0]
    if first is None or isinstance(first, str):
        return cast(Answer, first)
    if not is_dataclass(first):
        return cast(Answer, np.stack([np.asarray(answer) for answer in answers], axis=-1))
    own = [field.name for field in fields(first) if field.name not in _SHARED]
    parts = {name: stacked([getattr(answer, name) for answer in answers]) for name in own}
    return cast(Answer, replace(cast(Any, first), **parts))
