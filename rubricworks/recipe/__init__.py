"""Recipes: what `rubricworks run` runs. Each method has its own kind, imported when one is read."""

from rubricworks.recipe.cluster import ClusterConfig
from rubricworks.recipe.methods import DEFAULT_METHOD, METHODS, recipe_class
from rubricworks.recipe.recipe import Price, Recipe, WorldConfig

__all__ = ["DEFAULT_METHOD", "METHODS", "ClusterConfig", "Price", "Recipe", "WorldConfig", "recipe_class"]
