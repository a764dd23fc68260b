"""Mistakes of a recipe as lines that name the file and line, or the override, and the field."""

import difflib
import json
from collections.abc import Callable, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from rubricworks.errors import UserError
from rubricworks.llm import Endpoint
from rubricworks.recipe.recipe import Recipe
from rubricworks.redaction import HIDDEN, is_secret_name, redact

_MANY, _NEAREST = 12, 5
"""Fields that a message lists whole, and those that it names of more."""
_MOST_EXPLAINED = 50
_LONGEST_NAME = 100
"""Characters of a name to which similar ones are sought."""
_LONGEST_SHOWN = 200
"""Characters of a name or value in an error."""


class Mistake(NamedTuple):
    """One mistake in a recipe."""

    where: str
    """File and line, or the override."""
    text: str
    """Field and problem, on one line."""
    field: str = ""
    """Path of the field, `policy.algorithm.rollouts.group_size`; empty for the whole recipe."""

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"


class RecipeError(UserError):
    """The mistakes in a recipe, one a line."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        super().__init__("\n".join(map(str, mistakes)))
        self.mistakes = tuple(mistakes)


def first_mistakes(where: str, explanations: Sequence[Callable[[], Mistake]]) -> list[Mistake]:
    """The first mistakes of a recipe, and one that gives the number of the others.

    To explain one takes milliseconds, and a recipe of a stranger may have thousands.

    Args:
        where: place of the recipe.
    """
    listed = [explain() for explain in explanations[:_MOST_EXPLAINED]]
    if more := len(explanations) - len(listed):
        listed.append(Mistake(where, f"{more:,} more mistakes are not listed; mend these first"))
    return listed


def mistakes(error: ValidationError) -> list[Any]:
    """Errors of pydantic, without lists that seem too short because one of their items is wrong."""
    items = error.errors(include_url=False)
    within = {item["loc"][:end] for item in items for end in range(len(item["loc"]))}
    return [item for item in items if item["type"] != "too_short" or item["loc"] not in within]


def explain_mistake(locate: Callable[[Sequence[Any]], str], recipe_class: type[Recipe], item: Any) -> Mistake:
    """The mistake behind an error of pydantic.

    Args:
        locate: names the place of a field.
        item: one of `mistakes`.
    """
    loc = _without_tags(recipe_class, [part for part in item["loc"] if not _is_union_member(part)])
    field = shorten(".".join(map(str, loc))) or "recipe"
    where = locate(loc)
    if item["type"] == "extra_forbidden":
        fields = _fields_at(recipe_class, loc[:-1])
        return Mistake(where, f"{field}: no such field; {_hint(str(loc[-1]), fields)}", field)
    if item["type"] == "missing":
        return Mistake(where, f"{field} is missing; add it", field)
    if item["type"] in ("union_tag_invalid", "union_tag_not_found"):
        return _wrong_tag(where, field, item)
    message = item["msg"].removeprefix("Value error, ")
    first, *inner = message.split(" ", 1)[0].rstrip(":").split(".")
    if first in _fields_at(recipe_class, loc):  # a check of the section that is about this one field
        deeper = [*loc, first, *(int(part) if part.isdecimal() else part for part in inner)]
        return Mistake(locate(deeper), ".".join(map(str, [*loc, message])), ".".join(map(str, deeper)))
    value = item["input"]
    if isinstance(value, str):
        value = HIDDEN if is_secret_name(str(loc[-1] if loc else "")) else shorten(redact(value))
    suffix = f" (given: {json.dumps(value)})" if isinstance(value, str | int | float | bool) else ""
    return Mistake(where, f"{field}: {message}{suffix}", field)


def shorten(text: str) -> str:
    """Return a name or value as errors show it: not longer than a line."""
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _wrong_tag(where: str, field: str, item: Any) -> Mistake:
    """The mistake of a section whose kind is missing or unknown."""
    tag = str(item["ctx"]["discriminator"]).strip("'")
    tag = tag if tag.isidentifier() else "type"  # of a union that is told apart by a function
    if item["type"] == "union_tag_not_found":
        return Mistake(where, f"{field}.{tag} is missing; add it", field)
    kinds = [kind.strip("'") for kind in item["ctx"]["expected_tags"].split(", ")]
    return Mistake(
        where,
        f"{field}.{tag}: no such {tag} (given: {json.dumps(shorten(redact(item['ctx']['tag'])))}); "
        f"{_hint(item['ctx']['tag'], kinds).replace('fields there', f'{tag}s')}",
        f"{field}.{tag}",
    )


def _hint(name: str, fields: Sequence[str]) -> str:
    """The field that was meant, or those there are: of many, the ones with the most similar names."""
    name = name[:_LONGEST_NAME]
    if close := difflib.get_close_matches(name, fields, 1):
        return f"did you mean {close[0]}?"
    if len(fields) <= _MANY:
        return f"the fields there are {', '.join(fields)}"
    nearest = difflib.get_close_matches(name, fields, _NEAREST, cutoff=0)
    return f"the nearest of {len(fields)} are {', '.join(nearest)}; `rubricworks recipes schema` lists them all"


def _is_union_member(part: Any) -> bool:
    """Return True for the name of a union's member, which pydantic puts into error locations."""
    return isinstance(part, str) and (part in ("none", "str") or "[" in part or part[:1].isupper())


def _without_tags(recipe: type[Recipe], loc: Sequence[Any]) -> list[Any]:
    """The location without the tags of unions' members, such as `grpo`, which are no keys of the recipe."""
    kinds: list[Any] = [recipe]
    fields: list[Any] = []
    for part in loc:
        tagged = [kind for kind in kinds if _tag_of(kind) == part]
        if tagged and sum(bool(_fields_of(kind)) for kind in kinds) > 1:
            kinds = tagged
            continue
        fields.append(part)
        kinds = _kinds_below(kinds, part)
    return fields


def _tag_of(kind: Any) -> str:
    """Tag by which a union tells the kind from others."""
    if kind is Endpoint:
        return "endpoint"
    for field in _fields_of(kind).values():
        if get_origin(field.annotation) is Literal and len(choices := get_args(field.annotation)) == 1:
            return str(choices[0])
    return ""


def _fields_of(kind: Any) -> dict[str, FieldInfo]:
    return kind.model_fields if isinstance(kind, type) and issubclass(kind, BaseModel) else {}


def line_of(node: yaml.Node | None, loc: Sequence[Any]) -> int:
    """Line of the deepest part of the location that the file has."""
    line = 1
    for part in loc:
        if isinstance(node, yaml.MappingNode):
            entry = next(((k, v) for k, v in node.value if k.value == str(part)), None)
            if entry is None:
                break
            line, node = entry[0].start_mark.line + 1, entry[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return line


def _fields_at(recipe: type[Recipe], loc: Sequence[Any]) -> list[str]:
    """Names of the fields of the section at a location."""
    kinds: list[Any] = [recipe]
    for part in loc:
        kinds = _kinds_below(kinds, part)
    return sorted({name for kind in kinds for name in _fields_of(kind)})


def _kinds_below(kinds: Sequence[Any], part: Any) -> list[Any]:
    """Types of the values at a key, or an index, of values of these types."""
    if not isinstance(part, str):
        return _unwrap(kinds)
    values = [get_args(kind)[1] for kind in kinds if get_origin(kind) is dict]
    fields = [_fields_of(kind)[part].annotation for kind in kinds if part in _fields_of(kind)]
    return _unwrap([*values, *fields])


def _unwrap(kinds: Sequence[Any]) -> list[Any]:
    types: list[Any] = []
    for kind in kinds:
        if get_origin(kind) is Annotated:
            types += _unwrap(get_args(kind)[:1])
        else:
            types += _unwrap(get_args(kind)) if get_origin(kind) in (Union, UnionType, tuple, list) else [kind]
    return types
