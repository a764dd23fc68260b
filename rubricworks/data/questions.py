"""Visual questions from Parquet files and from JSON lines with images beside them, row by row.

Columns are found by the names that public sets use: ViRL39K (`question`, `answer` in a box, `image` as a list of
paths), OpenMMReasoner's RL set (`prompt` as messages, `reward_model.ground_truth`, `images`), DeepVision-103K; or they
are named. Options may have a column of their own or stand at the question's end. What cannot be used comes as Rejected.
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

from rubricworks.data.columns import IMAGE_COLUMNS, ImageCell, typed_image_column
from rubricworks.data.folders import read_image_file
from rubricworks.data.found import FoundImage, Rejected, captions_of, files_of
from rubricworks.data.question_text import LETTERS, answer_letter, split_options, unboxed, without_image_places
from rubricworks.data.urls import found_at
from rubricworks.errors import UserError
from rubricworks.storage import local_path

_BATCH = 64
_NAMES: dict[str, tuple[str, ...]] = {
    "image": (*IMAGE_COLUMNS, "image_path", "image_url", "image_file"),
    "question": ("question", "problem", "query", "prompt", "instruction"),
    "answer": ("answer", "ground_truth", "gt_answer", "reward_model", "final_answer", "label", "solution"),
    "options": ("options", "choices"),
    "task": ("task", "category", "subject", "question_type", "ability", "data_source"),
    "references": ("references", "worked_answers", "rationale", "solution"),
}
"""Names of columns, in any case, the surest first."""
_NEEDED = ("image", "question", "answer")


class QuestionColumns(BaseModel):
    """Which column holds what; those not given are found by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    image: str | None = None
    question: str | None = None
    answer: str | None = None
    options: str | None = None
    task: str | None = None
    references: str | None = None
    """Worked answers, for a warm-up."""


@dataclass(frozen=True)
class FoundQuestion:
    """One row of a source. Its image's key and place are those of the row, its references the worked answers."""

    image: FoundImage
    question: str
    """Without its options."""
    answer: str
    """What belongs in the box: of a multiple-choice question the letter."""
    options: tuple[str, ...] = ()
    task: str | None = None


def find_questions(source: str, columns: QuestionColumns | None = None) -> Iterator[FoundQuestion | Rejected]:
    """The rows of a source in a fixed order, a few in memory at a time; their images are not opened.

    Args:
        source: a Parquet or JSON lines file, a folder of either, or a pattern with `*`; a path or file:// URI.
    Raises:
        UserError: nothing is there, there are no rows, or a needed column is not found.
    """
    path = str(local_path(source))
    files = files_of(path, (".parquet", ".jsonl"))
    parquet = [file for file in files if file.suffix.lower() == ".parquet"]
    root = Path(path) if Path(path).is_dir() else None
    empty = True
    for file in parquet or files:
        name = file.relative_to(root).as_posix() if root else file.name
        rows = _parquet_rows if file.suffix.lower() == ".parquet" else _json_rows
        for found in rows(file, name, columns or QuestionColumns()):
            empty = False
            yield found
    if empty:
        raise UserError(f"{path}: no questions here; give a Parquet or .jsonl file with rows, or a folder of them")


def _parquet_rows(file: Path, name: str, asked: QuestionColumns) -> Iterator[FoundQuestion | Rejected]:
    try:
        with pq.ParquetFile(file) as parquet:
            schema = parquet.schema_arrow
            if asked.image is None:  # a set may hold paths beside the bytes
                asked = asked.model_copy(update={"image": typed_image_column(schema)})
            columns = _columns(schema.names, str(file), asked)
            read = sorted({column for column in columns.values() if column})
            number = 0
            for batch in parquet.iter_batches(batch_size=_BATCH, columns=read):
                for row in batch.to_pylist():
                    yield _found(row, columns, f"{name}#{number}", f"{file}#{number}", file.parent)
                    number += 1
    except (pa.ArrowException, OSError) as error:
        yield Rejected(source=str(file), reason=f"damaged Parquet file: {str(error).splitlines()[0]}")


def _json_rows(file: Path, name: str, asked: QuestionColumns) -> Iterator[FoundQuestion | Rejected]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            where = f"{file}:{number}"
            try:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError(f"it is a {type(row).__name__}")
                columns = _columns(row, where, asked)
            except UserError as error:
                yield Rejected(source=where, reason=str(error).removeprefix(f"{where}: "))
            except (ValueError, RecursionError) as error:
                yield Rejected(source=where, reason=f"not a JSON object: {error}")
            else:
                yield _found(row, columns, f"{name}:{number}", where, file.parent)


def _columns(names: Iterable[str], where: str, asked: QuestionColumns) -> dict[str, str | None]:
    """Field → column, None where there is none; an answer's column is not also the worked answer's."""
    here = list(names)
    lowered = {name.lower(): name for name in reversed(here)}
    found: dict[str, str | None] = {}
    for field, known in _NAMES.items():
        column = getattr(asked, field)
        if column is not None and column not in here:
            raise UserError(f"{where}: no column {column!r}; it has {', '.join(here)}")
        free = (lowered[name] for name in known if name in lowered and lowered[name] not in found.values())
        found[field] = column or next(free, None)
        if found[field] is None and field in _NEEDED:
            raise UserError(
                f"{where}: no column of the {field} ({', '.join(known[:4])}, …); it has {', '.join(here)}: name it"
            )
    return found


def _found(
    row: Mapping[str, Any], columns: Mapping[str, str | None], key: str, where: str, folder: Path
) -> FoundQuestion | Rejected:
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
        image = _image(cells["image"], key, where, captions_of(cells["references"]), folder)
    except ValueError as error:
        return Rejected(source=where, reason=str(error))
    if isinstance(image, Rejected):
        return image
    task = cells["task"]
    return FoundQuestion(image, question, answer, options, task.strip() or None if isinstance(task, str) else None)


def _question_text(cell: Any) -> str:
    """A text, or the user's words in a list of messages."""
    if isinstance(cell, list):
        said = [turn.get("content") for turn in cell if isinstance(turn, dict) and turn.get("role") == "user"]
        cell = "\n".join(text for text in said if isinstance(text, str))
    if not isinstance(cell, str) or not without_image_places(cell):
        raise ValueError("the row has no question")
    return without_image_places(cell)


def _answer_text(cell: Any) -> str:
    """A text or a number, perhaps alone in a list, or below `ground_truth` as trainers store it."""
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
    """A list, a mapping from letters, a list's JSON, or a text that names A, B, …; none is an open question."""
    if isinstance(cell, str):
        text = cell.strip()
        if text.startswith(("[", "{")):
            try:
                return _options(json.loads(text))
            except ValueError:
                pass
        cell = split_options(f"? {text}")[1]
        if text and not cell:
            raise ValueError(f"its options cannot be told apart: {text[:60]!r}")
    if isinstance(cell, dict):
        texts = cell.get("text")  # beside their labels
        cell = texts if isinstance(texts, list) else [cell[at] for at in sorted(cell) if cell[at] is not None]
    options = tuple("" if option is None else str(option).strip() for option in cell or ())
    if len(options) > len(LETTERS) or not all(options) or len(options) == 1:
        raise ValueError(f"the row has {len(options)} options, some blank; 2 to {len(LETTERS)} are read")
    marks = (f"{letter}." for letter in LETTERS)
    if options and all(option.startswith(mark) for option, mark in zip(options, marks, strict=False)):
        options = tuple(option[2:].strip() for option in options)
    return options


def _image(cell: Any, key: str, where: str, references: tuple[str, ...], folder: Path) -> FoundImage | Rejected:
    """Bytes in the cell, or a path from the folder that the rows' file lies in."""
    if isinstance(cell, list) and len(cell) == 1:
        cell = cell[0]
    if isinstance(cell, dict) and not cell.get("bytes"):
        cell = cell.get("path")
    if not cell:
        raise ValueError("the row has no image")
    if not isinstance(cell, str):
        return FoundImage(key, where, ImageCell(cell), references)
    if cell.startswith(("http://", "https://")):
        return found_at(cell, where, references)
    return FoundImage(key, where, partial(read_image_file, folder / cell), references)
