"""`llms.txt`, the short map for programs that read: in the form of llmstxt.org, and of all pages that there are."""

import re
from pathlib import Path

import click

from rubricworks.cli import cli
from rubricworks.rubrics import Rubric

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "llms.txt").read_text(encoding="utf-8")
_ENTRY = re.compile(r"- \[[^\]]+\]\((?P<link>[^)]+)\): .+")


def test_it_has_a_title_a_summary_and_lists_of_links_alone():
    head, *sections = TEXT.split("\n## ")
    assert re.match(r"# \S.*\n\n> \S", head)
    for section in sections:
        lines = [line for line in section.split("\n")[1:] if line]
        assert [line for line in lines if not _ENTRY.fullmatch(line)] == []


def test_every_page_stands_in_it_once_and_every_link_leads_somewhere():
    links = [match["link"] for match in _ENTRY.finditer(TEXT)]
    assert [link for link in links if not (ROOT / link).is_file()] == []
    pages = {page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").glob("*.md")}
    assert pages <= set(links)
    assert len(links) == len(set(links))


def test_what_it_says_of_commands_and_rubrics_is_true():
    commands = set(re.findall(r"`rubricworks ([a-z]+)", TEXT))
    assert commands
    assert commands <= set(cli.list_commands(click.Context(cli)))
    (rubric,) = re.findall(r"`(\{\"criteria\".*?\]\})`", TEXT)
    assert Rubric.model_validate_json(rubric).weights == [3]
