"""What is wrong with a recipe, as lines that name its file and line, or the override, and the field."""

import difflib
import json
from collections.abc import Callable, Sequence
from types import UnionType
from typing import Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from rubricworks.recipe.recipe import Recipe


def mistakes(error: ValidationError) -> list[Any]:
    """Pydantic's findings, without lists that seem too short because one of their items is wrong."""
    items = error.errors()
    within = {item["loc"][:end] for item in items for end in range(len(item["loc"]))}
    return [item for item in items if item["type"] != "too_short" or item["loc"] not in within]


def explain(where_is: Callable[[Sequence[Any]], str], kind: type[Recipe], item: Any) -> str:
    """One of the findings; `where_is` names the place of a field."""
    loc = [part for part in item["loc"] if not _is_branch(part)]
    field = ".".join(map(str, loc)) or "recipe"
    where = where_is(loc)
    if item["type"] == "extra_forbidden":
        known = _fields_at(kind, loc[:-1])
        close = difflib.get_close_matches(str(loc[-1]), known, 1)
        hint = f"did you mean {close[0]}?" if close else f"the fields there are {', '.join(known)}"
        return f"{where}: {field}: no such field; {hint}"
    if item["type"] == "missing":
        return f"{where}: {field} is missing; add it"
    message = item["msg"].removeprefix("Value error, ")
    first, *inner = message.split(" ", 1)[0].rstrip(":").split(".")
    if first in _fields_at(kind, loc):  # a check of the section that is about this one field
        return f"{where_is([*loc, first, *inner])}: {'.'.join(map(str, [*loc, message]))}"
    given = item["input"]
    shown = f" (given: {json.dumps(given)})" if isinstance(given, str | int | float | bool) else ""
    return f"{where}: {field}: {message}{shown}"


def _is_branch(part: Any) -> bool:
    """Pydantic puts the names of union members into error locations."""
    return isinstance(part, str) and (part in ("none", "str") or "[" in part or part[:1].isupper())


def line_of(node: yaml.Node | None, loc: Sequence[Any]) -> int:
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
        named = [get_args(kind)[1] for kind in kinds if get_origin(kind) is dict]
        kinds = _unwrap(
            [*named, *(model.model_fields[part].annotation for model in models if part in model.model_fields)]
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
