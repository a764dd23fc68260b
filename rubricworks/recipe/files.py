"""Recipes as files: looked up by name or path, overridden by `--set`, with errors that name file, line and field.

A recipe may define arms, each a few fields with other values. All of them are checked whenever the file is read.
"""

import difflib
from collections.abc import Callable, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from rubricworks.errors import UserError
from rubricworks.recipe.methods import DEFAULT_METHOD, METHODS, recipe_class
from rubricworks.recipe.mistakes import (
    Mistake,
    RecipeError,
    explain_mistake,
    first_mistakes,
    line_of,
    mistakes,
    shorten,
)
from rubricworks.recipe.recipe import Recipe
from rubricworks.redaction import HIDDEN, is_secret_name, redact_assignments
from rubricworks.strict_yaml import YamlDocument, YamlError, parse_yaml

_MAX_VALUES, _MAX_OVERRIDE_VALUES = 5_000, 1_000
"""Values of a recipe and of an override, with aliases written out; the largest recipe of the package has 514."""
_MAX_PATH = 64
"""Parts of the path of a change, `a.b.c`."""
_MAX_ARMS = 50
"""Each is checked as a recipe of its own."""


def recipe_path(name: str) -> Path:
    """Find the file of a recipe by its path, or by the name of one that comes with the package."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        if not path.is_file():
            raise UserError(f"{name}: no such file; `rubricworks recipes list` shows the built-in ones")
        return path
    recipes = {file.stem: file for file in built_in_recipes()}
    if name not in recipes:
        close = difflib.get_close_matches(name, recipes, 1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise UserError(f"no recipe {name!r}; {hint}`rubricworks recipes list` shows them")
    return recipes[name]


def built_in_recipes() -> list[Path]:
    """Files of the recipes that come with the package."""
    folder = Path(str(resources.files("rubricworks.recipes")))
    return sorted(folder.glob("*.yaml"))


def recipe_text(path: Path) -> str:
    """Text of a recipe's file.

    Raises:
        UserError: it cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from error


def load_recipe(path: Path, overrides: Sequence[str] = (), *, arm: str | None = None) -> Recipe:
    """Read and check a recipe.

    Args:
        overrides: `a.b=c` each, the value as YAML; they win over the file and the arm.
        arm: the name of one of the recipe's arms.
    Raises:
        UserError: names file and line, or the override, of all mistakes at once.
    """
    text = recipe_text(path)
    try:
        tree, value = parse_yaml(text, _MAX_VALUES)
    except YamlError as error:
        where = f"{path}{f':{error.line}' if error.line else ''}"
        raise RecipeError([Mistake(where, f"not YAML: {error}")]) from error
    data = _copy(value)
    if not isinstance(data, dict):
        given = "empty" if data is None else type(data).__name__
        raise UserError(f"{path}: a recipe is a mapping such as `name: quickstart`; this is {given}")
    _check_arms(path, tree, data)
    if arm is not None:
        data = _with_arm(path, data, arm)
    changed = _copy(data)
    for override in overrides:
        _apply_override(changed, override)
    cls = _class_of(partial(_locate, path, tree, overrides), changed)
    try:
        return cls.model_validate(changed)
    except ValidationError as error:
        # If the file is valid by itself, an override made the mistake.
        locate = partial(_locate, path, tree, overrides if overrides and _is_valid(data) else ())
        explanations = [partial(explain_mistake, locate, cls, item) for item in mistakes(error)]
        raise RecipeError(first_mistakes(str(path), explanations)) from error


def field_places(path: Path, overrides: Sequence[str], arm: str | None) -> Callable[[str], str]:
    """Places of a valid recipe's fields: the override or the arm's change that sets it, else its line in the file.

    A default has the line of its section; without one, it has no line.
    """
    return partial(_field_place, path, parse_yaml(path.read_text(encoding="utf-8")), overrides, arm)


def _field_place(path: Path, document: YamlDocument, overrides: Sequence[str], arm: str | None, field: str) -> str:
    tree, data = document
    loc: list[str | int] = [int(part) if part.isdigit() else part for part in field.split(".")]
    of_arm = [str(key) for key in _arm_changes(data).get(arm or "", {}) if f"{field}.".startswith(f"{key}.")]
    if of_arm:
        key = of_arm[-1]
        loc = ["arms", str(arm), key, *loc[len(key.split(".")) :]]
    if loc[0] not in data and not any(override.startswith(f"{loc[0]}.") for override in overrides):
        return str(path)
    return _locate(path, tree, overrides, loc)


def _arm_changes(data: dict[str, object]) -> dict[str, dict[str, object]]:
    """Arm → its changes; entries of another form are left to the validation of the recipe."""
    arms = data.get("arms")
    arms = arms if isinstance(arms, dict) else {}
    return {name: changes for name, changes in arms.items() if isinstance(name, str) and isinstance(changes, dict)}


def _with_arm(path: Path, data: dict[str, object], arm: str) -> dict[str, object]:
    """Apply an arm's changes to a copy of the recipe."""
    arms = _arm_changes(data)
    if arm not in arms:
        close = difflib.get_close_matches(arm, arms, 1)
        others = f"there are {', '.join(arms)}" if arms else "it has none"
        problem = f"no arm {arm!r}; {f'did you mean {close[0]}?' if close else others}"
        raise RecipeError([Mistake(str(path), problem, "arm")])
    changed = {**_copy(data), "arm": arm}
    for key, value in arms[arm].items():
        set_field(changed, str(key), _copy(value), f"arms.{arm}: {key}")
    return changed


def _check_arms(path: Path, tree: yaml.Node | None, data: dict[str, object]) -> None:
    """Check that every arm makes a valid recipe, unless the file itself is invalid."""
    if not (arms := _arm_changes(data)):
        return
    if len(arms) > _MAX_ARMS:
        where, problem = f"{path}:{line_of(tree, ['arms'])}", f"arms: there are {len(arms):,}; a recipe has at most"
        raise RecipeError([Mistake(where, f"{problem} {_MAX_ARMS}, so make several recipes of it", "arms")])
    cls = _class_of(partial(_locate, path, tree, ()), data)
    explanations: list[Callable[[], Mistake]] = []
    for name, changes in arms.items():
        try:
            cls.model_validate(_with_arm(path, data, name))
        except UserError as error:
            where = f"{path}:{line_of(tree, ['arms', name])}"
            explanations.append(partial(Mistake, where, str(error), f"arms.{name}"))
        except ValidationError as error:
            if not explanations and not _is_valid(data):
                return
            locate = partial(_locate_change, path, tree, name, changes)
            explanations += [partial(explain_mistake, locate, cls, item) for item in mistakes(error)]
    if explanations:
        raise RecipeError(first_mistakes(str(path), explanations))


def _locate_change(path: Path, tree: yaml.Node | None, arm: str, changes: dict[str, object], loc: Sequence[Any]) -> str:
    """Place of a field that an arm sets: the line of its change."""
    field = "".join(f"{part}." for part in loc)
    key = next((key for key in changes if field.startswith(f"{key}.")), None)
    return f"{path}:{line_of(tree, ['arms', arm, *([key] if key else [])])}: arms.{arm}"


def _locate(path: Path, tree: yaml.Node | None, overrides: Sequence[str], loc: Sequence[Any]) -> str:
    """Place of a field for an error: the last override of it or of a part of it, else its line in the file."""
    field = "".join(f"{part}." for part in loc)
    for override in reversed(overrides):
        key = f"{override.partition('=')[0].strip()}."
        if field.startswith(key) or key.startswith(field):
            return f"--set {_shown(override)}"
    return f"{path}:{line_of(tree, loc)}"


def _shown(override: str) -> str:
    """The override as errors show it: without secrets, and not longer than a line."""
    key, equals, value = override.partition("=")
    value = HIDDEN if equals and is_secret_name(key.rpartition(".")[2]) else redact_assignments(value)
    return f"{key}{equals}{shorten(value)}"


def _is_valid(data: dict[str, object]) -> bool:
    try:
        _class_of(str, data).model_validate(data)
    except (UserError, ValidationError):
        return False
    return True


def _class_of(locate: Callable[[Sequence[Any]], str], data: dict[str, object]) -> type[Recipe]:
    pipeline = data.get("pipeline", DEFAULT_METHOD)
    if isinstance(pipeline, str) and pipeline in METHODS:
        return recipe_class(pipeline)
    close = difflib.get_close_matches(str(pipeline), METHODS, 1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(METHODS)}"
    raise RecipeError([Mistake(locate(["pipeline"]), f"pipeline: no pipeline {pipeline!r}; {hint}", "pipeline")])


def _copy(value: Any) -> Any:
    """Copy a value without shared parts: a YAML anchor and its `*alias` are one object, and an override is for one."""
    if isinstance(value, dict):
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list) else value


def _apply_override(data: dict[str, object], override: str) -> None:
    key, equals, text = override.partition("=")
    source = f"--set {_shown(override)}"
    if not equals or not key.strip():
        raise UserError(f"{source}: write it as section.field=value")
    try:
        value = parse_yaml(text, _MAX_OVERRIDE_VALUES).value
    except YamlError as error:
        raise UserError(f"{source}: {_shown(override).partition('=')[2]!r} is not a YAML value ({error})") from error
    set_field(data, key.strip(), value, source)


def set_field(data: dict[str, object], key: str, value: Any, source: str) -> None:
    """Set the value at `a.b.c`, adding missing sections.

    Args:
        source: name of the change, for errors.
    """
    *parents, last = key.split(".")
    if len(parents) >= _MAX_PATH:
        raise UserError(f"{shorten(source)}: a path of {len(parents) + 1:,} parts; a field has at most {_MAX_PATH}")
    place: Any = data
    for parent in parents:
        step = _key_or_index(place, parent, source)
        if isinstance(place, dict) and not isinstance(place.get(step), dict | list):
            place[step] = {}
        place = place[step]
    place[_key_or_index(place, last, source)] = value


def _key_or_index(place: Any, part: str, source: str) -> str | int:
    """Key of a part of a path in a section, or index in a list."""
    if isinstance(place, dict):
        return part
    if isinstance(place, list) and part.isdigit() and int(part) < len(place):
        return int(part)
    content = f"a list, numbered 0 to {len(place) - 1}" if isinstance(place, list) else "no section"
    raise UserError(f"{source}: no {part!r} here; this is {content}")
