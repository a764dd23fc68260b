"""Visual questions from Parquet files, and from JSON lines with image files next to them.

`QuestionColumns` names the columns; the others are recognised by the names that public datasets use: ViRL39K
(`question`, `answer` in a box, `image` as a list of paths), OpenMMReasoner's RL set (`prompt` as messages,
`reward_model.ground_truth`, `images`), DeepVision-103K. Options have a column of their own or end the question's text.
An unusable row becomes a `RejectedEntry`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict

from rubricworks.data.question_text import LETTERS, answer_letter, split_options, strip_image_tags, unboxed
from rubricworks.data.source_entries import ImageEntry, RejectedEntry, captions_of, source_files
from rubricworks.data.source_kinds.columns import IMAGE_COLUMNS, ImageCell, typed_image_column
from rubricworks.data.source_kinds.folders import read_image_file
from rubricworks.data.source_kinds.urls import url_entry
from rubricworks.errors import UserError
from rubricworks.storage import local_path

_BATCH = 64
_COLUMN_NAMES: dict[str, tuple[str, ...]] = {
    "image": (*IMAGE_COLUMNS, "image_path", "image_url", "image_file"),
    "question": ("question", "problem", "query", "prompt", "instruction"),
    "answer": ("answer", "ground_truth", "gt_answer", "reward_model", "final_answer", "label", "solution"),
    "options": ("options", "choices"),
    "task": ("task", "category", "subject", "question_type", "ability", "data_source"),
    "references": ("references", "worked_answers", "rationale", "solution"),
}
"""Usual column names by field, matched in any case, the most specific first."""
_REQUIRED = ("image", "question", "answer")


class QuestionColumns(BaseModel):
    """Columns of a question source by field; None selects the column by its name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    image: str | None = None
    """Image: a path, an address or the bytes."""
    question: str | None = None
    """Text of the question."""
    answer: str | None = None
    """Reference answer."""
    options: str | None = None
    """Options of a multiple-choice question."""
    task: str | None = None
    """Task that a question counts towards."""
    references: str | None = None
    """Worked answers, for a warm-up."""


@dataclass(frozen=True)
class QuestionEntry:
    """One row of a source. `image` carries the row's key and location, and the worked answers as references."""

    image: ImageEntry
    question: str
    """Without its options."""
    answer: str
    """Content of the answer box; for a multiple-choice question, the letter."""
    options: tuple[str, ...] = ()
    task: str | None = None


def question_entries(source: str, columns: QuestionColumns | None = None) -> Iterator[QuestionEntry | RejectedEntry]:
    """Iterate over the rows of a source in a fixed order, a few in memory at a time, without opening images.

    Args:
        source: a Parquet or JSON lines file, a folder of either, or a pattern with `*`; a path or file:// URI.
    Raises:
        UserError: the path does not exist, there are no rows, or a required column is missing.
    """
    path = str(local_path(source))
    files = source_files(path, (".parquet", ".jsonl"))
    parquet = [file for file in files if file.suffix.lower() == ".parquet"]
    root = Path(path) if Path(path).is_dir() else None
    empty = True
    for file in parquet or files:
        name = file.relative_to(root).as_posix() if root else file.name
        rows = _parquet_rows if file.suffix.lower() == ".parquet" else _json_rows
        for entry in rows(file, name, columns or QuestionColumns(), root or file.parent):
            empty = False
            yield entry
    if empty:
        raise UserError(f"{path}: no questions here; give a Parquet or .jsonl file with rows, or a folder of them")


def _parquet_rows(
    file: Path, name: str, requested: QuestionColumns, root: Path
) -> Iterator[QuestionEntry | RejectedEntry]:
    try:
        with pq.ParquetFile(file) as parquet:
            schema = parquet.schema_arrow
            if requested.image is None:  # a set may hold paths beside the bytes
                requested = requested.model_copy(update={"image": typed_image_column(schema)})
            columns = _select_columns(schema.names, str(file), requested)
            used = sorted({column for column in columns.values() if column})
            number = 0
            for batch in parquet.iter_batches(batch_size=_BATCH, columns=used):
                for row in batch.to_pylist():
                    yield _parse_row(row, columns, f"{name}#{number}", f"{file}#{number}", file.parent, root)
                    number += 1
    except (pa.ArrowException, OSError) as error:
        yield RejectedEntry(source=str(file), reason=f"damaged Parquet file: {str(error).splitlines()[0]}")


def _json_rows(
    file: Path, name: str, requested: QuestionColumns, root: Path
) -> Iterator[QuestionEntry | RejectedEntry]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            location = f"{file}:{number}"
            try:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError(f"it is a {type(row).__name__}")
                columns = _select_columns(row, location, requested)
            except UserError as error:
                yield RejectedEntry(source=location, reason=str(error).removeprefix(f"{location}: "))
            except (ValueError, RecursionError) as error:
                yield RejectedEntry(source=location, reason=f"not a JSON object: {error}")
            else:
                yield _parse_row(row, columns, f"{name}:{number}", location, file.parent, root)


def _select_columns(names: Iterable[str], location: str, requested: QuestionColumns) -> dict[str, str | None]:
    """Map each field to its column, or to None; no column serves two fields."""
    available = list(names)
    by_lowercase = {name.lower(): name for name in reversed(available)}
    columns: dict[str, str | None] = {}
    for field, usual in _COLUMN_NAMES.items():
        column = getattr(requested, field)
        if column is not None and column not in available:
            raise UserError(f"{location}: no column {column!r}; it has {', '.join(available)}")
        free = (by_lowercase[n] for n in usual if n in by_lowercase and by_lowercase[n] not in columns.values())
        columns[field] = column or next(free, None)
        if columns[field] is None and field in _REQUIRED:
            raise UserError(
                f"{location}: no column of the {field} ({', '.join(usual[:4])}, …); it has {', '.join(available)}: "
                "name it"
            )
    return columns


def _parse_row(
    row: Mapping[str, object], columns: Mapping[str, str | None], key: str, location: str, folder: Path, root: Path
) -> QuestionEntry | RejectedEntry:
    cells = {field: row.get(column) if column else None for field, column in columns.items()}
    try:
        question, answer = _question_text(cells["question"]), _answer_text(cells["answer"])
        options = _options(cells["options"])
        if not options and answer_letter(answer, LETTERS) is not None:
            question, options = split_options(question)
        if options:
            letter = answer_letter(answer, options)
            if letter is None:
                raise ValueError(f"the answer {answer[:60]!r} is none of its {len(options)} options, or several")
            answer = letter
        image = _image(cells["image"], key, location, captions_of(cells["references"]), folder, root)
    except ValueError as error:
        return RejectedEntry(source=location, reason=str(error))
    if isinstance(image, RejectedEntry):
        return image
    task = cells["task"]
    return QuestionEntry(image, question, answer, options, task.strip() or None if isinstance(task, str) else None)


def _question_text(cell: Any) -> str:
    """Question of a cell that holds a text, or a list of messages whose user turns are joined."""
    if isinstance(cell, list):
        turns = [turn.get("content") for turn in cell if isinstance(turn, dict) and turn.get("role") == "user"]
        cell = "\n".join(text for text in turns if isinstance(text, str))
    if not isinstance(cell, str) or not strip_image_tags(cell):
        raise ValueError("the row has no question")
    return strip_image_tags(cell)


def _answer_text(cell: Any) -> str:
    """Answer of a cell: a text, a number, a list of one, or a dict with `ground_truth` as trainers store it."""
    if isinstance(cell, dict):
        cell = cell.get("ground_truth")
    if isinstance(cell, list) and len(cell) == 1:
        cell = cell[0]
    if isinstance(cell, list):
        raise ValueError(f"the row has {len(cell)} answers; one is read")
    if isinstance(cell, bool) or not isinstance(cell, str | int | float) or not unboxed(str(cell)):
        raise ValueError("the row has no answer")
    return unboxed(str(cell))


def _options(cell: Any) -> tuple[str, ...]:
    """Options of a cell: a list, a dict by letter, either as JSON, or a text with A, B, …; () for an open question."""
    if isinstance(cell, str):
        text = cell.strip()
        if text.startswith(("[", "{")):
            try:
                return _options(json.loads(text))
            except (ValueError, RecursionError):
                pass
        cell = split_options(f"? {text}")[1]
        if text and not cell:
            raise ValueError(f"its options cannot be told apart: {text[:60]!r}")
    if isinstance(cell, dict):
        texts = cell.get("text")  # the other key holds the labels
        cell = texts if isinstance(texts, list) else [cell[key] for key in sorted(cell) if cell[key] is not None]
    options = tuple("" if option is None else str(option).strip() for option in cell or ())
    if len(options) > len(LETTERS) or not all(options) or len(options) == 1:
        raise ValueError(f"the row has {len(options)} options, some blank; 2 to {len(LETTERS)} are read")
    marks = (f"{letter}." for letter in LETTERS)
    if options and all(option.startswith(mark) for option, mark in zip(options, marks, strict=False)):
        options = tuple(option[2:].strip() for option in options)
    return options


def _image(
    cell: Any, key: str, location: str, references: tuple[str, ...], folder: Path, root: Path
) -> ImageEntry | RejectedEntry:
    """Image of a cell: bytes, a URL, or a path relative to the folder of the rows' file, inside the source."""
    if isinstance(cell, list) and len(cell) == 1:
        cell = cell[0]
    if isinstance(cell, dict) and not cell.get("bytes"):
        cell = cell.get("path")
    if not cell:
        raise ValueError("the row has no image")
    if not isinstance(cell, str):
        return ImageEntry(key, location, ImageCell(cell), references)
    if cell.startswith(("http://", "https://")):
        return url_entry(cell, location, references)
    return ImageEntry(key, location, partial(read_image_file, folder / cell, root), references)
