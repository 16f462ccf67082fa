"""What a run asks of the engine behind it."""

from collections.abc import Callable
from typing import Any, Protocol

from reshuffle._arrays import FloatArray
from reshuffle._uncertainty import ErrorKind
from reshuffle.epoch.select import Choice
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.run.risk import Risk
from reshuffle.run.stability import FrozenSubspace, Stability
from reshuffle.run.stopping import BestEpoch


class Motion(Protocol):
    """What has a limit: an engine of a run, or gradient flow."""

    problem: LeastSquares

    @property
    def converges(self) -> bool:
        """Whether there is a limit from every start."""

    @property
    def error_kind(self) -> ErrorKind:
        """In which sense errors are meant."""

    def iterate(self, epochs: FloatArray) -> FloatArray:
        """The parameters, epochs.shape + (p,)."""

    def iterate_error(self, epochs: FloatArray) -> FloatArray:
        """How far they may be off in Euclidean norm, of the shape of `epochs`."""

    def training_loss(self, epochs: FloatArray) -> FloatArray:
        """|y - X b|^2 / (2n), of the shape of `epochs`."""

    def training_loss_error(self, epochs: FloatArray) -> FloatArray:
        """How far that may be off."""

    def risk(self, epochs: FloatArray) -> Risk:
        """The risk, with its error."""


class Engine(Motion, Protocol):
    """The mean iterate as a function of the epochs, which are checked before they come here (any shape).

    There are two, which know nothing of each other: the modes of a symmetric mean map, and an affine map that is
    repeated by squaring.
    """

    start: FloatArray

    @property
    def method(self) -> str:
        """How the mean over orders is taken: "exact", "cavity" or "sampling"."""

    @property
    def choice(self) -> Choice:
        """How that was chosen."""

    def sampling_error(self, answer: Callable[[Any], FloatArray], here: FloatArray) -> FloatArray:
        """How far an answer, which is `here`, may be off because orders were sampled; 0 if none were."""

    def degrees_of_freedom(self, epochs: FloatArray) -> FloatArray:
        """The trace of what the responses of the rows are multiplied by in their fit, of the shape of `epochs`."""

    def stability(self) -> Stability:
        """Whether and how fast the mean iterate converges."""

    @property
    def frozen(self) -> FrozenSubspace:
        """The subspace in which nothing is learned."""

    def best_epoch(self) -> BestEpoch:
        """The epoch with the smallest risk of the mean iterate."""
