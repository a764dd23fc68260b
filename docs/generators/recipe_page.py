"""Reference page of recipes: each section with its fields, from the JSON schema."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from schema_tables import Schema, field_table, references, slug, summary

from rubricworks.recipe import METHODS, recipe_class
from rubricworks.recipe.schema import recipe_schema

_INTRO = """# Recipe fields

A recipe is a YAML file with a `name`, a `pipeline` (the method) and one section per step. This page lists every section
and field: its type, default and meaning. A field without a default must be set. An unknown field is an error.

- Set a field for one run: `rubricworks run RECIPE --set policy.algorithm.steps=400`.
- Check a recipe: `rubricworks doctor RECIPE`. Print its plan and cost: `rubricworks run RECIPE --dry-run`.
- Complete and check fields in an editor: `rubricworks recipes schema > recipe.schema.json`.
- Start from a commented recipe: `rubricworks recipes list`, then `rubricworks recipes copy NAME my.yaml`.
- In square brackets: the name of the option in TRL.
"""


class Place(NamedTuple):
    """Place of a section in the recipes of a method."""

    path: str
    method: str
    within: str
    """Discriminator of the section around it, such as `type: grpo`; empty if it has none."""


def recipe_page() -> str:
    """The page as Markdown."""
    schema = recipe_schema()
    definitions = schema["$defs"]
    recipes = {method: recipe_class(method).__name__ for method in METHODS}
    places = _places(definitions, recipes)
    headings = _headings(places, definitions)
    shared, *others = (definitions[name]["properties"].items() for name in recipes.values())
    everywhere = [name for name, field in shared if all((name, field) in fields for fields in others)]
    first = definitions[next(iter(recipes.values()))]
    parts = [_INTRO, "## Recipes", "", "### Every method", ""]
    parts += [*field_table(first, everywhere, definitions, headings), ""]
    for method, name in recipes.items():
        parts += [f"### `pipeline: {method}` {{ #{slug(name)} }}", "", summary(definitions[name]), ""]
        own = [field for field in definitions[name]["properties"] if field not in (*everywhere, "pipeline")]
        parts += [*field_table(definitions[name], own, definitions, headings), ""]
    parts += ["## Sections", ""]
    for name in sorted(headings, key=lambda key: headings[key]):
        parts += [f"### {headings[name]} {{ #{slug(name)} }}", ""]
        parts += [summary(definitions[name]), "", *_used_at(places[name]), ""]
        fields = definitions[name]["properties"]
        parts += [*field_table(definitions[name], fields, definitions, headings), ""]
    return "\n".join(parts).rstrip() + "\n"


def _places(definitions: Schema, recipes: Mapping[str, str]) -> dict[str, list[Place]]:
    """Places of each definition, breadth first, so that the shortest path comes first."""
    places: dict[str, list[Place]] = defaultdict(list)
    for method, recipe in recipes.items():
        queue = [("", recipe)]
        while queue:
            path, name = queue.pop(0)
            for field, value in definitions[name].get("properties", {}).items():
                for step, target in references(value, f"{path}.{field}".lstrip(".")):
                    place = Place(step, method, _discriminator(definitions[name]))
                    if "properties" in definitions[target] and place not in places[target]:
                        places[target].append(place)
                        queue.append((step, target))
    return places


def _headings(places: Mapping[str, list[Place]], definitions: Schema) -> dict[str, str]:
    """A heading for each section: its path, and what distinguishes it from others at this path."""
    chosen = {name: min(spots, key=_prominence) for name, spots in places.items()}
    titles = {name: f"`{place.path}`" + _with(_discriminator(definitions[name])) for name, place in chosen.items()}
    for addition in (
        lambda name: " in " + _methods(spot for spot in places[name] if spot.path == chosen[name].path),
        lambda name: _with(chosen[name].within),
        lambda name: f" ({definitions[name]['title']})",
    ):
        counts = Counter(titles.values())
        titles = {name: title + (addition(name) if counts[title] > 1 else "") for name, title in titles.items()}
    return titles


def _prominence(place: Place) -> tuple[bool, int, int, int]:
    """Order of a section's places: that of a policy first, then by the method's place in the list, then by length."""
    return (not place.path.startswith("policy"), [*METHODS].index(place.method), place.path.count("."), len(place.path))


def _with(discriminator: str) -> str:
    return f" with `{discriminator}`" if discriminator else ""


def _discriminator(definition: Schema) -> str:
    """The required field with one possible value by which a section differs from its alternatives."""
    fields = definition.get("properties", {})
    return next(
        (f"{name}: {fields[name]['const']}" for name in ("type", "mode") if "const" in fields.get(name, {})), ""
    )


def _methods(spots: Iterable[Place]) -> str:
    return ", ".join(dict.fromkeys(place.method for place in spots))


def _used_at(spots: list[Place]) -> list[str]:
    paths = list(dict.fromkeys(place.path for place in spots))
    more = f" and {len(paths) - 6} more" if len(paths) > 6 else ""
    return [f"In recipes of {_methods(spots)}, at {', '.join(f'`{path}`' for path in paths[:6])}{more}."]
