"""The methods that recipes can name by `pipeline:`, each a package of its own.

Its module `recipe` holds `RECIPE`, a subclass of `Recipe`; `claims`, if it has one, holds `PAPER`. The pipeline of the
same name is in `rubricworks.pipelines`.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rubricworks.recipe.recipe import Recipe

METHODS = {
    "rubicap": "rubricworks.methods.rubicap",
    "rlr3": "rubricworks.methods.rlr3",
    "balcaprl": "rubricworks.methods.balcaprl",
    "rubricrl": "rubricworks.methods.rubricrl",
    "recaption_pretrain": "rubricworks.methods.recaption_pretrain",
    "retrain": "rubricworks.methods.retrain",
    "evaluate": "rubricworks.methods.evaluate",
}
DEFAULT_METHOD = "rubicap"
"""Method of a recipe that names no pipeline."""


def recipe_class(method: str) -> "type[Recipe]":
    """Import the recipe class of a method."""
    kind: type[Recipe] = importlib.import_module(f"{METHODS[method]}.recipe").RECIPE
    return kind
