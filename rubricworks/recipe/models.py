"""Models that a recipe loads: each is a built-in one, a folder, or the Hub's at a commit."""

from collections.abc import Iterator
from typing import Any

from rubricworks.data.hub import model_source
from rubricworks.environment import names_in
from rubricworks.errors import UserError
from rubricworks.recipe.recipe import Recipe
from rubricworks.runtime.recipe_fields import ADMISSION, BUILT_IN_MODELS, Reach, reach_of
from rubricworks.storage import is_remote

_WITHOUT_MODELS = {"arms", "cluster", "tracking", "prices"}


def loaded_models(recipe: Recipe) -> dict[str, str]:
    """Field → model that a stage loads by it, without those that a server answers for."""
    return dict(_models_in(recipe.model_dump(mode="json", exclude=_WITHOUT_MODELS), ()))


def unpinned_models(recipe: Recipe, *, ask: bool = True) -> dict[str, str]:
    """Field → what is wrong with its model, which is no folder and has no commit.

    A name with an environment variable is checked by the stage that fills it.

    Args:
        ask: ask the Hub for the commits that are suggested.
    """
    problems = {}
    for field, name in loaded_models(recipe).items():
        try:
            if not names_in(name) and not is_remote(name):
                model_source(name, ask=ask)
        except UserError as error:
            problems[field] = str(error)
    return problems


def require_pinned(recipe: Recipe) -> str:
    """Return the models of a recipe with their fields.

    Raises:
        UserError: some of them may be others tomorrow; names their fields.
    """
    if problems := unpinned_models(recipe):
        raise UserError("; ".join(f"{field}: {problem}" for field, problem in problems.items()))
    return "; ".join(f"{field}: {name}" for field, name in loaded_models(recipe).items()) or "none is loaded"


def _models_in(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        value = {str(number): inner for number, inner in enumerate(value)}
    if isinstance(value, dict):
        for key, inner in value.items():
            if key != ADMISSION and not (key == "serve" and path):  # an endpoint repeats the section's definition
                yield from _models_in(inner, (*path, key))
    elif isinstance(value, str) and value not in BUILT_IN_MODELS and _loads_from_hub(path):
        yield ".".join(path), value


def _loads_from_hub(path: tuple[str, ...]) -> bool:
    return reach_of(path) is Reach.MODEL and path[-1] != "generator"  # which is a folder alone
