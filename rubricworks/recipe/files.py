"""Recipes as files: found by name or path, overridden by `--set`, read with errors that name file, line and field.

A recipe may name arms, each a few fields with other values. All of them are checked whenever the file is read.
"""

import difflib
import re
from collections.abc import Callable, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from rubricworks.errors import UserError
from rubricworks.recipe.methods import DEFAULT_METHOD, METHODS, recipe_class
from rubricworks.recipe.mistakes import explain, line_of, mistakes
from rubricworks.recipe.recipe import Recipe


class _Loader(yaml.SafeLoader):
    """With the booleans of YAML 1.2, so that `off` is a word, as in `policy.pointability: off`."""


_BOOL = "tag:yaml.org,2002:bool"
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOL]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOL, re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))


def recipe_path(name: str) -> Path:
    """The file of a recipe: a path, or the name of one that comes with the package."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        if not path.is_file():
            raise UserError(f"{name}: no such file; `rubricworks recipes list` shows the built-in ones")
        return path
    built_in = {file.stem: file for file in built_in_recipes()}
    if name not in built_in:
        close = difflib.get_close_matches(name, built_in, 1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise UserError(f"no recipe {name!r}; {hint}`rubricworks recipes list` shows them")
    return built_in[name]


def built_in_recipes() -> list[Path]:
    folder = Path(str(resources.files("rubricworks.recipes")))
    return sorted(folder.glob("*.yaml"))


def load_recipe(path: Path, overrides: Sequence[str] = (), *, arm: str | None = None) -> Recipe:
    """Read and check a recipe.

    Args:
        overrides: `a.b=c` each, the value as YAML; they win over the file and over the arm.
        arm: the name of one of the recipe's arms.
    Raises:
        UserError: with file and line, or the override that made it, for all mistakes at once.
    """
    try:
        text = path.read_text(encoding="utf-8")
        tree = yaml.compose(text, Loader=_Loader)
        data = _unshared(yaml.load(text, Loader=_Loader))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise UserError(f"{where}: not YAML: {getattr(error, 'problem', None) or error}") from error
    if not isinstance(data, dict):
        raise UserError(f"{path}: a recipe is a mapping such as `name: quickstart`; this is {type(data).__name__}")
    _check_arms(path, tree, data)
    if arm is not None:
        data = _with_arm(path, data, arm)
    changed = _unshared(data)
    for override in overrides:
        _apply(changed, override)
    kind = _kind(partial(_where, path, tree, overrides), changed)
    try:
        return kind.model_validate(changed)
    except ValidationError as error:
        # Where the file is right by itself, an override made the mistake.
        where_is = partial(_where, path, tree, overrides if overrides and _is_valid(data) else ())
        raise UserError("\n".join(explain(where_is, kind, item) for item in mistakes(error))) from error


def _arms(data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Those that are written as arms; what else stands there is a mistake that the recipe's own check finds."""
    arms = data.get("arms")
    arms = arms if isinstance(arms, dict) else {}
    return {name: changes for name, changes in arms.items() if isinstance(name, str) and isinstance(changes, dict)}


def _with_arm(path: Path, data: dict[str, Any], arm: str) -> dict[str, Any]:
    """The recipe with an arm's values."""
    arms = _arms(data)
    if arm not in arms:
        close = difflib.get_close_matches(arm, arms, 1)
        there = f"there are {', '.join(arms)}" if arms else "it has none"
        raise UserError(f"{path}: no arm {arm!r}; {f'did you mean {close[0]}?' if close else there}")
    changed = {**_unshared(data), "arm": arm}
    for key, value in arms[arm].items():
        _set(changed, str(key), _unshared(value), f"arms.{arm}: {key}")
    return changed


def _check_arms(path: Path, tree: yaml.Node | None, data: dict[str, Any]) -> None:
    """Every arm makes a recipe that can be run, unless the file itself does not."""
    if not (arms := _arms(data)):
        return
    kind = _kind(partial(_where, path, tree, ()), data)
    said: list[str] = []
    for name, changes in arms.items():
        try:
            kind.model_validate(_with_arm(path, data, name))
        except UserError as error:
            said.append(f"{path}:{line_of(tree, ['arms', name])}: {error}")
        except ValidationError as error:
            if not said and not _is_valid(data):
                return
            for item in mistakes(error):
                field = ".".join(map(str, item["loc"]))
                key = next((key for key in changes if f"{field}.".startswith(f"{key}.")), None)
                where = f"{path}:{line_of(tree, ['arms', name, *([key] if key else [])])}: arms.{name}"
                said.append(explain(partial(_same_place, where), kind, item))
    if said:
        raise UserError("\n".join(said))


def _where(path: Path, tree: yaml.Node | None, overrides: Sequence[str], loc: Sequence[Any]) -> str:
    """The override that a field, or a part of it, comes from, the last one first; else its line in the file."""
    field = "".join(f"{part}." for part in loc)
    for override in reversed(overrides):
        key = f"{override.partition('=')[0].strip()}."
        if field.startswith(key) or key.startswith(field):
            return f"--set {override}"
    return f"{path}:{line_of(tree, loc)}"


def _same_place(where: str, _: Sequence[Any]) -> str:
    return where


def _is_valid(data: dict[str, Any]) -> bool:
    try:
        _kind(str, data).model_validate(data)
    except (UserError, ValidationError):
        return False
    return True


def _kind(where_is: Callable[[Sequence[Any]], str], data: dict[str, Any]) -> type[Recipe]:
    pipeline = data.get("pipeline", DEFAULT_METHOD)
    if isinstance(pipeline, str) and pipeline in METHODS:
        return recipe_class(pipeline)
    close = difflib.get_close_matches(str(pipeline), METHODS, 1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(METHODS)}"
    raise UserError(f"{where_is(['pipeline'])}: pipeline: no pipeline {pipeline!r}; {hint}")


def _unshared(value: Any) -> Any:
    """A place and its `*alias` are one object in YAML; an override of the one must not reach the other."""
    if isinstance(value, dict):
        return {key: _unshared(inner) for key, inner in value.items()}
    return [_unshared(inner) for inner in value] if isinstance(value, list) else value


def _apply(data: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise UserError(f"--set {override}: write it as section.field=value")
    try:
        value = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise UserError(f"--set {override}: {text!r} is not a YAML value") from error
    _set(data, key.strip(), value, f"--set {override}")


def _set(data: dict[str, Any], key: str, value: Any, said: str) -> None:
    """Put a value at `a.b.c`, making the sections that are not there; `said` names the change in a mistake."""
    *parents, last = key.split(".")
    place: Any = data
    for parent in parents:
        step = _step(place, parent, said)
        if isinstance(place, dict) and not isinstance(place.get(step), dict | list):
            place[step] = {}
        place = place[step]
    place[_step(place, last, said)] = value


def _step(place: Any, part: str, said: str) -> str | int:
    """What `part` of a path is in a section, or in a list."""
    if isinstance(place, dict):
        return part
    if isinstance(place, list) and part.isdigit() and int(part) < len(place):
        return int(part)
    there = f"a list, numbered 0 to {len(place) - 1}" if isinstance(place, list) else "no section"
    raise UserError(f"{said}: no {part!r} here; this is {there}")
