"""Prompts for text-to-image from files: lines of text, JSON lines, Parquet, or DPG-Bench's CSV.

A row has `prompt`, or `prompts` with recaptions of several lengths, of which one is drawn: the paper trains on images
whose captions were rewritten at diverse lengths (section 4.1). A row of GenEval's `evaluation_metadata.jsonl` also has
`tag`, `include` and `exclude`, which `evaluation.scorers.images.geneval` checks images against.
"""

import csv
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rubricworks.data.rows import iter_rows
from rubricworks.data.source_entries import RejectedEntry
from rubricworks.data.tables import Row
from rubricworks.errors import UserError

MAX_CHARACTERS = 20_000
_OPTIONAL = ("prompt", "prompts", "tag", "include", "exclude")


class PromptEntry(NamedTuple):
    """A usable prompt."""

    prompt: str
    source: str
    """File and row."""
    task: str | None = None
    """GenEval's tag."""
    metadata: str | None = None
    """GenEval's requirements as JSON: tag, include, exclude."""


def prompt_entries(source: str, seed: int) -> Iterator[PromptEntry | RejectedEntry]:
    """Iterate over the rows of a file of prompts; a row that cannot be used comes with its reason.

    Args:
        source: `.txt` with one prompt a line, `.jsonl`, a Parquet file, or `.csv` with `text` or `prompt`, each taken
            once.
        seed: of the draw among recaptions, which depends on the row besides.
    Raises:
        UserError: the file is missing or damaged, or has no column of prompts.
    """
    for number, row in enumerate(_rows(source), start=1):
        place = f"{source}:{number}"
        texts = row.get("prompts") if row.get("prompts") is not None else [row.get("prompt")]
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
            yield RejectedEntry(source=place, reason="it has no text in `prompt`, nor a list of texts in `prompts`")
            continue
        text = random.Random(f"{seed} {texts[0]}").choice(texts).strip()
        if not text:
            yield RejectedEntry(source=place, reason="the prompt is empty")
        elif len(text) > MAX_CHARACTERS:
            yield RejectedEntry(source=place, reason=f"the prompt has more than {MAX_CHARACTERS} characters")
        else:
            yield _entry(text, place, row)


def _entry(text: str, place: str, row: Row) -> PromptEntry | RejectedEntry:
    if row.get("include") is None:
        return PromptEntry(text, place)
    if problem := _metadata_problem(row):
        return RejectedEntry(source=place, reason=problem)
    fields = {name: row[name] for name in ("tag", "include", "exclude") if row.get(name) is not None}
    return PromptEntry(text, place, row["tag"], json.dumps(fields, sort_keys=True))


def _metadata_problem(row: Row) -> str:
    if not isinstance(row.get("tag"), str):
        return "it has `include` without the `tag` of its task"
    for name in ("include", "exclude"):
        for entry in row.get(name) or ():
            if not isinstance(entry, dict) or not isinstance(entry.get("class"), str):
                return f"an entry of `{name}` has no `class`"
            if not isinstance(entry.get("count"), int) or entry["count"] < 1:
                return f"{entry['class']!r} in `{name}` has no whole `count` above 0"
    return ""


def _rows(source: str) -> Iterator[Row]:
    path = Path(source)
    if path.suffix == ".txt":
        if not path.is_file():
            raise UserError(f"{source}: there is no such file")
        try:
            yield from ({"prompt": line} for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
        except UnicodeDecodeError as error:
            raise UserError(f"{source}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
        return
    if path.suffix == ".csv":
        yield from _csv_rows(path)
        return
    yield from iter_rows(source, [], optional=_OPTIONAL)


def _csv_rows(path: Path) -> Iterator[Row]:
    """Prompts of a CSV file, each once: DPG-Bench repeats a prompt for every question about its images."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            column = next((name for name in ("prompt", "text") if name in (rows.fieldnames or ())), None)
            if column is None:
                raise UserError(f"{path}: no column `prompt` or `text`")
            yield from ({"prompt": text} for text in dict.fromkeys(row[column] or "" for row in rows))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: cannot be read as CSV ({error})") from error
