"""How a run is trained beside its scheme: steps and their schedule, momentum, penalty."""

from reshuffle.recipe import schedules
from reshuffle.recipe.recipe import Hyperparameters, Recipe
from reshuffle.recipe.step_schedule import PerVisit, StepLike, StepSchedule

__all__ = ["Hyperparameters", "PerVisit", "Recipe", "StepLike", "StepSchedule", "schedules"]
