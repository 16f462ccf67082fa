"""Whether a fit is as far from the mean iterate as single runs are."""

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.special

from reshuffle._arrays import FloatArray
from reshuffle._uncertainty import ErrorKind, significant
from reshuffle.grid.metrics import Answer, ask
from reshuffle.run import Run

_UNLIKELY = 0.01
_SINGLE_PRECISION = 1e-5
"""Relative to the predictions: what is off by less may be so because training was done in single precision."""

_MANY = 100.0
_FADED = 1e-8


@dataclass(frozen=True, eq=False)
class SpreadTest:
    """The distance of a fit from the mean iterate beside that of single runs.

    With l_i the eigenvalues of X C X' / n, C the covariance of single runs over their orders, the squared distance
    of a run is sum_i l_i z_i^2 with mean sum_i l_i. It is compared with the multiple g chi^2_h that has the same
    mean and, for normal z_i, the same variance: g = sum l_i^2 / sum l_i, h = (sum l_i)^2 / sum l_i^2.

    Attributes
    ----------
    distance : float
        |X (fit - mean iterate)| / sqrt(n).
    expected : Answer
        The root mean square of that for single runs, sqrt(sum_i l_i).
    chi_square : float
        distance^2 / g; nan where the spread is not known or zero.
    degrees_of_freedom : float
        h, of the chi-square distribution that it is compared with.
    probability : float
        That a single run is at least as far away. Where few batches have few orders it is but a rough guide.
    """

    distance: float
    expected: Answer
    chi_square: float
    degrees_of_freedom: float
    probability: float

    @property
    def deviations(self) -> float:
        """How many times as far as single runs are on average (root mean square)."""
        expected = float(self.expected.value)
        if expected:
            return self.distance / expected
        return np.inf if self.distance else 0.0

    @property
    def is_plausible(self) -> bool:
        """Whether the fit may well be one of those runs; also where nothing is known about them."""
        return not self.probability < _UNLIKELY

    def __repr__(self) -> str:
        if not self.expected.is_known:
            return f"SpreadTest(distance={significant(self.distance, 3)}, spread unknown: {self.expected.reason})"
        word = "plausible" if self.is_plausible else "not plausible"
        size, chance = significant(self.deviations, 3), significant(self.probability, 2)
        return f"SpreadTest({size} times the spread, probability={chance}: {word})"


@dataclass(frozen=True, eq=False)
class RunSpread:
    """How far the predictions of single runs are from those of the mean iterate.

    Attributes
    ----------
    eigenvalues : (r,)
        Those of X C X' / n; none where they are not known.
    expected : Answer
        The root of their sum.
    forgiven : float
        How far the predictions of the mean iterate itself may be off, |X e| / sqrt(n).
    """

    run: Run
    eigenvalues: FloatArray
    expected: Answer
    forgiven: float

    @classmethod
    def of(cls, run: Run, epochs: float) -> "RunSpread":
        """The spread after some epochs."""
        found: list[FloatArray] = []

        def question() -> tuple[FloatArray, FloatArray, ErrorKind]:
            covariance = run.covariance(_or_settled(run, epochs))
            found.append(_eigenvalues(run, covariance.factor))
            total, off = float(found[0].sum()), float(covariance.error) * _largest(run) ** 2
            with np.errstate(divide="ignore", invalid="ignore"):
                error = np.where(off == 0, 0.0, np.minimum(off / (2 * np.sqrt(total)), np.sqrt(off)))
            return np.asarray(np.sqrt(total)), error, covariance.error_kind

        expected = ask(question)
        off = float(run.iterate_error(epochs))
        return cls(run, found[0] if found else np.zeros(0), expected, off * _largest(run) if off else 0.0)

    def test(self, noise: FloatArray, fit: FloatArray) -> SpreadTest:
        """Compare the distance of a fit (p,) from the mean iterate, `noise` (p,), with those of single runs."""
        reduction, n = self.run.problem.reduction, self.run.problem.n
        distance, size = (float(np.sqrt(reduction.squares(vector) / n)) for vector in (noise, fit))
        if not self.expected.is_known:
            return SpreadTest(distance, self.expected, np.nan, np.nan, np.nan)
        is_near = distance <= max(_SINGLE_PRECISION * size, self.forgiven)
        total = float(self.eigenvalues.sum())
        if not 0 < total < np.inf:
            return SpreadTest(distance, self.expected, np.nan, np.nan, 1.0 if is_near or total > 0 else 0.0)
        scale = float(np.square(self.eigenvalues / total).sum()) * total
        freedom, chi_square = total / scale, distance**2 / scale
        chance = 1.0 if is_near else float(scipy.special.gammaincc(freedom / 2, chi_square / 2))
        return SpreadTest(distance, self.expected, chi_square, freedom, chance)


def _or_settled(run: Run, epochs: float) -> float:
    """The epochs, or infinity where that is the same: a fixed point costs less than a thousand epochs."""
    return np.inf if epochs > _MANY and run.converges and run.stability().rate ** epochs < _FADED else epochs


def _eigenvalues(run: Run, factor: FloatArray) -> FloatArray:
    """Those of X C X' / n for C = F F'."""
    if not np.isfinite(factor).all():
        return np.array([np.inf])
    seen = run.problem.reduction.fitted(factor)
    return np.asarray(np.square(scipy.linalg.svdvals(seen, check_finite=False)) / run.problem.n)


def _largest(run: Run) -> float:
    """The largest |X b| / sqrt(n) of a unit vector b."""
    reduction = run.problem.reduction
    largest = reduction.space.scale * float(np.linalg.norm(reduction.rows, 2)) if reduction.rows.size else 0.0
    return largest / math.sqrt(run.problem.n)
