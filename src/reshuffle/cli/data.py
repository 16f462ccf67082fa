"""The problem that the options describe: drawn at random, or read from files and prepared."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reshuffle.cli import samples, tables
from reshuffle.cli.complaints import InputError
from reshuffle.cli.options import ProblemOptions
from reshuffle.cli.output import number
from reshuffle.cli.samples import Samples
from reshuffle.cli.tables import shown

if TYPE_CHECKING:
    import reshuffle as rs
    from reshuffle._arrays import BoolArray, FloatArray

_CHEAP = 2e9
"""Operations of a least-squares solution that nobody notices."""
_UNEQUAL = 100.0
"""Ratio of the sizes of two features beyond which steps that suit one hardly move the other."""
_CONSTANT = 1e-13
"""Spread relative to size below which a column is constant."""


@dataclass(frozen=True, eq=False)
class Preparation:
    """How features are changed before anything is learned; its numbers come from the training rows alone.

    x -> (x / size - centre) / spread for each column, and a column of ones at the end if there is an intercept.
    """

    size: "FloatArray"
    centre: "FloatArray"
    spread: "FloatArray"
    standardize: bool
    intercept: bool
    constant: "BoolArray"

    def apply(self, X: "FloatArray") -> "FloatArray":
        """The features as they are learned from."""
        import numpy as np

        if self.standardize:
            X = (X / self.size - self.centre) / self.spread
        return np.column_stack([X, np.ones(len(X))]) if self.intercept else X

    def describe(self, samples: Samples) -> list[str]:
        """What was done, one line each."""
        lines = []
        if self.standardize:
            names = samples.features or [f"column {place + 1}" for place in range(len(self.constant))]
            kept = [
                shown(name) for name, is_constant in zip(names, self.constant, strict=True) if is_constant
            ]
            but = f", but for what is constant: {', '.join(kept)}" if kept else ""
            lines.append(
                f"Features have mean 0 and standard deviation 1 over the rows of {samples.path}{but}."
            )
        if self.intercept:
            lines.append("The intercept is one more feature, a column of ones.")
        return lines


@dataclass(frozen=True, eq=False)
class Posed:
    """A problem and where it comes from.

    Attributes
    ----------
    problem : LeastSquares
    samples : Samples or None
        The file's own features and responses; None if the problem was drawn.
    preparation : Preparation or None
        What was done to the features.
    remarks : list of str
        Lines that tell of it.
    """

    problem: "rs.LeastSquares"
    samples: Samples | None = None
    preparation: Preparation | None = None
    remarks: list[str] = field(default_factory=list)

    def held_out(self, path: str) -> "rs.LeastSquares":
        """The rows of another file, with the same features, prepared as those of the training rows were."""
        import reshuffle as rs

        if self.samples is None or self.preparation is None:
            raise InputError("--test holds out rows of --data, which is not given.")
        found = samples.read_matching(path, self.samples)
        checked = rs.LeastSquares(found.X, found.y)
        return rs.LeastSquares(self.preparation.apply(checked.X), checked.y)

    def record(self) -> dict[str, Any]:
        """What the JSON tells of it."""
        if self.samples is None or self.preparation is None:
            return {}
        return {
            "y": self.samples.target,
            "features": self.samples.features,
            "intercept": self.preparation.intercept,
            "standardized": self.preparation.standardize,
        }


def problem(options: ProblemOptions) -> Posed:
    """Draw the problem that the options describe, or read it."""
    import reshuffle as rs

    if options.data is not None:
        if options.n is not None or options.p is not None:
            raise InputError("--data brings its own n and p; leave out --n and --p.")
        return _own_problem(options.data, options)
    for name in ("target", "intercept", "standardize"):
        if getattr(options, name):
            raise InputError(f"--{name} speaks of the columns of --data, which is not given.")
    if options.n is None or options.p is None:
        raise InputError("give --n and --p to draw data, or --data FILE to bring your own.")
    noise = 1.0 if options.noise is None else options.noise
    if options.p < 1:
        raise InputError(f"--p must be a whole number of at least 1, but it is {options.p}.")
    covariance = covariance_of(options.covariance, options.p)
    return Posed(rs.gaussian(options.n, options.p, covariance=covariance, noise=noise, seed=options.seed))


def _own_problem(path: str, options: ProblemOptions) -> Posed:
    import reshuffle as rs

    found = samples.read(path, options.target)
    # The checks at the door come first: what follows calculates with X and y.
    checked = rs.LeastSquares(found.X, found.y)
    samples.warn_of_indices(found)
    truth = dict(found.truth)
    if options.noise is not None:
        truth["noise"] = options.noise
    if options.covariance != "identity":
        truth["covariance"] = covariance_of(options.covariance, checked.p)
    changed = options.standardize or options.intercept
    known = [name for name in ("beta_star", "covariance") if name in truth]
    if changed and known:
        raise InputError(
            f"--standardize and --intercept change the features, but {' and '.join(known)} "
            "would stay those of the old ones; leave one or the other out."
        )
    made = prepared(checked.X, standardize=options.standardize, intercept=options.intercept)
    posed = rs.LeastSquares(made.apply(checked.X), checked.y, **truth)
    remarks = [found.describe(), *made.describe(found)]
    if "beta_star" not in truth:
        remarks += missing(posed.X, posed.y)
    return Posed(posed, found, made, remarks)


def prepared(X: "FloatArray", *, standardize: bool, intercept: bool) -> Preparation:
    """Take the means and standard deviations of the training rows; what is constant is left as it is."""
    import numpy as np

    # Dividing by the largest entry first keeps squares within the range of numbers.
    largest = np.abs(X).max(axis=0, initial=0.0)
    size = np.where(largest == 0, 1.0, largest)
    unit = X / size
    centre, spread = unit.mean(axis=0), unit.std(axis=0)
    constant = spread <= _CONSTANT
    return Preparation(
        np.where(constant, 1.0, size),
        np.where(constant, 0.0, centre),
        np.where(constant, 1.0, spread),
        standardize,
        intercept,
        constant,
    )


def missing(X: "FloatArray", y: "FloatArray") -> list[str]:
    """What the features lack: an intercept, with what that costs, and a common scale."""
    import numpy as np

    lines = []
    n, p = X.shape
    sizes = np.abs(X).max(axis=0, initial=0.0)
    if n * p * min(n, p) <= _CHEAP:
        without, with_ = _smallest_losses(X, y)
        if with_ is not None:
            lines.append(
                f"There is no intercept: the training loss stays above {number(without, 4)}; "
                f"with --intercept, above {number(with_, 4)}."
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


def _smallest_losses(X: "FloatArray", y: "FloatArray") -> tuple[float, float | None]:
    """The smallest training loss without and with an intercept; None if the features make up one already."""
    import numpy as np
    import scipy.linalg

    sizes = np.abs(X).max(axis=0, initial=0.0)
    unit = X / np.where(sizes == 0, 1.0, sizes)
    scale = float(np.abs(y).max(initial=0.0)) or 1.0
    both = np.column_stack([y / scale, np.ones(len(y))])
    solution = scipy.linalg.lstsq(unit, both, lapack_driver="gelsy", check_finite=False)[0]
    of_y, of_ones = (both - unit @ solution).T
    residual, left = float(of_y @ of_y), float(of_ones @ of_ones)
    loss = scale * (scale * residual / (2 * len(y)))
    if left <= 1e-12 * len(y):
        return loss, None
    explained = float(of_y @ of_ones) ** 2 / left
    return loss, scale * (scale * max(residual - explained, 0.0) / (2 * len(y)))


def covariance_of(text: str, p: int) -> "FloatArray | None":
    """None for identity, a diagonal of sum p for powerlaw:EXP, or what a npy, npz or csv file holds."""
    import numpy as np

    if text == "identity":
        return None
    name, _, exponent = text.partition(":")
    if name == "powerlaw":
        return _power_law(text, exponent, p)
    kind = Path(text).suffix.lower()
    if kind == ".npz":
        return np.asarray(samples.entry(text, tables.load(text), "covariance"))
    if kind == ".npy":
        return np.asarray(tables.load(text))
    if kind == ".csv":
        values = tables.read(text).values
        return values[:, 0] if values.shape[1] == 1 else values
    raise InputError(
        f"--covariance must be identity, powerlaw:EXP or a FILE.npy, .npz or .csv, but it is {text!r}."
    )


def _power_law(text: str, exponent: str, p: int) -> "FloatArray":
    """k^-EXP, normalised to the trace p of the identity: drawn parameters then have a signal of 1 on average.

    >>> _power_law("powerlaw:1", "1", 2).round(6)
    array([1.333333, 0.666667])
    """
    import numpy as np

    try:
        power = float(exponent)
    except ValueError:
        power = float("nan")
    if not np.isfinite(power):
        raise InputError(
            f"--covariance powerlaw:EXP needs a number, such as powerlaw:1.5, but it is {text!r}."
        )
    logarithms = -np.clip(power, -1e300, 1e300) * np.log(np.arange(1, p + 1, dtype=np.float64))
    with np.errstate(under="ignore"):
        shares = np.exp(logarithms - logarithms.max())
    return np.asarray(p * shares / shares.sum())
