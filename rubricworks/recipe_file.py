"""Recipes as files: found by name or path, overridden by `--set`, read with errors that name file, line and field."""

import difflib
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from rubricworks.errors import UserError
from rubricworks.recipe import RECIPES, Recipe


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


def load_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read and check a recipe.

    Args:
        overrides: `a.b=c` each, the value as YAML; they win over the file.
    Raises:
        UserError: with file and line, for all mistakes at once.
    """
    try:
        text = path.read_text(encoding="utf-8")
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        data = _unshared(yaml.safe_load(text))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise UserError(f"{where}: not YAML: {getattr(error, 'problem', None) or error}") from error
    if not isinstance(data, dict):
        raise UserError(f"{path}: a recipe is a mapping such as `name: quickstart`; this is {type(data).__name__}")
    for override in overrides:
        _apply(data, override)
    kind = _kind(path, tree, data.get("pipeline", next(iter(RECIPES))))
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise UserError("\n".join(_explain(path, tree, kind, item) for item in _mistakes(error))) from error


def _mistakes(error: ValidationError) -> list[Any]:
    """Without lists that seem too short because one of their items is wrong."""
    items = error.errors()
    within = {item["loc"][:end] for item in items for end in range(len(item["loc"]))}
    return [item for item in items if item["type"] != "too_short" or item["loc"] not in within]


def _kind(path: Path, tree: yaml.Node | None, pipeline: Any) -> type[Recipe]:
    if isinstance(pipeline, str) and pipeline in RECIPES:
        return RECIPES[pipeline]
    close = difflib.get_close_matches(str(pipeline), RECIPES, 1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(RECIPES)}"
    raise UserError(f"{path}:{_line(tree, ['pipeline'])}: pipeline: no pipeline {pipeline!r}; {hint}")


def _unshared(value: Any) -> Any:
    """A place and its `*alias` are one object in YAML; an override of the one must not reach the other."""
    if isinstance(value, dict):
        return {key: _unshared(inner) for key, inner in value.items()}
    return [_unshared(inner) for inner in value] if isinstance(value, list) else value


def _apply(data: dict[str, Any], override: str) -> None:
    key, equals, value = override.partition("=")
    if not equals or not key.strip():
        raise UserError(f"--set {override}: write it as section.field=value")
    *parents, last = key.strip().split(".")
    place: Any = data
    for parent in parents:
        step = _step(place, parent, override)
        if isinstance(place, dict) and not isinstance(place.get(step), dict | list):
            place[step] = {}
        place = place[step]
    try:
        place[_step(place, last, override)] = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise UserError(f"--set {override}: {value!r} is not a YAML value") from error


def _step(place: Any, part: str, override: str) -> str | int:
    """What `part` of an override's path is in a section, or in a list."""
    if isinstance(place, dict):
        return part
    if isinstance(place, list) and part.isdigit() and int(part) < len(place):
        return int(part)
    there = f"a list, numbered 0 to {len(place) - 1}" if isinstance(place, list) else "no section"
    raise UserError(f"--set {override}: no {part!r} here; this is {there}")


def _explain(path: Path, tree: yaml.Node | None, kind: type[Recipe], item: Any) -> str:
    loc = [part for part in item["loc"] if not _is_branch(part)]
    field = ".".join(map(str, loc)) or "recipe"
    where = f"{path}:{_line(tree, loc)}"
    if item["type"] == "extra_forbidden":
        known = _fields_at(kind, loc[:-1])
        close = difflib.get_close_matches(str(loc[-1]), known, 1)
        hint = f"did you mean {close[0]}?" if close else f"the fields there are {', '.join(known)}"
        return f"{where}: {field}: no such field; {hint}"
    if item["type"] == "missing":
        return f"{where}: {field} is missing; add it"
    message = item["msg"].removeprefix("Value error, ")
    first, *inner = message.split(" ", 1)[0].split(".")
    if first in _fields_at(kind, loc):  # a check of the section that is about this one field
        return f"{path}:{_line(tree, [*loc, first, *inner])}: {'.'.join(map(str, [*loc, message]))}"
    given = item["input"]
    shown = f" (given: {json.dumps(given)})" if isinstance(given, str | int | float | bool) else ""
    return f"{where}: {field}: {message}{shown}"


def _is_branch(part: Any) -> bool:
    """Pydantic puts the names of union members into error locations."""
    return isinstance(part, str) and (part in ("none", "str") or "[" in part or part[:1].isupper())


def _line(node: yaml.Node | None, loc: Sequence[Any]) -> int:
    """Line of the deepest part of the location that the file has."""
    line = 1
    for part in loc:
        if isinstance(node, yaml.MappingNode):
            found = next(((k, v) for k, v in node.value if k.value == str(part)), None)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return line


def _fields_at(recipe: type[Recipe], loc: Sequence[Any]) -> list[str]:
    kinds: list[Any] = [recipe]
    for part in loc:
        models = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
        kinds = _unwrap(
            [model.model_fields[part].annotation for model in models if part in model.model_fields]
            if isinstance(part, str)
            else kinds
        )
    return sorted(
        {name for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel) for name in kind.model_fields}
    )


def _unwrap(kinds: Sequence[Any]) -> list[Any]:
    flat: list[Any] = []
    for kind in kinds:
        if get_origin(kind) in (Union, UnionType, tuple, list):
            flat += _unwrap(get_args(kind))
        else:
            flat.append(kind)
    return flat
