"""How a run is trained beside its scheme: steps and their schedule, momentum, penalty, averages of iterates."""

from reshuffle.recipe import schedules
from reshuffle.recipe.average import Average
from reshuffle.recipe.ema import EMA
from reshuffle.recipe.recipe import Hyperparameters, Recipe
from reshuffle.recipe.step_schedule import PerVisit, StepLike, StepSchedule
from reshuffle.recipe.tail_average import TailAverage

__all__ = [
    "EMA",
    "Average",
    "Hyperparameters",
    "PerVisit",
    "Recipe",
    "StepLike",
    "StepSchedule",
    "TailAverage",
    "schedules",
]
