"""A folder of images, captioned by `metadata.jsonl` as in the imagefolder format: {"file_name", "text" | "texts"}."""

import json
import os
from functools import partial
from pathlib import Path

from rubricworks.data.images import MAX_BYTES, BadImage
from rubricworks.data.source_entries import Entries, ImageEntry, RejectedEntry, captions_of, source_files
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
        references, _ = captions.pop(_absolute(file), ((), ""))
        yield ImageEntry(key, str(file), partial(read_image_file, file), references)
    for missing, (_, line) in captions.items():
        reason = "is no image by its suffix" if missing.is_file() else "does not exist"
        yield RejectedEntry(source=line, reason=f"names {missing.name}, which {reason}")


def read_image_file(file: Path) -> bytes:
    """Read a file's bytes without checking that they are an image.

    Raises:
        BadImage: the file is too large.
        OSError: the file is missing or not readable.
    """
    size = file.stat().st_size
    if size > MAX_BYTES:
        raise BadImage(f"too large: {size:,} bytes, at most {MAX_BYTES:,} are read")
    return file.read_bytes()


def _absolute(file: Path) -> Path:
    return Path(os.path.normpath(file.absolute()))


def _captions(root: Path) -> dict[Path, tuple[tuple[str, ...], str]]:
    """Captions by image path, each with the location of its metadata line."""
    captions = {}
    for file in source_files(str(root), (".jsonl",)):
        if file.name != METADATA:
            continue
        with file.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    name, references = _parse_metadata_line(line, f"{file}:{number}")
                    captions[_absolute(file.parent / name)] = (references, f"{file}:{number}")
    return captions


def _parse_metadata_line(line: bytes, location: str) -> tuple[str, tuple[str, ...]]:
    try:
        entry = json.loads(line)
    except ValueError as error:
        raise UserError(f"{location}: not JSON ({error}); write one object a line") from None
    if not isinstance(entry, dict) or not isinstance(entry.get("file_name"), str) or not entry["file_name"]:
        raise UserError(f'{location}: no "file_name"; write {{"file_name": "a.jpg", "text": "a caption"}}')
    for field in ("text", "texts"):
        value = entry.get(field)
        if value is not None and not isinstance(value, str) and not _is_text_list(value):
            raise UserError(f'{location}: "{field}" is neither a string nor a list of strings')
    return entry["file_name"], captions_of(entry.get("text")) + captions_of(entry.get("texts"))


def _is_text_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)
