"""Up to a peak, and down."""

from dataclasses import dataclass

from reshuffle._core import checks
from reshuffle.recipe.schedules import curves
from reshuffle.recipe.schedules.curves import Paced


@dataclass(frozen=True, repr=False)
class OneCycle(Paced):
    """torch's OneCycleLR with cycle_momentum=False: up to the peak, and down to nearly nothing.

    Momentum is not cycled, as it is by torch's default. Nothing is known beyond `total`.

    Parameters
    ----------
    peak : float
        torch's max_lr.
    total : int
        torch's total_steps.
    warmup : float
        torch's pct_start, the share of `total` that goes up, between 0 and 1; at most half with three_phase.
    shape : str
        torch's anneal_strategy: "cosine" or "linear".
    divisor, final_divisor : float
        torch's div_factor and final_div_factor: it starts at peak / divisor, and ends at that / final_divisor.
    three_phase : bool
        Whether it goes down as it went up, and then on to the end.
    per : str
        "epoch" or "visit".

    >>> cycle = OneCycle(0.5, total=11, shape="linear", per="visit")
    >>> [round(cycle(t), 3) for t in range(11)]
    [0.02, 0.229, 0.437, 0.455, 0.39, 0.325, 0.26, 0.195, 0.13, 0.065, 0.0]
    """

    peak: float
    total: int
    warmup: float = 0.3
    shape: str = "cosine"
    divisor: float = 25.0
    final_divisor: float = 1e4
    three_phase: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(
            peak=checks.nonnegative("peak", self.peak),
            total=checks.whole_number("total", self.total, 1),
            shape=checks.choice("shape", self.shape, curves.SHAPES),
            divisor=checks.positive("divisor", self.divisor),
            final_divisor=checks.positive("final_divisor", self.final_divisor),
            three_phase=checks.flag("three_phase", self.three_phase),
        )
        self._set(warmup=curves.share("warmup", self.warmup, 0.5 if self.three_phase else 1.0))

    @property
    def length(self) -> float:
        """All steps of the cycle."""
        return float(self.total)

    def __call__(self, count: int) -> float:
        """The step after `count` others."""
        low, top, last = self.peak / self.divisor, self.warmup * self.total - 1, self.total - 1.0
        phases = [(0.0, top, low, self.peak), (top, last, self.peak, low / self.final_divisor)]
        if self.three_phase:
            phases[1:] = [(top, 2 * top, self.peak, low), (2 * top, last, low, low / self.final_divisor)]
        begin, end, first, second = next((phase for phase in phases if count <= phase[1]), phases[-1])
        # A phase of a single step is at its end, where torch would divide by zero.
        done = (count - begin) / (end - begin) if end > begin else 1.0
        return curves.between(first, second, done, self.shape)
