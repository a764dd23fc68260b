"""Entries of a source: an image that has not been read yet, or a rejected entry with its reason."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from rubricworks.data.hub import hub_reading
from rubricworks.errors import UserError


class RejectedEntry(BaseModel):
    """An unusable entry of a source. The fields are the columns of the table `rejected`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    reason: str


@dataclass(frozen=True)
class ImageEntry:
    """One image of a source; its bytes are read on demand."""

    key: str
    """Identifies the image within its source; the same on every read."""
    source: str
    """Location for messages."""
    read: Callable[[], bytes]
    """Return the bytes; raises OSError or BadImage."""
    references: tuple[str, ...] = ()
    prompt: str = ""
    """The captioning prompt that the source gives with the image, if it does."""
    url: str | None = None
    """URL to fetch a remote image from; `read` does not fetch it."""


Entries = Iterator[ImageEntry | RejectedEntry]


def source_files(path: str, suffixes: tuple[str, ...]) -> list[Path]:
    """Files of a source, sorted by path: the file itself, a folder's files by suffix, or the matches of a `*` pattern.

    Raises:
        UserError: the path does not exist.
    """
    root = Path(path)
    if root.is_file():
        return [root]
    if root.is_dir():
        files = [file for file in root.rglob("*") if file.suffix.lower() in suffixes]
    elif "*" in path:
        anchor = Path(root.anchor) if root.is_absolute() else Path()
        files = list(anchor.glob(str(root.relative_to(root.anchor))))
    else:
        raise UserError(f"{path}: no such file or folder; give the path of your images{hub_reading(path)}")
    return sorted(
        (file for file in files if file.is_file() and not is_hidden(file, root)), key=lambda file: file.as_posix()
    )


CAPTION_FIELDS = ("references", "captions", "caption", "texts", "text", "description", "txt")
"""Fields of a record that may hold its captions; the first that does counts, `text` and `texts` together."""
_CONVERSATIONS = ("conversations", "messages")
SPEAKERS = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant"}


class Captions(NamedTuple):
    """Captions and prompt that a record has for its image."""

    references: tuple[str, ...] = ()
    prompt: str = ""
    unread: str = ""
    """Parts that are not read, with the reason; empty if all are."""


def captions_in(record: Mapping[str, object]) -> Captions:
    """Captions and prompt of a record's fields, or of its conversation as LLaVA has it: its first two turns."""
    prompt = prompt_of(record.get("prompt"))
    name = next((name for name in CAPTION_FIELDS if captions_of(record.get(name))), "")
    names = ("text", "texts") if name in ("text", "texts") else (name,)
    references = tuple(text for name in names for text in captions_of(record.get(name)))
    turns = next((record[name] for name in _CONVERSATIONS if record.get(name) is not None), None)
    if references or turns is None:
        return Captions(references, prompt)
    said = [_said(turn) for turn in turns] if isinstance(turns, list | tuple) else []
    speakers = [speaker for speaker, _ in said if speaker != "system"]
    if speakers[:2] != ["user", "assistant"]:
        return Captions((), prompt, "its conversation is not a turn of human (user) and one of gpt (assistant)")
    asked, replied, *others = [text for speaker, text in said if speaker != "system"]
    unread = f"of its conversation's {len(others) + 2} turns the first two" if others else ""
    return Captions(captions_of(replied), prompt or prompt_of(asked), unread and f"{unread} are read")


def _said(turn: Any) -> tuple[str, str]:
    """Speaker and text of a turn, in LLaVA's names or in OpenAI's."""
    fields = turn if isinstance(turn, Mapping) else {}
    speaker = str(fields.get("from") or fields.get("role") or "")
    text = fields.get("value") if fields.get("value") is not None else fields.get("content")
    if isinstance(text, list | tuple):
        text = "".join(str(part.get("text") or "") for part in text if isinstance(part, Mapping))
    return SPEAKERS.get(speaker, speaker), text if isinstance(text, str) else ""


def prompt_of(value: object) -> str:
    """A field's prompt, without the mark of the image's place (`<image>`); empty if it holds no text."""
    return value.replace("<image>", "").strip() if isinstance(value, str) else ""


def captions_of(value: object) -> tuple[str, ...]:
    """Non-blank captions of a field that holds one string or a list of strings."""
    texts = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else []
    return tuple(text.strip() for text in texts if isinstance(text, str) and text.strip())


def file_name(source: str) -> str:
    """Name of the file that a sample's source names, with its place in the file: `brick.jpg`, `photos.parquet:12`."""
    return source.rpartition("/")[2]


def is_hidden(file: Path, root: Path) -> bool:
    """Return True if a part of the path below the source begins with a dot."""
    inside = file.relative_to(root) if root.is_dir() else Path(file.name)
    return any(part.startswith(".") for part in inside.parts)
