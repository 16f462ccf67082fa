"""The risk of the run itself: over orders and noise, not of the mean iterate."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._uncertainty import ErrorKind, error_of_mean, significant, with_error
from reshuffle.epoch.second_moment.averaged_spread import Spread
from reshuffle.epoch.second_moment.snapshots import Readout, Snapshot

_ROUNDING = 1e-8
"""Relative to the terms that are added: what many epochs of rounding may do to a sum of them."""


@dataclass(frozen=True, eq=False)
class ExpectedRisk:
    """E |beta_k - beta_star|_Sigma^2 of one run, over its random orders and the noise in its responses.

    Each part has the shape of `epochs`, or epochs.shape + (t,) of t outputs; what grows without bound is inf.

    Attributes
    ----------
    epochs : array
        As asked for.
    total : array
        The expected risk: mean + spread.
    mean : array
        The risk of the mean iterate, which averaging many runs would have.
    spread : array
        What shuffling adds: E |beta_k - E beta_k|_Sigma^2 over the orders.
    error : array
        Of the total: where orders were sampled so much that at least 99 of 100 seeds are within, an estimate of
        what is left of the iteration for a fixed point, and 0 where all is exact up to rounding.
    error_kind : str
        In which of these senses: "three standard errors", "estimate" or "exact".
    """

    epochs: FloatArray
    total: FloatArray
    mean: FloatArray
    spread: FloatArray
    error: FloatArray
    error_kind: ErrorKind = "exact"

    def enlarged(self, exponent: int) -> "ExpectedRisk":
        """The same in units that are 2^-exponent as large."""
        with np.errstate(over="ignore", under="ignore"):
            total, mean, spread, error = (
                np.ldexp(part, exponent) for part in (self.total, self.mean, self.spread, self.error)
            )
        return ExpectedRisk(self.epochs, total, mean, spread, error, self.error_kind)

    def __repr__(self) -> str:
        if self.total.ndim or self.epochs.size == 0:
            largest = float(self.error.max(initial=0.0))
            off = f", error at most {significant(largest, 2)} ({self.error_kind})" if largest else ""
            return f"ExpectedRisk(shape={self.total.shape}{off})"
        return (
            f"ExpectedRisk(total={with_error(self.total, self.error, self.error_kind)}: "
            f"mean={float(self.mean):.6g}, spread={float(self.spread):.6g})"
        )


def of_moments(
    clock: FloatArray, snapshots: Iterator[Snapshot], fades: FloatArray, readout: Readout, mean: FloatArray
) -> ExpectedRisk:
    """Put together what the moments of the error say.

    Parameters
    ----------
    clock : any shape
    snapshots : iterator of Snapshot
        At each of the distinct epochs, ascending.
    fades, mean : (distinct epochs,)
        What is left outside the row space, and the risk of the mean iterate.
    readout : Readout
    """
    when, back = np.unique(clock.ravel(), return_inverse=True)
    totals, errors = np.zeros(len(when)), np.zeros(len(when))
    for number, (snapshot, fade) in enumerate(zip(snapshots, fades, strict=True)):
        inside = readout.inside(snapshot.second)
        if np.isfinite(inside):
            cross = readout.between(snapshot.mean, float(fade))
            outside = readout.outside(float(fade))
            rounding = _ROUNDING * (readout.size(snapshot.second) + abs(cross) + outside)
            totals[number] = _nonnegative(inside + cross + outside, rounding, when[number])
        else:
            totals[number] = np.inf
        errors[number] = snapshot.error * inside if snapshot.error else 0.0
    return _spread_over(clock, back, totals, mean, errors, "estimate" if errors.any() else "exact")


def of_spreads(
    clock: FloatArray, spreads: Iterator[Spread], readout: Readout, mean: FloatArray
) -> ExpectedRisk:
    """The same of what the orders add to an average, at each of the distinct epochs, ascending."""
    _, back = np.unique(clock.ravel(), return_inverse=True)
    # Rounding may leave a covariance of nothing just below zero.
    sizes = [(max(readout.inside(each.covariance), 0.0), each.error) for each in spreads]
    spread = np.array([size for size, _ in sizes])
    errors = np.array([error * size if error else 0.0 for size, error in sizes])
    made = _spread_over(clock, back, mean + spread, mean, errors, "estimate" if errors.any() else "exact")
    # It may be too small to be seen in a difference of the two.
    return replace(made, spread=spread[back].reshape(clock.shape))


def _nonnegative(total: float, rounding: float, epoch: float) -> float:
    """A mean of squares; below zero, but for rounding, it is no answer."""
    if total < -rounding:
        raise ArithmeticError(
            f"the expected risk after {epoch:g} epochs came out as {total:g}, below zero by more than rounding "
            f"({rounding:.1g}): the recursion of second moments has lost its accuracy; try a smaller step."
        )
    return max(total, 0.0)


def deterministic(clock: FloatArray, mean: FloatArray) -> ExpectedRisk:
    """A run that is always the same is its own mean: nothing is spread."""
    _, back = np.unique(clock.ravel(), return_inverse=True)
    return _spread_over(clock, back, mean, mean, np.zeros(len(mean)))


def of_courses(clock: FloatArray, risks: FloatArray, mean: FloatArray, sampled: bool) -> ExpectedRisk:
    """Average the risks (courses, distinct epochs) of runs that differ in their first draw alone.

    Sampled courses come in pairs of an order and its reverse, whose differences tell the error.
    """
    _, back = np.unique(clock.ravel(), return_inverse=True)
    errors = np.zeros(risks.shape[1])
    if sampled:
        errors = error_of_mean((risks[0::2] + risks[1::2]) / 2)
    kind: ErrorKind = "three standard errors" if sampled else "exact"
    return _spread_over(clock, back, risks.mean(axis=0), mean, errors, kind)


def of_estimate(clock: FloatArray, mean: FloatArray, spread: FloatArray, errors: FloatArray) -> ExpectedRisk:
    """A spread that was estimated, at the distinct epochs."""
    _, back = np.unique(clock.ravel(), return_inverse=True)
    return _spread_over(clock, back, mean + spread, mean, errors, "three standard errors")


def _spread_over(
    clock: FloatArray,
    back: IntArray,
    totals: FloatArray,
    mean: FloatArray,
    errors: FloatArray,
    kind: ErrorKind = "exact",
) -> ExpectedRisk:
    with np.errstate(invalid="ignore"):
        # Both are sums of the same size, so that their difference may round to just below zero.
        spread = np.where(np.isinf(totals), np.inf, np.maximum(totals - mean, 0.0))
    shape = clock.shape
    return ExpectedRisk(
        clock,
        totals[back].reshape(shape),
        mean[back].reshape(shape),
        spread[back].reshape(shape),
        errors[back].reshape(shape),
        kind,
    )
