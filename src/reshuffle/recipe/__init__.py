"""Recipes: steps and their schedule, momentum, penalty, averages of iterates."""

from reshuffle.recipe import schedules
from reshuffle.recipe.averages import EMA, Average, TailAverage
from reshuffle.recipe.recipe import Hyperparameters, Recipe
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
