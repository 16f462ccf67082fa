"""The problem that the options describe: drawn at random, or read from a file and prepared."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reshuffle.cli import reader
from reshuffle.cli.options import ProblemOptions
from reshuffle.cli.render import number
from reshuffle.errors import ArgumentError

if TYPE_CHECKING:
    import reshuffle as rs
    from reshuffle._arrays import FloatArray
    from reshuffle.problem.standardizer import Standardizer

_CHEAP = 2e9
"""Operations of a least-squares solution that nobody notices."""
_UNEQUAL = 100.0
"""Ratio of the sizes of two features beyond which steps that suit one hardly move the other."""


@dataclass(frozen=True, eq=False)
class Posed:
    """A problem, the file that it comes from, if any, what was done to its features, and remarks on it.

    What it `lacks` is an intercept, or features of one size.
    """

    problem: "rs.LeastSquares"
    data: reader.Data | None = None
    standardizer: "Standardizer | None" = None
    intercept: bool = False
    remarks: Sequence[str] = ()
    lacks: Sequence[str] = ()

    def held_out(self, path: str) -> "rs.LeastSquares":
        """The rows of another file, with the same features, prepared as those of the training rows were."""
        import reshuffle as rs

        if self.data is None:
            raise ArgumentError("test", "", "holds out rows of {data}, which is not given")
        X, y = self.data.held_out(path)
        return rs.LeastSquares(_prepared(X, self.standardizer, self.intercept), y[:, 0])

    def record(self, options: ProblemOptions) -> dict[str, Any]:
        """The problem in JSON."""
        record: dict[str, Any] = {"n": self.problem.n, "p": self.problem.p, "noise": self.problem.noise}
        record |= {"covariance": options.covariance, "seed": options.seed, "data": options.data}
        if self.data is None:
            return record
        names = self.data.features if self.data.has_names else None
        return record | {
            "y": self.data.targets[0],
            "features": names,
            "filled": self.data.filled,
            "intercept": self.intercept,
            "standardized": self.standardizer is not None,
        }


def pose(options: ProblemOptions) -> Posed:
    """Draw the problem that the options describe, or read it."""
    import reshuffle as rs

    if options.data is not None:
        if options.n is not None or options.p is not None:
            raise ArgumentError("data", "", "brings its own n and p", "leave out {n} and {p}")
        return _read(options.data, options)
    for name in ("target", "drop", "one_hot", "fill", "intercept", "standardize"):
        if getattr(options, name):
            raise ArgumentError(name, "", "speaks of the columns of {data}, which is not given")
    if options.n is None or options.p is None:
        hint = "give {n} and {p} to draw data, or {data} FILE to bring your own"
        raise ArgumentError("{n} and {p}", "", "are not both given", hint)
    noise = 1.0 if options.noise is None else options.noise
    if options.p < 1:
        raise ArgumentError("p", "be a whole number of at least 1", f"it is {options.p}")
    covariance = covariance_of(options.covariance, options.p)
    return Posed(rs.gaussian(options.n, options.p, covariance=covariance, noise=noise, seed=options.seed))


def _read(path: str, options: ProblemOptions) -> Posed:
    import numpy as np

    import reshuffle as rs
    from reshuffle.problem.standardizer import Standardizer

    target = () if options.target is None else (options.target,)
    data = reader.read(path, target, options.drop, options.one_hot, options.fill)
    # The checks at the door come first: what follows calculates with X and y.
    checked = rs.LeastSquares(data.X, data.y[:, 0])
    data.warn_of_indices()
    truth = dict(data.truth)
    if options.noise is not None:
        truth["noise"] = options.noise
    if options.covariance != "identity":
        truth["covariance"] = covariance_of(options.covariance, checked.p)
    known = [name for name in ("beta_star", "covariance") if name in truth]
    if (options.standardize or options.intercept) and known:
        given = f"change the features, but {' and '.join(known)} would stay those of the old ones"
        raise ArgumentError("{standardize} and {intercept}", "", given, "leave one or the other out")
    standardizer, remarks = None, [data.describe()]
    if options.standardize:
        made = Standardizer.of(checked.X)
        # Columns that are constant stay as they are: they may be the intercept.
        still = {name: np.where(made.constant, 0.0, getattr(made, name)) for name in ("mean", "remainder")}
        standardizer = replace(made, **still)
        names = [name for name, constant in zip(data.features, made.constant, strict=True) if constant]
        but = f", but for what is constant: {reader.some(names)}" if names else ""
        remarks.append(f"Features have mean 0 and standard deviation 1 over the rows of {path}{but}.")
    if options.intercept:
        remarks.append("The intercept is one more feature, a column of ones.")
    posed = rs.LeastSquares(_prepared(checked.X, standardizer, options.intercept), checked.y, **truth)
    lacks = () if "beta_star" in truth else _lacks(posed.X, posed.y)
    return Posed(posed, data, standardizer, options.intercept, remarks, lacks)


def _prepared(X: "FloatArray", standardizer: "Standardizer | None", intercept: bool) -> "FloatArray":
    import numpy as np

    X = X if standardizer is None else standardizer.rows(X)
    return np.column_stack([X, np.ones(len(X))]) if intercept else X


def _lacks(X: "FloatArray", y: "FloatArray") -> list[str]:
    """Remarks on features without an intercept, with what that costs, and on features of unlike size."""
    import numpy as np
    import scipy.linalg

    lines, (n, p) = [], X.shape
    sizes = np.abs(X).max(axis=0, initial=0.0)
    if n * p * min(n, p) <= _CHEAP:
        # Residuals of y and of ones: these vanish if the features make up an intercept already.
        scale = float(np.abs(y).max(initial=0.0)) or 1.0
        both, unit = np.column_stack([y / scale, np.ones(n)]), X / np.where(sizes == 0, 1.0, sizes)
        solution = scipy.linalg.lstsq(unit, both, lapack_driver="gelsy", check_finite=False)[0]
        of_y, of_ones = (both - unit @ solution).T
        residual, left = float(of_y @ of_y), float(of_ones @ of_ones)
        if left > 1e-12 * n:
            best = max(residual - float(of_y @ of_ones) ** 2 / left, 0.0)
            without, with_ = (number(scale * (scale * square / (2 * n)), 4) for square in (residual, best))
            lines.append(
                f"There is no intercept: the training loss stays above {without}; with --intercept, above {with_}."
            )
    elif not ((np.ptp(X, axis=0) == 0) & (sizes > 0)).any():
        lines.append("There is no intercept; --intercept adds one.")
    moving = sizes[sizes > 0]
    if moving.size and moving.max() > _UNEQUAL * moving.min():
        lines.append(
            f"Features differ in size by a factor of {number(moving.max() / moving.min(), 2)}, so that no step "
            "suits all of them; --standardize makes them alike."
        )
    return lines


def covariance_of(text: str, p: int) -> "FloatArray | None":
    """None for identity, a diagonal of sum p for powerlaw:EXP, or what a npy, npz or csv file holds.

    The power law is k^-EXP, normalised to the trace of the identity: drawn parameters then have a signal of 1.

    >>> covariance_of("powerlaw:1", 2).round(6)
    array([1.333333, 0.666667])
    """
    import numpy as np

    if text == "identity":
        return None
    name, _, exponent = text.partition(":")
    if name in ("powerlaw", "power"):
        try:
            power = float(exponent)
        except ValueError:
            power = float("nan")
        if not np.isfinite(power):
            allowed = "be powerlaw:EXP with a number, such as powerlaw:1.5"
            raise ArgumentError("covariance", allowed, f"it is {text!r}")
        logarithms = -np.clip(power, -1e300, 1e300) * np.log(np.arange(1, p + 1, dtype=np.float64))
        with np.errstate(under="ignore"):
            shares = np.exp(logarithms - logarithms.max())
        return np.asarray(p * shares / shares.sum())
    kind = Path(text).suffix.lower()
    if kind == ".npz":
        return np.asarray(reader.array(text, reader.load(text), "covariance"))
    if kind == ".npy":
        return np.asarray(reader.load(text))
    if kind == ".csv":
        values = reader.numbers_of(reader.read_table(text))
        return values[:, 0] if values.shape[1] == 1 else values
    allowed = "be identity, powerlaw:EXP or a FILE.npy, .npz or .csv"
    raise ArgumentError("covariance", allowed, f"it is {text!r}")
