"""How a run is trained beside its scheme: steps and their schedule, momentum, penalty."""

from reshuffle.recipe.recipe import Hyperparameters, Recipe, StepLike

__all__ = ["Hyperparameters", "Recipe", "StepLike"]
