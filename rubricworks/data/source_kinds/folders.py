"""A folder of images with captions: `metadata.jsonl` or `metadata.csv` as in the imagefolder format, files beside them.

A line has "file_name" and a caption ("text", "texts", "caption", "captions", …), or a conversation as LLaVA has it; it
may hold the image's own captioning prompt as well, as "prompt". LLaVA's own list, a .json of objects with "image" and
"conversations", is read in the same way. Without a line, the caption of a.png is in a.txt, a.caption or a.json.
"""

import csv
import json
import os
import stat
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rubricworks.data.images import MAX_BYTES, BadImage
from rubricworks.data.json_faults import json_fault
from rubricworks.data.source_entries import (
    Captions,
    Entries,
    ImageEntry,
    RejectedEntry,
    captions_in,
    captions_of,
    is_hidden,
    source_files,
)
from rubricworks.errors import UserError

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".avif", ".heic", ".heif")
METADATA = ("metadata.jsonl", "metadata.csv")
_SIDECARS = (".txt", ".caption", ".json")
_FILE_FIELDS = ("file_name", "image_file_name", "image")
_MAX_SIDECAR = 2**20


def folder_entries(path: str) -> Entries:
    """Entries of the images below a folder, sorted by path; then rejects for metadata lines without an image."""
    root = Path(path)
    # Of a pattern, links lead out of the folder before its first `*` as little as out of a folder.
    fixed = root if root.is_dir() else Path(path.partition("*")[0] + "x").parent
    files = source_files(path, IMAGE_SUFFIXES)
    captions = _captions(root) if root.is_dir() else {}
    sidecars = _sidecars(root) if root.is_dir() else {}
    for file in files:
        key = file.relative_to(root).as_posix() if root.is_dir() else file.name
        line = captions.pop(_absolute(file), None)
        said = line.captions if line else _sidecar_captions(sidecars.get(file.with_suffix(""), []))
        read = partial(read_image_file, file, fixed)
        yield ImageEntry(key, str(file), read, said.references, said.prompt)
        if said.unread:
            yield RejectedEntry(source=line.location if line else str(file), reason=f"captions not read: {said.unread}")
    for file in _irregular_files(root):
        yield RejectedEntry(source=str(file), reason="is a device, a pipe or a broken link, no file to be read")
    for missing, line in captions.items():
        reason = "is no image by its suffix" if missing.is_file() else "does not exist"
        yield RejectedEntry(source=line.location, reason=f"names {missing.name}, which {reason}")


def read_image_file(file: Path, root: Path | None = None) -> bytes:
    """Read a file's bytes without checking that they are an image.

    Args:
        root: folder that the file must lie in, whatever its path and the links on it say; None allows any place.
    Raises:
        BadImage: the file lies elsewhere, is too large, or is a device or a pipe.
        OSError: the file is missing or not readable.
    """
    if root is not None and not _lies_in(file, root):
        raise BadImage(f"{file.name} leads out of {root}; only images inside the source are read")
    # Without waiting: to open a pipe waits for a writer.
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK), "rb") as opened:
        status = os.fstat(opened.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise BadImage(f"{file.name} is no regular file")
        content = opened.read(MAX_BYTES + 1) if status.st_size <= MAX_BYTES else b""
    if status.st_size > MAX_BYTES or len(content) > MAX_BYTES:
        raise BadImage(f"too large: {max(status.st_size, len(content)):,} bytes, at most {MAX_BYTES:,} are read")
    return content


def _lies_in(file: Path, root: Path) -> bool:
    place, folder = file.resolve(), root.resolve()
    if place.is_relative_to(folder):
        return True
    # A download from the Hugging Face Hub is a folder of links: snapshots/REVISION/a.jpg → ../../blobs/DIGEST.
    snapshot = next((parent for parent in (folder, *folder.parents) if parent.parent.name == "snapshots"), None)
    return snapshot is not None and place.is_relative_to(snapshot.parent.parent / "blobs")


def _irregular_files(root: Path) -> list[Path]:
    """Entries named like an image below a folder that are neither file nor folder."""
    if not root.is_dir():
        return []
    named = (path for path in root.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES)
    return sorted(path for path in named if not path.is_file() and not path.is_dir() and not is_hidden(path, root))


def _absolute(file: Path) -> Path:
    return Path(os.path.normpath(file.absolute()))


class _MetadataLine(NamedTuple):
    captions: Captions
    location: str


def _captions(root: Path) -> dict[Path, _MetadataLine]:
    """Metadata lines by image path."""
    captions = {}
    for file in source_files(str(root), (".jsonl", ".csv", ".json")):
        if file.name in METADATA:
            rows = _csv_rows(file) if file.suffix == ".csv" else _json_rows(file)
        elif file.suffix.lower() == ".json":
            rows = _llava_rows(file)
        else:
            continue
        for location, entry in rows:
            name = next((entry[field] for field in _FILE_FIELDS if entry.get(field)), None)
            if not isinstance(name, str):
                raise UserError(f'{location}: no "file_name"; write {{"file_name": "a.jpg", "text": "a caption"}}')
            captions[_absolute(file.parent / name)] = _MetadataLine(_checked_captions(entry, location), location)
    return captions


def _json_rows(file: Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    entry = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise UserError(f"{file}:{number}: {json_fault(error)}") from None
                yield f"{file}:{number}", entry if isinstance(entry, dict) else {}


def _csv_rows(file: Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    with file.open(encoding="utf-8-sig", newline="") as text:
        rows = csv.DictReader(text)
        try:
            for row in rows:
                yield f"{file}:{rows.line_num}", row
        except (UnicodeDecodeError, csv.Error) as error:
            raise UserError(f"{file}: after line {rows.line_num}: no CSV in UTF-8 ({error}); save it as such") from None


def _llava_rows(file: Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Objects of a list that LLaVA trains on, but for those without an image; nothing of any other JSON."""
    with file.open("rb") as content:
        if not content.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
            return
    try:
        entries = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        return
    for number, entry in enumerate(entries, start=1):
        if isinstance(entry, dict) and isinstance(entry.get("image"), str) and "conversations" in entry:
            yield f"{file}: object {number}", entry


def _checked_captions(entry: Mapping[str, object], location: str) -> Captions:
    for field in ("text", "texts", "caption", "captions"):
        value = entry.get(field)
        if value is not None and not isinstance(value, str) and not _is_text_list(value):
            raise UserError(f'{location}: "{field}" is neither a string nor a list of strings')
    return captions_in(entry)


def _sidecars(root: Path) -> dict[Path, list[Path]]:
    """Files that may hold the captions of an image of the same name, by their paths without suffix."""
    sidecars: dict[Path, list[Path]] = {}
    for file in source_files(str(root), _SIDECARS):
        sidecars.setdefault(file.with_suffix(""), []).append(file)
    return sidecars


def _sidecar_captions(files: list[Path]) -> Captions:
    """Captions of the files beside an image, in the order of `_SIDECARS`."""
    captions, unread = Captions(), []
    for file in sorted(files, key=lambda file: _SIDECARS.index(file.suffix.lower())):
        try:
            if file.stat().st_size > _MAX_SIDECAR:
                raise ValueError("larger than a mebibyte")
            text = file.read_text(encoding="utf-8-sig")
            entry = json.loads(text) if file.suffix.lower() == ".json" else {"text": text}
        except (OSError, ValueError, RecursionError) as error:
            unread.append(f"{file.name} ({str(error).splitlines()[0]})")
            continue
        said = captions_in(entry) if isinstance(entry, dict) else Captions(captions_of(entry))
        unread += [said.unread] if said.unread else []
        captions = Captions((*captions.references, *said.references), captions.prompt or said.prompt)
    return captions._replace(unread="; ".join(unread))


def _is_text_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)
