"""Recipes: steps and their schedule, momentum, penalty, averages of iterates."""

from reshuffle.recipe import schedules
from reshuffle.recipe.recipe import EMA, Average, Hyperparameters, Recipe, TailAverage
from reshuffle.recipe.schedules import PerVisit, StepLike, StepSchedule

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
