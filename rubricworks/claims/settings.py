"""Whether runs may be compared: the same settings in everything but the seed."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rubricworks.claims.rlr3_folder import RECIPE, read_settings
from rubricworks.errors import UserError
from rubricworks.recipe import Recipe
from rubricworks.recipe_file import load_recipe, recipe_path

_SHOWN = 3


def wanted_settings(seed: int, overrides: tuple[str, ...]) -> Recipe:
    """The recipe that a seed is run with.

    Raises:
        UserError: an override names no field, or gives it what it cannot be.
    """
    return load_recipe(recipe_path(RECIPE), [*overrides, f"seed={seed}"])


def check_settings(runs: Mapping[int, Path], overrides: tuple[str, ...]) -> None:
    """Refuse folders of an earlier call that had other settings, so that no seed is compared with another experiment.

    Raises:
        UserError: says in which run, and which fields.
    """
    for seed, run in runs.items():
        if (run / "recipe.yaml").is_file():
            wanted = _settings(wanted_settings(seed, overrides))
            if changed := differences(_settings(read_settings(run)), wanted):
                raise UserError(
                    f"{run} was run with other settings ({_some(changed)}); give the same --set as then, or another "
                    "folder with --runs"
                )


def shared_changes(runs: Mapping[int, Path]) -> list[str]:
    """What the runs changed in the recipe, as they all did.

    Raises:
        UserError: they are not the same.
    """
    found = {seed: _settings(read_settings(run)) for seed, run in runs.items()}
    first, *others = found
    for other in others:
        if changed := differences(found[first], found[other]):
            raise UserError(
                f"{runs[first]} and {runs[other]} were run with different settings ({_some(changed)}); claims compare "
                "runs that differ in nothing but the seed"
            )
    return differences(_settings(wanted_settings(first, ())), found[first])


def differences(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """`policy.steps: 100 → 4` for each field that differs; a field that is missing is null."""
    found = []
    for name in sorted(there.keys() | wanted.keys()):
        one, other = there.get(name), wanted.get(name)
        if isinstance(one, dict) and isinstance(other, dict):
            found += [f"{name}.{inner}" for inner in differences(one, other)]
        elif one != other:
            found.append(f"{name}: {json.dumps(one)} → {json.dumps(other)}")
    return found


def _settings(recipe: Recipe) -> dict[str, Any]:
    seedless = _without_seeds(recipe.model_dump(mode="json"))
    assert isinstance(seedless, dict)
    return seedless


def _without_seeds(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_seeds(inner) for name, inner in value.items() if name != "seed"}
    return [_without_seeds(inner) for inner in value] if isinstance(value, list) else value


def _some(changed: list[str]) -> str:
    more = len(changed) - _SHOWN
    return ", ".join(changed[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
