"""A folder of images, captioned by `metadata.jsonl` as in the imagefolder format: {"file_name", "text" | "texts"}.

A line may hold the image's own captioning prompt as well, as "prompt".
"""

import json
import os
import stat
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rubricworks.data.images import MAX_BYTES, BadImage
from rubricworks.data.json_faults import json_fault
from rubricworks.data.source_entries import (
    Entries,
    ImageEntry,
    RejectedEntry,
    captions_of,
    is_hidden,
    prompt_of,
    source_files,
)
from rubricworks.errors import UserError

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".avif", ".heic", ".heif")
METADATA = "metadata.jsonl"


def folder_entries(path: str) -> Entries:
    """Entries of the images below a folder, sorted by path; then rejects for metadata lines without an image."""
    root = Path(path)
    files = source_files(path, IMAGE_SUFFIXES)
    captions = _captions(root) if root.is_dir() else {}
    for file in files:
        key = file.relative_to(root).as_posix() if root.is_dir() else file.name
        line = captions.pop(_absolute(file), None) or _MetadataLine(file.name)
        read = partial(read_image_file, file, root if root.is_dir() else None)
        yield ImageEntry(key, str(file), read, line.references, line.prompt)
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
    snapshot = next((one for one in (folder, *folder.parents) if one.parent.name == "snapshots"), None)
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
    file_name: str
    references: tuple[str, ...] = ()
    prompt: str = ""
    location: str = ""


def _captions(root: Path) -> dict[Path, _MetadataLine]:
    """Metadata lines by image path."""
    captions = {}
    for file in source_files(str(root), (".jsonl",)):
        if file.name != METADATA:
            continue
        with file.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    parsed = _parse_metadata_line(line, f"{file}:{number}")
                    captions[_absolute(file.parent / parsed.file_name)] = parsed
    return captions


def _parse_metadata_line(line: bytes, location: str) -> _MetadataLine:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{location}: {json_fault(error)}") from None
    if not isinstance(entry, dict) or not isinstance(entry.get("file_name"), str) or not entry["file_name"]:
        raise UserError(f'{location}: no "file_name"; write {{"file_name": "a.jpg", "text": "a caption"}}')
    for field in ("text", "texts"):
        value = entry.get(field)
        if value is not None and not isinstance(value, str) and not _is_text_list(value):
            raise UserError(f'{location}: "{field}" is neither a string nor a list of strings')
    references = captions_of(entry.get("text")) + captions_of(entry.get("texts"))
    return _MetadataLine(entry["file_name"], references, prompt_of(entry.get("prompt")), location)


def _is_text_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)
