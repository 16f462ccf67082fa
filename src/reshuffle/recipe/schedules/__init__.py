"""Ready schedules that equal those of torch.optim.lr_scheduler: `rs.schedules`.

Each is a function of t, the epochs done before, or the visits with per="visit": torch's scheduler stepped after
every epoch, or after every batch. `step` is torch's base learning rate, or alpha where it is given as `alpha=`.
"""

from reshuffle.recipe.schedules.decays import CosineAnnealing, ExponentialDecay, StepDecay
from reshuffle.recipe.schedules.joined import Joined
from reshuffle.recipe.schedules.warmups import ConstantWarmup, LinearWarmup, OneCycle, WarmupStableDecay
from reshuffle.recipe.step_schedule import PerVisit

__all__ = [
    "ConstantWarmup",
    "CosineAnnealing",
    "ExponentialDecay",
    "Joined",
    "LinearWarmup",
    "OneCycle",
    "PerVisit",
    "StepDecay",
    "WarmupStableDecay",
]
