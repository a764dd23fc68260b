"""Recipes: the typed YAML that configures a run. Each method has its own class, imported when a recipe is read."""

from rubricworks.recipe.cluster import ClusterConfig
from rubricworks.recipe.methods import DEFAULT_METHOD, METHODS, recipe_class
from rubricworks.recipe.recipe import Recipe, WorldConfig

__all__ = ["DEFAULT_METHOD", "METHODS", "ClusterConfig", "Recipe", "WorldConfig", "recipe_class"]
