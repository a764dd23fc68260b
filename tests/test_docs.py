"""Files, modules and commands that the pages name exist; the architecture page's walk and picture are right."""

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from test_import_rule import STOREYS

from rubricworks.cli import cli

ROOT = Path(__file__).parents[1]
ARCHITECTURE = ROOT / "docs" / "architecture.md"
PAGES = [
    ROOT / "llms.txt",
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "charts").rglob("*.md")),
]
NOW = [page for page in PAGES if page.name != "CHANGELOG.md"]
"""Pages that name no command of the past."""
AT_THE_TOP = ("components", "pipelines", "platform_api", "recipes")
_FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
_PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|ya?ml|html|css|js|sh|json))`")
_MODULE = re.compile(r"((?:from |import |-m )?)(rubricworks(?:\.[a-z_]\w*)+)")
_ROW = re.compile(r"^\| \[`(?P<path>[^`]+)`\]\((?P<link>[^)]+)\) \| `(?P<name>\w+)` \|", re.MULTILINE)
MADE_BY_TUTORIALS = set(re.findall(r'title="([^"]+)"', ARCHITECTURE.read_text()))


def prose(page: Path) -> str:
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def tree_path(name: str) -> Path | None:
    """The file that a path on a page means; a page may leave `rubricworks/` out."""
    return next((path for path in (ROOT / name, ROOT / "rubricworks" / name) if path.exists()), None)


def walk() -> Iterator[tuple[str, str, str]]:
    """Path, link and name of each row of the walk."""
    section = ARCHITECTURE.read_text().split("\n## A rollout's walk\n")[1].split("\n## ")[0]
    return ((row["path"], row["link"], row["name"]) for row in _ROW.finditer(section))


def defined_somewhere(name: str) -> bool:
    """True for a module of ours, and for a name, or a member of one, in the text of the module before it."""
    rest = name.split(".")[1:]
    place = ROOT if rest[0] in AT_THE_TOP else ROOT / "rubricworks"
    while rest and ((place / rest[0]).is_dir() or (place / f"{rest[0]}.py").is_file()):
        place /= rest.pop(0)
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return not rest or (file.is_file() and re.search(rf"\b{rest[0]}\b", file.read_text()) is not None)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page):
    assert [link for link in _LINK.findall(prose(page)) if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_are_in_the_tree(page):
    names = {
        name
        for name in _PATH.findall(prose(page))
        if name.split("/")[0] in {*AT_THE_TOP, "rubricworks", "docs", "tests", "charts", "docker", "benchmarks"}
    }
    assert [name for name in sorted(names - MADE_BY_TUTORIALS) if tree_path(name) is None] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_that_a_page_names_are_in_the_tree(page):
    text = page.read_text(encoding="utf-8") if page != ARCHITECTURE else prose(page)
    # Labels of metrics and types of files begin alike, and are no modules.
    modules = {name for code, name in _MODULE.findall(text) if code or name.count(".") > 1}
    modules = {name for name in modules if not name.endswith((".json", ".yaml"))}
    assert [name for name in sorted(modules) if not defined_somewhere(name)] == []


@pytest.mark.parametrize("page", NOW, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_that_a_page_names_are_those_of_the_command_line(page):
    names = set(re.findall(r"(?m)(?:^ *|`)rubricworks ([a-z]+)", page.read_text(encoding="utf-8")))
    assert sorted(names - set(cli.list_commands(click.Context(cli)))) == []


def test_walk_is_short_and_every_file_in_it_holds_what_the_page_says():
    rows = list(walk())
    assert 20 < len(rows) <= 41
    assert len({path for path, _, _ in rows}) == len(rows)
    for path, link, name in rows:
        assert (ARCHITECTURE.parent / link).resolve() == (ROOT / path).resolve()
        defined = rf"(?m)^\s*(?:async def|def|class) {name}\b|^{name}\b|^  {name}:"
        assert re.search(defined, (ROOT / path).read_text()), f"{path} defines no {name}"


def test_files_of_the_architecture_page_are_in_the_tree():
    names = set(_PATH.findall(prose(ARCHITECTURE))) - MADE_BY_TUTORIALS
    assert [name for name in sorted(names) if tree_path(name) is None] == []


def test_picture_of_the_house_has_the_storeys_that_the_import_rule_holds():
    svg = ElementTree.parse(ROOT / "docs" / "house.svg").getroot()
    rooms: dict[str, set[str]] = {}
    for text in svg.iter("{http://www.w3.org/2000/svg}text"):
        if text.get("class") == "t":
            rooms.setdefault(text.get("y", ""), set()).add(text.text or "")
    rooms_shown = [names for names in rooms.values() if names != {"world"}]
    assert rooms_shown == [storey - {"recipes", "__init__"} for storey in STOREYS]
