"""How a run is trained beside its scheme: steps and their schedule, momentum, penalty, averages of iterates."""

from reshuffle.recipe.average import EMA, Average, TailAverage
from reshuffle.recipe.recipe import Hyperparameters, Recipe, StepLike

__all__ = ["EMA", "Average", "Hyperparameters", "Recipe", "StepLike", "TailAverage"]
