"""Description of the API: FastAPI's own, with an example of each body.

An example is put together from those of the fields, which stand beside them (`Field(examples=…)`): a field without one
gives its default, the first of its values, or the example of the schema that it names. The rest of a type says nothing
about what it looks like, so a schema with such a field has no example, and a test fails that names it.
"""

import contextlib
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI

from rubricworks.platform_api.schemas.bodies import JsonObject

_AT = "2026-11-23T02:09:00Z"
_PREFIX = "#/components/schemas/"


class NoExample(LookupError):
    """A schema with a field that has no example."""


def describe_with_examples(app: FastAPI) -> Callable[[], JsonObject]:
    """Description of an application, made on first use; for `app.openapi`."""
    describe = app.openapi

    def with_examples() -> JsonObject:
        if app.openapi_schema is None:
            _add_examples(describe())
        return describe()

    return with_examples


def example_of(schema: JsonObject, components: JsonObject) -> Any:
    """An example of a schema.

    Raises:
        NoExample: a field has none.
    """
    match schema:
        case {"examples": [first, *_]}:
            return first
        case {"$ref": str(name)}:
            return example_of(components[name.removeprefix(_PREFIX)], components)
        case {"const": value} | {"enum": [value, *_]} | {"default": value}:
            return value
        case {"format": "date-time"}:
            return _AT
        case {"anyOf": options}:
            return _example_of_any(options, components)
        case {"type": "array", "prefixItems": items}:
            return [example_of(item, components) for item in items]
        case {"type": "array", "items": items}:
            return [example_of(items, components)]
        case {"type": "object", "properties": properties}:
            return {name: _example_of_field(name, field, components) for name, field in properties.items()}
    raise NoExample(f"{schema} has no example; give its field one")


def _example_of_any(options: list[JsonObject], components: JsonObject) -> Any:
    """Example of the first option that has one; else null: what has not happened has no time."""
    may_be_null = {"type": "null"} in options
    for option in options:
        if option == {"type": "null"} or (may_be_null and option.get("format") == "date-time"):
            continue
        with contextlib.suppress(NoExample):
            return example_of(option, components)
    if may_be_null:
        return None
    raise NoExample(f"none of {options} has an example; give the field one")


def _example_of_field(name: str, field: JsonObject, components: JsonObject) -> Any:
    try:
        return example_of(field, components)
    except NoExample as error:
        raise NoExample(f"{name}: {error}") from error


def _add_examples(description: JsonObject) -> None:
    components = description["components"]["schemas"]
    for schema in components.values():
        _add_example(schema, components)
    for operations in description["paths"].values():
        for operation in operations.values():
            bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
            for media in (media for body in bodies for media in body.get("content", {}).values()):
                if "schema" in media and "$ref" not in media["schema"]:
                    _add_example(media["schema"], components)


def _add_example(schema: JsonObject, components: JsonObject) -> None:
    if "examples" not in schema:
        try:
            schema["examples"] = [example_of(schema, components)]
        except NoExample:
            return
