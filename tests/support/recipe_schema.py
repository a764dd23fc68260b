"""The JSON schema of recipes, and what it says of a recipe."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from cli_fixtures import run_cli
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

Schema = Mapping[str, Any]


@cache
def recipe_schema() -> Schema:
    """The schema that `rubricworks recipes schema` prints."""
    return json.loads(run_cli("recipes", "schema").out)


@cache
def method_schemas() -> dict[str, Schema]:
    """Method → schema of its recipes."""
    kinds = [resolved(kind) for kind in recipe_schema()["anyOf"]]
    return {kind["properties"]["pipeline"]["const"]: kind for kind in kinds}


def resolved(place: Schema) -> Schema:
    """The definition that a place of the schema refers to; the place itself if it refers to none."""
    return recipe_schema()["$defs"][place["$ref"].removeprefix("#/$defs/")] if "$ref" in place else place


@cache
def _validator(method: str) -> Draft202012Validator:
    return Draft202012Validator({**method_schemas()[method], "$defs": recipe_schema()["$defs"]})


def schema_errors(recipe: Mapping[str, Any]) -> list[str]:
    """`field: message` of every error in a recipe, of a union those of the member that its `type` names."""
    errors = _validator(recipe.get("pipeline", "rubicap")).iter_errors(recipe)
    return [f"{leaf.json_path}: {leaf.message}" for error in errors for leaf in _leaves(error)]


def _leaves(error: ValidationError) -> Iterator[ValidationError]:
    wrong_kinds = {
        member.schema_path[0]
        for member in error.context or ()
        if member.validator == "const" and member.path[-1] == "type"
    }
    members = [member for member in error.context or () if member.schema_path[0] not in wrong_kinds]
    if not members:
        yield error
    for member in members:
        yield from _leaves(member)


def field_schemas(path: str) -> list[Schema]:
    """Schemas of a field in the recipes of all methods; keys that users choose, and places in lists, may be any."""
    places = list(method_schemas().values())
    for part in path.split("."):
        places = [below for place in places for below in _below(place, part)]
    return places


def is_possible(path: str, value: object) -> bool:
    """True if a field may have a value in the recipes of some method."""
    definitions = {"$defs": recipe_schema()["$defs"]}
    return any(Draft202012Validator({**place, **definitions}).is_valid(value) for place in field_schemas(path))


def _below(place: Schema, part: str) -> list[Schema]:
    place = resolved(place)
    members = [*place.get("anyOf", ()), *place.get("oneOf", ())]
    below = [child for member in members for child in _below(member, part)]
    if part in place.get("properties", {}):
        below.append(place["properties"][part])
    elif isinstance(values := place.get("additionalProperties"), dict):
        below.append(values)
    if part.isdigit() and isinstance(place.get("items"), dict):
        below.append(place["items"])
    return below
