"""Instruction data in LLaVA-NeXT's form: conversations about any number of images, from Parquet, JSON or JSON lines.

A row has `conversations` (turns with `from` and `value`; `messages` with `role` and `content` are read as well) and its
images in `image` or `images`: bytes, a path relative to the file, a list of either, or nothing in a row of text only.
Texts stay as they are, but for the marks `<image>`, which become the places of the images: as in LLaVA-NeXT's loader, a
turn's only image moves to its beginning. An unusable row becomes a `RejectedEntry`.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rubricworks.data.json_faults import json_fault
from rubricworks.data.pixels import is_byte_list
from rubricworks.data.source_entries import SPEAKERS, ImageEntry, RejectedEntry, source_files
from rubricworks.data.source_kinds.columns import IMAGE_COLUMNS, ImageCell
from rubricworks.data.source_kinds.folders import read_image_file
from rubricworks.errors import UserError
from rubricworks.storage import local_path

IMAGE_MARK = "<image>"
_CONVERSATIONS = ("conversations", "messages")
_BATCH = 64

Messages = list[dict[str, Any]]


@dataclass(frozen=True)
class InstructionEntry:
    """One row of a source; its images are read on demand."""

    source: str
    """Location for messages."""
    messages: Messages
    """Turns by `role`; the `content` of each is a list of texts and places of images, as chat templates read it."""
    images: tuple[ImageEntry, ...]
    """In the order of their places."""


def instruction_entries(source: str) -> Iterator[InstructionEntry | RejectedEntry]:
    """Iterate over the rows of a source in a fixed order, without opening images.

    Args:
        source: a Parquet, JSON or JSON lines file, a folder of them, or a pattern with `*`; a path or file:// URI.
    Raises:
        UserError: the path does not exist, or holds no conversations.
    """
    path = str(local_path(source))
    files = source_files(path, (".parquet", ".jsonl", ".json"))
    parquet = [file for file in files if file.suffix.lower() == ".parquet"]
    root = Path(path) if Path(path).is_dir() else None
    empty = True
    for file in parquet or files:
        for location, row in _rows(file):
            empty = False
            yield row if isinstance(row, RejectedEntry) else _entry(row, location, file.parent, root or file.parent)
    if empty:
        raise UserError(
            f"{path}: no conversations here; give Parquet, .json or .jsonl with `conversations` in its rows"
        )


def _rows(file: Path) -> Iterator[tuple[str, Mapping[str, Any] | RejectedEntry]]:
    """Location and content of each row of a file."""
    try:
        if file.suffix.lower() == ".parquet":
            yield from _parquet_rows(file)
        elif file.suffix.lower() == ".jsonl":
            with file.open("rb") as lines:
                for number, line in enumerate(lines, start=1):
                    if line.strip():
                        yield f"{file}:{number}", _object(json.loads(line), f"{file}:{number}")
        else:
            content = json.loads(file.read_bytes())
            for number, row in enumerate(content if isinstance(content, list) else [content], start=1):
                yield f"{file}: object {number}", _object(row, f"{file}: object {number}")
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file}: {json_fault(error)}") from None
    except (pa.ArrowException, OSError) as error:
        yield str(file), RejectedEntry(source=str(file), reason=f"damaged file: {str(error).splitlines()[0]}")


def _parquet_rows(file: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    with pq.ParquetFile(file) as parquet:
        names = parquet.schema_arrow.names
        if not any(name in names for name in _CONVERSATIONS):
            raise UserError(f"{file}: no column {' or '.join(_CONVERSATIONS)}; it has {', '.join(names)}")
        used = [name for name in (*_CONVERSATIONS, *IMAGE_COLUMNS) if name in names]
        number = 0
        for batch in parquet.iter_batches(batch_size=_BATCH, columns=used):
            for row in batch.to_pylist():
                yield f"{file}#{number}", row
                number += 1


def _object(row: Any, location: str) -> Mapping[str, Any] | RejectedEntry:
    return row if isinstance(row, dict) else RejectedEntry(source=location, reason=f"no object: {type(row).__name__}")


def _entry(row: Mapping[str, Any], location: str, folder: Path, root: Path) -> InstructionEntry | RejectedEntry:
    try:
        turns = _turns(next((row[name] for name in _CONVERSATIONS if row.get(name)), None))
        cell = next((row[name] for name in IMAGE_COLUMNS if row.get(name)), None)
        cells = cell if isinstance(cell, list) and not is_byte_list(cell) else [cell] if cell else []
        images = tuple(
            ImageEntry(f"{location} image {number}", location, _reader(image, folder, root))
            for number, image in enumerate(cells, start=1)
        )
        return InstructionEntry(location, _with_places(turns, len(images)), images)
    except ValueError as error:
        return RejectedEntry(source=location, reason=str(error))


def _reader(cell: Any, folder: Path, root: Path) -> Callable[[], bytes]:
    """Reader of one image: bytes, or a path relative to the rows' file, inside the source."""
    path = cell.get("path") if isinstance(cell, dict) and not cell.get("bytes") else cell
    if not isinstance(path, str) or path.startswith("data:"):
        return ImageCell(cell)
    if path.startswith(("http://", "https://")):
        raise ValueError(f"its image is a URL ({path[:80]}); store the images beside the rows, or their bytes in them")
    return partial(read_image_file, folder / path, root)


def _turns(cell: Any) -> list[tuple[str, str]]:
    """Role and text of each turn: a system turn if there is one, then user and assistant in turns.

    Raises:
        ValueError: it is no such conversation.
    """
    if not isinstance(cell, list):
        raise ValueError(f"the row has no {' or '.join(_CONVERSATIONS)}")
    turns = [_turn(turn) for turn in cell]
    system = [turn for turn in turns[:1] if turn[0] == "system"]
    rest = turns[len(system) :]
    if rest and rest[0][0] == "assistant":  # LLaVA's loader leaves out an answer without a question
        rest = rest[1:]
    roles = [role for role, _ in rest]
    if len(roles) < 2 or any(role != ("user", "assistant")[at % 2] for at, role in enumerate(roles)):
        raise ValueError(f"its turns are not of human and gpt in turns: {', '.join(role for role, _ in turns[:6])}")
    return system + rest


def _turn(turn: Any) -> tuple[str, str]:
    if not isinstance(turn, Mapping):
        raise ValueError(f"one of its turns is no object: {str(turn)[:60]!r}")
    speaker = str(turn.get("from") or turn.get("role") or "")
    text = turn.get("value") if turn.get("value") is not None else turn.get("content")
    if isinstance(text, list):
        text = "".join(
            IMAGE_MARK if part.get("type") == "image" else str(part.get("text") or "")
            for part in text
            if isinstance(part, Mapping)
        )
    if not isinstance(text, str):
        raise ValueError(f"a turn of {speaker or 'nobody'} has no text")
    return SPEAKERS.get(speaker, speaker), text


def _with_places(turns: list[tuple[str, str]], images: int) -> Messages:
    """Messages whose texts are divided at the marks; images without any mark come first in the first question.

    Raises:
        ValueError: there are not as many marks as images, or an answer has one.
    """
    marks = sum(text.count(IMAGE_MARK) for _, text in turns)
    if images and not marks:
        first = next(at for at, (role, _) in enumerate(turns) if role == "user")
        turns[first] = "user", IMAGE_MARK * images + turns[first][1]
    elif marks != images:
        raise ValueError(f"it has {images} images, and {marks} marks {IMAGE_MARK} in its turns")
    if any(IMAGE_MARK in text for role, text in turns if role != "user"):
        raise ValueError(f"a turn that is not human's has the mark {IMAGE_MARK}")
    return [{"role": role, "content": _parts(text)} for role, text in turns]


def _parts(text: str) -> Messages:
    pieces = text.split(IMAGE_MARK)
    if len(pieces) == 2:
        return [{"type": "image"}, {"type": "text", "text": "".join(pieces).strip()}]
    parts: Messages = []
    for number, piece in enumerate(pieces):
        if number:
            parts.append({"type": "image"})
            piece = piece.removeprefix("\n")  # which chat templates write after an image
        if piece:
            parts.append({"type": "text", "text": piece})
    return parts
