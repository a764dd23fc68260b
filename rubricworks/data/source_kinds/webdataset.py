"""WebDataset tars: files that share a name up to the first dot are one sample; its .txt or .json holds captions.

The .json may hold the image's own captioning prompt as well, as "prompt".
"""

import json
import tarfile
from pathlib import Path
from typing import NamedTuple

from rubricworks.data.images import MAX_BYTES
from rubricworks.data.json_faults import json_fault
from rubricworks.data.source_entries import Entries, ImageEntry, RejectedEntry, captions_of, prompt_of, source_files

_IMAGES = ("jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff")
_TEXTS = ("txt", "caption", "json")
_JSON_FIELDS = ("captions", "caption", "texts", "text", "description")


def tar_entries(path: str) -> Entries:
    """Entries of a tar, or of a folder's tars in path order. Tars are streamed, never extracted."""
    root = Path(path)
    for file in source_files(path, (".tar", ".tgz")):
        name = file.relative_to(root).as_posix() if root.is_dir() else file.name
        yield from tar_file_entries(file, name)


def tar_file_entries(file: Path, name: str) -> Entries:
    """Entries of one tar.

    Args:
        name: beginning of its entries' keys.
    """
    key = ""
    parts: dict[str, bytes] = {}
    try:
        with tarfile.open(file, "r|*") as tar:
            for member in tar:
                folder, _, base = member.name.rpartition("/")
                stem, _, extension = base.partition(".")
                if not member.isfile() or not stem:
                    continue
                if (member_key := f"{folder}/{stem}".lstrip("/")) != key:
                    yield from _sample(file, name, key, parts)
                    key, parts = member_key, {}
                extension = extension.lower()
                if extension not in _IMAGES + _TEXTS:
                    continue
                if member.size > MAX_BYTES:
                    yield RejectedEntry(source=f"{file}/{member.name}", reason=f"too large: {member.size:,} bytes")
                    continue
                content = tar.extractfile(member)
                assert content is not None, "a plain file has content"
                parts[extension] = content.read()
        yield from _sample(file, name, key, parts)
    except (tarfile.TarError, OSError, EOFError) as error:
        after = f" after {key}" if key else ""
        yield RejectedEntry(source=str(file), reason=f"damaged tar{after}: {error}")


def _sample(file: Path, name: str, key: str, parts: dict[str, bytes]) -> Entries:
    image = next((parts[extension] for extension in _IMAGES if extension in parts), None)
    if image is not None:
        references, prompt, fault = _texts(parts)
        yield ImageEntry(f"{name}/{key}", f"{file}/{key}", lambda: image, references, prompt)
        if fault:
            yield RejectedEntry(source=f"{file}/{key}.{fault.extension}", reason=f"captions not read: {fault.reason}")
    elif parts:
        yield RejectedEntry(source=f"{file}/{key}", reason=f"no image beside {key}.{next(iter(parts))}")


class _Fault(NamedTuple):
    extension: str
    reason: str


def _texts(parts: dict[str, bytes]) -> tuple[tuple[str, ...], str, _Fault | None]:
    """Captions and prompt of a sample, and why those of a part are missing."""
    texts, faults = [], []
    for extension in ("txt", "caption"):
        try:
            texts += [parts[extension].decode()] if extension in parts else []
        except UnicodeDecodeError as error:
            faults.append(_Fault(extension, json_fault(error)))
    fault = faults[0] if faults else None
    try:
        entry = json.loads(parts.get("json", b"{}"))
    except (ValueError, RecursionError) as error:
        reason = json_fault(error) if isinstance(error, UnicodeDecodeError) else f"not JSON ({error})"
        return captions_of(texts), "", fault or _Fault("json", reason)
    fields = entry if isinstance(entry, dict) else {}
    captions = (fields[field] for field in _JSON_FIELDS if field in fields)
    return captions_of(texts) + captions_of(next(captions, None)), prompt_of(fields.get("prompt")), fault
