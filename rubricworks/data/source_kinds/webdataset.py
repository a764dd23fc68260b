"""WebDataset tars: files that share a name up to the first dot are one sample; its .txt or .json holds captions.

The .json may hold the image's own captioning prompt as well, as "prompt", or a conversation as LLaVA has it. The name
up to the first dot of its last part is the sample's, and the rest the kind of its file, as the webdataset library has
it (`tariterators.base_plus_ext`): `IMG.2024.01.png` is no image of its own, but the part `2024.01.png` of the sample
`IMG`. Such members are rejected with that reason, and so is a sample of which no part is an image that is read.
"""

import json
import tarfile
from pathlib import Path
from typing import NamedTuple

from rubricworks.data.images import MAX_BYTES
from rubricworks.data.json_faults import json_fault
from rubricworks.data.source_entries import (
    Captions,
    Entries,
    ImageEntry,
    RejectedEntry,
    captions_in,
    captions_of,
    source_files,
)

_IMAGES = ("jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff", "ppm", "avif", "jp2")
_TEXTS = ("txt", "caption", "json")


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
    others: list[str] = []
    try:
        with tarfile.open(file, "r|*") as tar:
            for member in tar:
                folder, _, base = member.name.rpartition("/")
                stem, _, extension = base.partition(".")
                if not member.isfile() or not stem:
                    continue
                if (member_key := f"{folder}/{stem}".lstrip("/")) != key:
                    yield from _sample(file, name, key, parts, others)
                    key, parts, others = member_key, {}, []
                extension = extension.lower()
                if reason := _unread_reason(member, stem, extension, parts):
                    yield RejectedEntry(source=f"{file}/{member.name}", reason=reason)
                elif extension not in _IMAGES + _TEXTS:
                    others.append(base)
                else:
                    content = tar.extractfile(member)
                    assert content is not None, "a plain file has content"
                    parts[extension] = content.read()
        yield from _sample(file, name, key, parts, others)
    except (tarfile.TarError, OSError, EOFError) as error:
        after = f" after {key}" if key else ""
        yield RejectedEntry(source=str(file), reason=f"damaged tar{after}: {error}")


def _unread_reason(member: tarfile.TarInfo, stem: str, extension: str, parts: dict[str, bytes]) -> str:
    """Reason why a member is not read that looks like a part of a sample; empty if it is, or does not."""
    if "." in extension and extension.rpartition(".")[2] in _IMAGES + _TEXTS:
        return f"its sample is {stem!r}, the name up to the first dot, and {extension!r} no kind of file; rename it"
    if extension in parts:
        return "a member of this name stands before it"
    if extension in _IMAGES + _TEXTS and member.size > MAX_BYTES:
        return f"too large: {member.size:,} bytes"
    return ""


def _sample(file: Path, name: str, key: str, parts: dict[str, bytes], others: list[str]) -> Entries:
    image = next((parts[extension] for extension in _IMAGES if extension in parts), None)
    if image is not None:
        captions, fault = _texts(parts)
        yield ImageEntry(f"{name}/{key}", f"{file}/{key}", lambda: image, captions.references, captions.prompt)
        if fault:
            yield RejectedEntry(source=f"{file}/{key}.{fault.extension}", reason=f"captions not read: {fault.reason}")
    elif parts:
        yield RejectedEntry(source=f"{file}/{key}", reason=f"no image beside {key}.{next(iter(parts))}")
    elif others:
        yield RejectedEntry(source=f"{file}/{key}", reason=f"{others[0]} is no kind of image that is read")


class _Fault(NamedTuple):
    extension: str
    reason: str


def _texts(parts: dict[str, bytes]) -> tuple[Captions, _Fault | None]:
    """Captions and prompt of a sample, and why those of a part are missing."""
    texts, faults = [], []
    for extension in ("txt", "caption"):
        try:
            texts += [parts[extension].decode("utf-8-sig")] if extension in parts else []
        except UnicodeDecodeError as error:
            faults.append(_Fault(extension, json_fault(error)))
    captions = Captions()
    try:
        entry = json.loads(parts.get("json", b"{}"))
        captions = captions_in(entry) if isinstance(entry, dict) else captions
        faults += [_Fault("json", captions.unread)] if captions.unread else []
    except (ValueError, RecursionError) as error:
        reason = json_fault(error) if isinstance(error, UnicodeDecodeError) else f"not JSON ({error})"
        faults.append(_Fault("json", reason))
    references = captions_of(texts) + captions.references
    return captions._replace(references=references), faults[0] if faults else None
