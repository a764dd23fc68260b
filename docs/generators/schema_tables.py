"""JSON schemas as Markdown: the fields of a section as a table, and each type in words."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]


def references(value: Schema, path: str) -> Iterator[tuple[str, str]]:
    """Definitions that a field refers to, and the path of each."""
    if "$ref" in value:
        yield path, value["$ref"].rpartition("/")[2]
    for option in (*value.get("anyOf", ()), *value.get("oneOf", ())):
        yield from references(option, path)
    if isinstance(value.get("items"), dict):
        yield from references(value["items"], f"{path}[]")
    names = [*value.get("patternProperties", {}).values(), value.get("additionalProperties")]
    for target in names:
        if isinstance(target, dict):
            yield from references(target, f"{path}.NAME")


def field_table(
    definition: Schema, names: Iterable[str], definitions: Schema, headings: Mapping[str, str]
) -> list[str]:
    """Table of fields; none for a section without.

    Args:
        names: fields to show.
        definitions: sections by name, for the meaning of a field without a description.
        headings: headings of the sections that have a place on the page, by name.
    """
    required = set(definition.get("required", ()))
    rows = ["| field | type | default | meaning |", "|---|---|---|---|"]
    for name in names:
        field = definition["properties"][name]
        given = "required" if name in required else default(field)
        text = field.get("description") or _meaning_of_type(field, definitions)
        rows.append(f"| `{name}` | {kind(field, headings)} | {given} | {cell(text)} |")
    return rows if len(rows) > 2 else []


def _meaning_of_type(field: Schema, definitions: Schema) -> str:
    """Summary of the sections that a field without a docstring takes."""
    targets = dict.fromkeys(target for _, target in references(field, ""))
    return " Or: ".join(text for text in (summary(definitions[target]) for target in targets) if text)


def kind(field: Schema, headings: Mapping[str, str]) -> str:
    """Type of a field in words, with its limits."""
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{headings[name].replace('`', '')}](#{slug(name)})" if name in headings else f"`{name}`"
    if options := field.get("anyOf") or field.get("oneOf"):
        return " or ".join(dict.fromkeys(kind(option, headings) for option in options))
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    match field.get("type"):
        case "array" if isinstance(field.get("items"), dict):
            return f"list of {kind(field['items'], headings)}"
        case "object":
            values = [*field.get("patternProperties", {}).values(), field.get("additionalProperties")]
            kinds = [kind(value, headings) for value in values if isinstance(value, dict)]
            return f"map of names to {kinds[0]}" if kinds else "map"
        case None:
            return "any"
        case name:
            return _NAMES.get(str(name), str(name)) + _limits(field)


_NAMES = {"integer": "whole number", "string": "text", "boolean": "true or false", "null": "null", "array": "list"}
_LIMITS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}


def _limits(field: Schema) -> str:
    """Limits of a number, but those of the exact whole numbers of JSON."""
    limits = ((sign, field[key]) for key, sign in _LIMITS.items() if key in field and abs(field[key]) < 2**53)
    return "".join(f" {sign} {int(limit) if limit == int(limit) else limit}" for sign, limit in limits)


def default(field: Schema) -> str:
    """Default as JSON, empty without one."""
    if "default" not in field:
        return ""
    if isinstance(field["default"], dict) and field["default"]:
        return "see its fields"
    return f"`{cell(json.dumps(field['default'], ensure_ascii=False))}`"


def summary(definition: Schema) -> str:
    """First paragraph of a class's docstring in one line."""
    return " ".join(definition.get("description", "").split("\n\n")[0].split())


def cell(text: str) -> str:
    """Text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def slug(name: str) -> str:
    """Anchor of a section."""
    return re.sub(r"\W+|_+", "-", name.removeprefix("rubricworks__")).strip("-").lower()
