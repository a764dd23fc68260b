"""Pages of docs/reference that are made from the code are those of today's code, and leave nothing out."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GENERATORS = ROOT / "docs" / "generators"
SOURCES = ("rubricworks", "platform_api", "components", "pipelines", "charts", "docker")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The pages, written by a new process: click remembers the options of commands that other tests ran."""
    folder = tmp_path_factory.mktemp("reference")
    subprocess.run([sys.executable, GENERATORS, folder], check=True)
    return folder


@pytest.mark.parametrize("name", ["recipe.md", "commands.md", "api.md", "tables.md", "environment.md", "chart.md"])
def test_page_is_that_of_the_code(written, name):
    page = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
    assert page == (written / name).read_text(encoding="utf-8"), "run `make reference`"


def test_every_field_of_a_recipe_has_a_meaning():
    page = (ROOT / "docs" / "reference" / "recipe.md").read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if line.endswith("|  |") and not line.startswith("| `type` |")] == []


def test_every_environment_variable_is_listed_or_internal():
    internal = runpy.run_path(str(GENERATORS / "environment_page.py"))["INTERNAL"]
    page = (ROOT / "docs" / "reference" / "environment.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(RUBRICWORKS_\w+)`", page, flags=re.MULTILINE))
    files = (
        file for source in SOURCES for file in (ROOT / source).rglob("*") if file.suffix in (".py", ".yaml", ".sh")
    )
    read = {name for file in files for name in re.findall(r"RUBRICWORKS_[A-Z0-9_]+", file.read_text(encoding="utf-8"))}
    assert read - listed - internal == set()
    assert (listed | internal) - read == set()
    assert listed & internal == set()
