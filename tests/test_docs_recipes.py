"""Recipes on the pages: each excerpt makes a recipe that loads, each field and value that a text names is possible."""

import copy
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from recipe_schema import field_schemas, is_possible, method_schemas

from rubricworks.errors import UserError
from rubricworks.recipe.files import built_in_recipes, load_recipe
from rubricworks.strict_yaml import parse_yaml

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "charts").rglob("*.md")),
]
_BLOCK = re.compile(r"^(?P<indent> *)```yaml\n(?P<body>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
"""Blocks with a title are whole files, of recipes or of something else."""
_CODE = re.compile(r"`([^`\n]+)`")
_FIELD = re.compile(r"(?P<field>[a-z_]+(?:\.[\w-]+)+)(?:: (?P<value>\S.*))?")
_SET = re.compile(r"--set (?P<change>'[^']+'|[\w.-]+=(?:'[^']+'|[^\s`.,]+(?:[.,][^\s`.,]+)*))")
_FILE = re.compile(r".*\.(json|html|py)")
NO_RECIPE = {"data": {"workflowDefaults"}}
"""Sections of other files that are called as a recipe's, by what they hold there."""

NO_FIELDS = {"promotion.approval"}
"""Names of the API that begin as a field."""


class Excerpt(NamedTuple):
    page: str
    content: dict[str, Any]


@cache
def sections() -> frozenset[str]:
    return frozenset(name for schema in method_schemas().values() for name in schema["properties"])


def excerpts() -> Iterator[Excerpt]:
    for page in PAGES:
        for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
            content = yaml.safe_load(block["body"].replace("sha256:…", f"sha256:{'0' * 64}"))
            if content.keys() <= sections() and not any(
                NO_RECIPE.get(name, set()) & set(content[name]) for name in content
            ):
                yield Excerpt(page.name, content)


def merged(value: Any, change: Any) -> Any:
    """A recipe's value with an excerpt's in its place: sections are merged, unless the excerpt has another type.

    What the run serves takes the place of an address.
    """
    if not isinstance(value, dict) or not isinstance(change, dict) or "type" in change:
        return change
    if isinstance(change.get("serve"), str):
        return change
    return value | {key: merged(value.get(key), inner) for key, inner in change.items()}


@cache
def shipped() -> dict[str, dict[str, Any]]:
    """Name → recipe of the package, without arms."""
    recipes = {path.stem: parse_yaml(path.read_text(encoding="utf-8"), 5_000).value for path in built_in_recipes()}
    return {name: {key: value for key, value in recipe.items() if key != "arms"} for name, recipe in recipes.items()}


def mistakes(change: Mapping[str, Any], path: Path) -> str:
    """Mistakes of the shipped recipe that is next to loading with a change; none if one loads."""
    problems = []
    for recipe in shipped().values():
        path.write_text(yaml.safe_dump(merged(copy.deepcopy(recipe), change)))
        try:
            load_recipe(path)
        except UserError as error:
            problems.append(str(error).replace(f"{path}:", ""))
        else:
            return ""
    return min(problems, key=len)


@pytest.mark.parametrize("excerpt", excerpts(), ids=lambda excerpt: f"{excerpt.page}-{'-'.join(excerpt.content)}")
def test_excerpt_of_a_recipe_loads_in_one_that_is_shipped(excerpt, tmp_path):
    assert mistakes(excerpt.content, tmp_path / "recipe.yaml") == ""


def test_policies_are_among_the_excerpts_of_most_pages_that_are_about_them():
    pages = {excerpt.page for excerpt in excerpts() if "policy" in excerpt.content}
    about = {
        "grading.md",
        "judge-trust.md",
        "own-rewards.md",
        "policy-aware-rewards.md",
        "rubric-audit.md",
        "rubricrl.md",
    }
    assert about <= pages


def named_fields(page: Path) -> Iterator[tuple[str, str | None]]:
    """(field, its value as YAML) of the code in a page's text and of its `--set`, without what tutorials add."""
    text = page.read_text(encoding="utf-8").split("\n## Add a ")[0]
    for code in _CODE.findall(re.sub(r"(?ms)^ *```.*?^ *```$", "", text)):
        if (match := _FIELD.fullmatch(code)) and not _FILE.fullmatch(code) and code not in NO_FIELDS:
            yield match["field"], match["value"]
    for match in _SET.finditer(text):
        field, _, value = match["change"].replace("'", "").partition("=")
        if "." in field:
            yield field, value


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_fields_that_a_page_names_are_those_of_recipes(page):
    fields = {field for field, _ in named_fields(page) if field.split(".")[0] in sections()}
    assert [field for field in sorted(fields) if not field_schemas(field)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_values_that_a_page_gives_a_field_are_possible(page):
    values = [(field, text) for field, text in named_fields(page) if field.split(".")[0] in sections()]
    given = [(field, text) for field, text in values if text is not None and "…" not in text]
    assert [pair for pair in given if not is_possible(pair[0], yaml.safe_load(pair[1]))] == []


def test_settings_of_the_small_demo_before_a_landing_are_a_recipe():
    settings = re.search(r"^small=\((.+)\)$", (ROOT / ".ci/run").read_text(), re.MULTILINE)[1].split()
    assert settings
    load_recipe(ROOT / "recipes/quickstart.yaml", settings)
