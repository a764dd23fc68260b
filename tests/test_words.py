"""Language of the pages: words that we avoid, and the length of sentences, beside the documentation of TRL.

`python tests/test_words.py` prints the rates of each page.
"""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "charts/rubricworks/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
MARKERS = {
    "tell": r"\btell(?:s|ing)?\b|\btold\b",
    "stand": r"\bstands?\b|\bstood\b",
    "alone": r"\balone\b",
    "go on": r"\bgo(?:es)? on\b",
    "that of, those of": r"\b(?:that|those) of\b",
    "what … as a subject": r"(?:^|[.;:] )What\b[^.?\n]*\.",
}
"""Words of sentences that read like a translation."""
MOST = {"tell": 0.9, "stand": 0.3, "alone": 0.6, "go on": 0.1, "that of, those of": 0.6, "what … as a subject": 0.7}
"""Occurrences in 10,000 words, at most: about twice the rates of TRL's documentation (62,000 words)."""
QUOTED = "results.md"
"""Its tables are recorded figures, whose titles stay as they were measured."""
LONGEST_MEAN = 20
SIZE = 257_000
"""Bytes of docs/*.md without the results and the reference."""
_FENCE = re.compile(r"(?ms)^ *```.*?^ *```$")
_SENTENCE = re.compile(r"(?<=[.!?:])\s+")


def prose(page: Path) -> str:
    """Text of a page without code, addresses of links, and tables of recorded figures."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    if page.name == QUOTED:
        text = re.sub(r"(?m)^\|.*$", "", text)
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`\n]*`", "X", text))


def sentences(text: str) -> list[int]:
    """Number of words of each sentence outside of tables and headings."""
    paragraphs = re.split(r"\n\s*\n|\n(?=[-*|#\d])", re.sub(r"(?m)^[|#].*$", "", text))
    parts = (part for paragraph in paragraphs for part in _SENTENCE.split(paragraph))
    return [count for part in parts if (count := len(part.split())) > 2]


def rates(texts: list[str]) -> dict[str, float]:
    words = sum(len(re.findall(r"[A-Za-z][\w'-]*", text)) for text in texts)
    return {
        marker: sum(len(re.findall(pattern, text, re.MULTILINE)) for text in texts) / words * 10_000
        for marker, pattern in MARKERS.items()
    }


@pytest.mark.parametrize("marker", MARKERS)
def test_word_is_as_rare_as_in_model_projects(marker):
    assert rates([prose(page) for page in PAGES])[marker] <= MOST[marker]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_of_a_page_are_short(page):
    lengths = sentences(prose(page))
    assert sum(lengths) / len(lengths) <= LONGEST_MEAN


def test_pages_are_not_longer_than_a_reader_takes():
    assert sum(page.stat().st_size for page in (ROOT / "docs").glob("*.md") if page.name != QUOTED) <= SIZE


if __name__ == "__main__":
    for page in PAGES:
        lengths = sentences(prose(page))
        sys.stdout.write(f"{page.name:<28} {page.stat().st_size:>7} bytes  {sum(lengths) / len(lengths):.1f} words\n")
    for marker, rate in rates([prose(page) for page in PAGES]).items():
        sys.stdout.write(f"{marker:<28} {rate:.1f} in 10,000 words (at most {MOST[marker]})\n")
