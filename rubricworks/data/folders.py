"""A folder of images, captioned by `metadata.jsonl` as in the imagefolder format: {"file_name", "text" | "texts"}."""

import json
import os
from functools import partial
from pathlib import Path

from rubricworks.data.found import Found, FoundImage, Rejected, captions_of, files_of
from rubricworks.data.images import MAX_BYTES, BadImage
from rubricworks.errors import UserError

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".avif", ".heic", ".heif")
METADATA = "metadata.jsonl"


def find_in_folder(path: str) -> Found:
    """The images below a folder, sorted by path; then what the metadata names but is not there."""
    root = Path(path)
    files = files_of(path, IMAGE_SUFFIXES)
    captions = _captions(root) if root.is_dir() else {}
    for file in files:
        key = file.relative_to(root).as_posix() if root.is_dir() else file.name
        references, _ = captions.pop(_plain(file), ((), ""))
        yield FoundImage(key, str(file), partial(read_image_file, file), references)
    for missing, (_, line) in captions.items():
        reason = "is no image by its suffix" if missing.is_file() else "does not exist"
        yield Rejected(source=line, reason=f"names {missing.name}, which {reason}")


def read_image_file(file: Path) -> bytes:
    """A file's bytes, which need not be an image's.

    Raises:
        BadImage: too large to be read.
        OSError: not there, or not readable.
    """
    size = file.stat().st_size
    if size > MAX_BYTES:
        raise BadImage(f"too large: {size:,} bytes, at most {MAX_BYTES:,} are read")
    return file.read_bytes()


def _plain(file: Path) -> Path:
    return Path(os.path.normpath(file.absolute()))


def _captions(root: Path) -> dict[Path, tuple[tuple[str, ...], str]]:
    """Captions by image, and the line that gives them."""
    captions = {}
    for file in files_of(str(root), (".jsonl",)):
        if file.name != METADATA:
            continue
        with file.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    name, references = _entry(line, f"{file}:{number}")
                    captions[_plain(file.parent / name)] = (references, f"{file}:{number}")
    return captions


def _entry(line: bytes, where: str) -> tuple[str, tuple[str, ...]]:
    try:
        entry = json.loads(line)
    except ValueError as error:
        raise UserError(f"{where}: not JSON ({error}); write one object a line") from None
    if not isinstance(entry, dict) or not isinstance(entry.get("file_name"), str) or not entry["file_name"]:
        raise UserError(f'{where}: no "file_name"; write {{"file_name": "a.jpg", "text": "a caption"}}')
    for field in ("text", "texts"):
        value = entry.get(field)
        if value is not None and not isinstance(value, str) and not _all_text(value):
            raise UserError(f'{where}: "{field}" is neither a string nor a list of strings')
    return entry["file_name"], captions_of(entry.get("text")) + captions_of(entry.get("texts"))


def _all_text(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)
