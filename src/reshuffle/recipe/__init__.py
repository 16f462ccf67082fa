"""How a run is trained beside its scheme: steps and their schedule, momentum, penalty, averages of iterates."""

from reshuffle.recipe.average import Average
from reshuffle.recipe.ema import EMA
from reshuffle.recipe.recipe import Hyperparameters, Recipe, StepLike
from reshuffle.recipe.tail_average import TailAverage

__all__ = ["EMA", "Average", "Hyperparameters", "Recipe", "StepLike", "TailAverage"]
