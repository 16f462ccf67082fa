"""The exponential moving average of the iterates."""

from dataclasses import dataclass

from reshuffle._core import checks
from reshuffle.recipe.average import Average


@dataclass(frozen=True)
class EMA(Average):
    """The exponential moving average of the iterates: a -> decay a + (1 - decay) beta, from a = beta_0.

    As torch's `AveragedModel` with `get_ema_multi_avg_fn(decay)` has it, if `update_parameters` is called once
    before training: the first call copies the parameters. If it is not, torch's average begins with the iterate of
    the first epoch or visit, and differs from this one by decay^k (beta_1 - beta_0) after k updates.

    Parameters
    ----------
    decay : float
        In [0, 1); with 0 the average is the iterate.
    per : str
        Whether it is updated after every "epoch" or after every "visit".

    >>> EMA(0.99, per="visit")
    EMA(decay=0.99, per='visit')
    >>> EMA(1.0)
    Traceback (most recent call last):
    ...
    ValueError: decay must be at least 0 and below 1, but it is 1.0.
    """

    decay: float
    per: str = "epoch"

    def __post_init__(self) -> None:
        decay = checks.nonnegative("decay", self.decay)
        if decay >= 1:
            raise ValueError(f"decay must be at least 0 and below 1, but it is {self.decay!r}.")
        object.__setattr__(self, "decay", decay)
        self._check_per()

    start = 0
    begins_with_iterate = True
    earliest = 0

    @property
    def kept(self) -> float:
        """The decay."""
        return self.decay

    @property
    def taken(self) -> float:
        """1 - decay."""
        return 1 - self.decay

    def divisor(self, epochs: float, steps: int) -> float:
        """Nothing is divided: the weights add up to one, whatever `epochs` and `steps`."""
        return 1.0
