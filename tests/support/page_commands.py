"""The commands of a page, in its order, and the output that it shows beside them.

A block ```sh holds commands, and a block ```text right after it is what the last of them prints.
"""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
GUIDES = (
    *("README.md", "docs/cluster.md", "docs/evaluation.md", "docs/grading.md", "docs/judge-trust.md"),
    *("docs/own-rewards.md", "docs/platform.md", "docs/reading-results.md"),
    *("docs/recaptioning.md", "docs/rubric-audit.md", "docs/rubric-sets.md", "docs/world.md"),
)
"""Pages whose commands are run from the page, but for those of `commands_elsewhere`; docs/first-run.md is, too."""
_BLOCK = re.compile(r"^```(?P<kind>\w*)[^\n]*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"(?:^|\s)#\s.*$", re.MULTILINE)
_VOLATILE = (
    (re.compile(r"http://(localhost|127\.0\.0\.1):\d+"), "http://localhost:8000"),
    (re.compile(r"\b[\d,.]+ (s|ms|GiB|MiB)\b"), r"N \1"),
    (re.compile(r"\b[\d.]+/s\b"), "N/s"),
    (re.compile(r"\b\d{4}-\d\d-\d\d( \d\d:\d\d(:\d\d)?)?"), "DATE"),
    (re.compile(r"\b[0-9a-f]{12,64}\b"), "DIGEST"),
    (re.compile(r"\(loss [\d.e-]+\)"), "(loss N)"),
    (re.compile(r"\S*/rubricworks server"), "rubricworks server"),
    (re.compile(r" +$", re.MULTILINE), ""),
)


class Step(NamedTuple):
    command: str
    shown: str | None
    """Output that the page shows for it."""


def page_steps(page: Path) -> list[Step]:
    """Commands of a page; lines that a backslash or an open quote joins are one."""
    steps: list[Step] = []
    end = -1
    for block in _BLOCK.finditer(text := page.read_text(encoding="utf-8")):
        if block["kind"] in ("sh", "bash"):
            steps += [Step(command, None) for command in _commands(block["text"])]
        elif block["kind"] == "text" and not text[end : block.start()].strip():
            steps[-1] = steps[-1]._replace(shown=block["text"])
        end = block.end()
    return steps


def stable(output: str, folder: Path) -> str:
    """Output without what differs from run to run and from machine to machine."""
    for pattern, stands_for in _VOLATILE:
        output = pattern.sub(stands_for, output)
    return output.replace(str(folder), "/home/me").replace("\N{NARROW NO-BREAK SPACE}", " ")


def _commands(block: str) -> list[str]:
    commands, begun = [], ""
    for line in _COMMENT.sub("", block).splitlines():
        begun = f"{begun}{line}" if not begun else f"{begun}\n{line}"
        if begun.rstrip().endswith("\\") or begun.count("'") % 2 or begun.count('"') % 2:
            continue
        if begun.strip():
            commands.append(re.sub(r"\s*\\\n\s*", " ", begun).strip())
        begun = ""
    return commands
