"""The best recipe in the proportional limit, beside gradient flow, ridge and the Bayes optimum."""

from reshuffle.asymptotics.recipes.best_recipe import BestRecipe, BestRecipes, best_recipe

__all__ = ["BestRecipe", "BestRecipes", "best_recipe"]
