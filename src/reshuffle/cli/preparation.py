"""An intercept and standardised features, where they are asked for; what is lost without."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reshuffle.cli.tables import shown

if TYPE_CHECKING:
    from reshuffle._core.arrays import BoolArray, FloatArray
    from reshuffle.cli.samples import Samples

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

    def describe(self, samples: "Samples") -> list[str]:
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


def fit(X: "FloatArray", *, standardize: bool, intercept: bool) -> Preparation:
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
                f"There is no intercept: the training loss stays above {without:.4g}; "
                f"with --intercept, above {with_:.4g}."
            )
    elif not ((np.ptp(X, axis=0) == 0) & (sizes > 0)).any():
        lines.append("There is no intercept; --intercept adds one.")
    moving = sizes[sizes > 0]
    if moving.size and moving.max() > _UNEQUAL * moving.min():
        lines.append(
            f"Features differ in size by a factor of {moving.max() / moving.min():.2g}, so that no step suits all "
            "of them; --standardize makes them alike."
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
