"""What simulated runs report: means with their standard errors."""

from dataclasses import dataclass

from reshuffle._core import FloatArray
from reshuffle._core.confidence import ErrorKind


@dataclass(frozen=True, eq=False)
class Estimate:
    """A mean over simulated runs and its standard error, of the same shape.

    Attributes
    ----------
    mean, standard_error : arrays of one shape
    """

    mean: FloatArray
    standard_error: FloatArray

    @property
    def error(self) -> FloatArray:
        """Three standard errors."""
        return 3 * self.standard_error

    @property
    def error_kind(self) -> ErrorKind:
        """In which sense `error` is meant."""
        return "three standard errors"


@dataclass(frozen=True, eq=False)
class Simulation:
    """What simulated runs did; of several outputs t, whose number is then the last axis of all estimates.

    Attributes
    ----------
    epochs : array
        As asked for; the estimates carry its shape.
    iterate : Estimate
        The mean iterate, epochs.shape + (p,), over orders (and over noise, if that was drawn anew).
    expected_risk : Estimate or None
        |b - beta_star|_Sigma^2 of a single run, on average: the risk of the mean iterate plus the spread.
    risk : Estimate or None
        The risk of the mean iterate, without bias: from pairs of runs that share their noise but not
        their orders, (b - beta_star)' Sigma (b' - beta_star).
    spread : Estimate or None
        What shuffling adds to the risk of the mean iterate: half the squared distance |b - b'|_Sigma^2 of such a
        pair. The noise that the two share cancels, so this is known far better than the risk itself.
    test_error : Estimate or None
        The mean of (x'b - x'beta_star)^2 over test samples that each run draws for itself: the risk of a
        single run as one would measure it.
    runs : int
    """

    epochs: FloatArray
    iterate: Estimate
    expected_risk: Estimate | None
    risk: Estimate | None
    spread: Estimate | None
    test_error: Estimate | None
    runs: int

    def __repr__(self) -> str:
        return f"Simulation(runs={self.runs}, epochs of shape {self.epochs.shape})"
