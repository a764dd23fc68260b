"""Recipes: what `rubricworks run` runs, one kind for each pipeline."""

from rubricworks.recipe.balcaprl import BalcaprlRecipe
from rubricworks.recipe.cluster import ClusterConfig
from rubricworks.recipe.common import Price, Recipe, WorldConfig
from rubricworks.recipe.retrain import RetrainRecipe
from rubricworks.recipe.rlr3 import Rlr3Recipe
from rubricworks.recipe.rubicap import RubicapRecipe

RECIPES: dict[str, type[Recipe]] = {
    "rubicap": RubicapRecipe,
    "rlr3": Rlr3Recipe,
    "balcaprl": BalcaprlRecipe,
    "retrain": RetrainRecipe,
}
"""By `pipeline:`; the first is meant where a recipe names none."""

__all__ = [
    "RECIPES",
    "BalcaprlRecipe",
    "ClusterConfig",
    "Price",
    "Recipe",
    "RetrainRecipe",
    "Rlr3Recipe",
    "RubicapRecipe",
    "WorldConfig",
]
