"""The mean of the iterates after the first epochs."""

from dataclasses import dataclass

from reshuffle._core import checks
from reshuffle.recipe.average import Average


@dataclass(frozen=True)
class TailAverage(Average):
    """The mean of all iterates after the first `start` epochs: stochastic weight averaging.

    With per="epoch" the mean of the iterates of epochs start + 1, ..., k, as torch's `AveragedModel` has it that
    is updated after each of these; with per="visit" that over all visits of these epochs. After `start` epochs or
    fewer nothing has been averaged, and asking for it is an error.

    Parameters
    ----------
    start : int
        The epochs that are left out.
    per : str
        Whether the iterate counts after every "epoch" or after every "visit".

    >>> TailAverage(start=10)
    TailAverage(start=10, per='epoch')
    """

    start: int = 0
    per: str = "epoch"

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", checks.whole_number("start", self.start, 0))
        self._check_per()

    kept = 1.0
    taken = 1.0
    begins_with_iterate = False

    @property
    def earliest(self) -> int:
        """The epoch after the last one that is left out."""
        return self.start + 1

    def divisor(self, epochs: float, steps: int) -> float:
        """How many iterates were added up after `epochs` epochs of `steps` visits."""
        return (epochs - self.start) * self.updates(steps)
