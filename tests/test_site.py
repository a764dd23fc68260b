"""The documentation site: built strictly, on its own host, with every public name."""

import importlib
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
PUBLIC = [
    f"rubricworks.{module}.{name}"
    for module in ("rubrics", "data", "verifiers", "rewards", "rl", "metrics", "llm")
    for name in importlib.import_module(f"rubricworks.{module}").__all__
] + [
    "rubricworks.grading.Grader.grade",
    "rubricworks.grading.Grader.grade_many",
    "rubricworks.llm.ChatClient.chat",
    "rubricworks.adapters.trl.RubricReward.score",
]
_LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}
"""Tags whose address a browser opens by itself, and the attribute that holds it."""


class Loaded(HTMLParser):
    """Addresses that a page loads, and those of its ids."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.ids: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if address := values.get(_LOADED.get(tag, "")):
            self.addresses.append(address)
        if name := values.get("id"):
            self.ids.add(name)


def build(folder: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("site")
    built = build(ROOT, out)
    assert built.returncode == 0, built.stderr
    return out


def test_pages_load_nothing_from_another_host(site):
    pages = list(site.rglob("*.html"))
    loaded = {address for page in pages for address in Loaded(page).addresses}
    assert len(pages) > 20
    assert any(address.endswith(".css") for address in loaded)
    assert [address for address in sorted(loaded) if re.match(r"(\w+:)?//", address)] == []
    styles = "".join(sheet.read_text(encoding="utf-8") for sheet in site.rglob("*.css"))
    assert re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//[^)\"']*", styles) == []


def test_every_public_name_is_in_the_reference(site):
    ids = set().union(*(Loaded(page).ids for page in (site / "reference").glob("*.html")))
    # A function whose module has its name stands under both.
    ids |= {re.sub(r"\.(\w+)\.\1$", r".\1", name) for name in ids}
    assert [name for name in PUBLIC if name not in ids] == []


def test_link_to_a_file_outside_docs_leads_to_a_page_with_its_text(site):
    assert 'href="repository/examples/one_screen.py.html"' in (site / "index.html").read_text(encoding="utf-8")
    page = (site / "repository" / "examples" / "one_screen.py.html").read_text(encoding="utf-8")
    assert "GRPOTrainer" in page
    assert "repository/recipes" not in (site / "repository" / "index.html").read_text(encoding="utf-8")


def test_link_that_leads_nowhere_fails_the_build(tmp_path):
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    settings |= {"nav": [{"Home": "index.md"}], "plugins": ["search"], "theme": "mkdocs", "extra_css": []}
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(settings))
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "repository_pages.py", tmp_path / "docs")
    page = tmp_path / "docs" / "index.md"
    page.write_text("# Home\n\n[Here](index.md#home)\n")
    assert build(tmp_path, tmp_path / "site").returncode == 0
    links = ["nowhere.md", "../nowhere.py", "index.md#no-such-heading", "/absolute.md"]
    page.write_text("# Home\n\n" + "".join(f"[Here]({link})\n" for link in links))
    broken = build(tmp_path, tmp_path / "site")
    assert broken.returncode != 0
    assert [link for link in links if f"'{link}'" not in broken.stderr] == []
