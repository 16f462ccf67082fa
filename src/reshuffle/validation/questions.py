"""What leaving out rows asks of a run."""

from typing import Protocol

from reshuffle._arrays import FloatArray
from reshuffle._uncertainty import ErrorKind
from reshuffle.epoch.accuracy import Accuracy
from reshuffle.epoch.select import Choice
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.recipe import Recipe
from reshuffle.schemes.base import Scheme


class Deviation(Protocol):
    """How far single runs spread around their mean."""

    def deviation(self, X_new: FloatArray) -> FloatArray:
        """The standard deviation of what they say of rows (m, p), epochs.shape + (m,) or (m, t)."""

    def deviation_error(self, X_new: FloatArray) -> FloatArray:
        """How far that may be off."""

    @property
    def error_kind(self) -> ErrorKind:
        """In which sense."""


class Learner(Protocol):
    """A run, as far as it must be known to be judged by rows that it has not seen."""

    problem: LeastSquares
    scheme: Scheme
    recipe: Recipe
    start: FloatArray
    accuracy: Accuracy

    @property
    def converges(self) -> bool:
        """Whether the mean iterate has a limit from every start."""

    @property
    def error_kind(self) -> ErrorKind:
        """In which sense the errors of means over orders are meant."""

    @property
    def mean_choice(self) -> Choice:
        """How the mean over orders is taken, known before it is."""

    @property
    def epochs_worth_a_look(self) -> FloatArray:
        """Epochs up to where nothing moves any more, and the limit if there is one."""

    def on(self, problem: LeastSquares, *, budget: float | None = None) -> "Learner":
        """The same run on other rows, within another budget if one is given."""

    def iterate(self, epochs: FloatArray) -> FloatArray:
        """The mean iterate, epochs.shape + (p,) or (p, t)."""

    def iterate_error(self, epochs: FloatArray) -> FloatArray:
        """How far the mean iterate may be off, in Euclidean norm, epochs.shape or (..., t)."""

    def training_loss(self, epochs: FloatArray) -> FloatArray:
        """|y - X b|^2 / (2n), epochs.shape or (..., t)."""

    def degrees_of_freedom(self, epochs: FloatArray) -> FloatArray:
        """The trace of what responses are multiplied by in their fit, epochs.shape."""

    def covariance(self, epochs: FloatArray) -> Deviation:
        """How single runs spread around the mean iterate."""
