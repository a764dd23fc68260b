"""WebDataset tars: files that share a name up to its first dot are one sample; .txt or .json beside it has captions."""

import json
import tarfile
from pathlib import Path

from rubricworks.data.found import Found, FoundImage, Rejected, captions_of, files_of
from rubricworks.data.images import MAX_BYTES

_IMAGES = ("jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff")
_TEXTS = ("txt", "caption", "json")
_JSON_FIELDS = ("captions", "caption", "texts", "text", "description")


def find_in_tars(path: str) -> Found:
    """The samples of a tar, or of a folder's tars in path order. Tars are streamed, never unpacked."""
    root = Path(path)
    for file in files_of(path, (".tar", ".tgz")):
        name = file.relative_to(root).as_posix() if root.is_dir() else file.name
        yield from _samples(file, name)


def _samples(file: Path, name: str) -> Found:
    key, parts = "", {}
    try:
        with tarfile.open(file, "r|*") as tar:
            for member in tar:
                folder, _, base = member.name.rpartition("/")
                stem, _, extension = base.partition(".")
                if not member.isfile() or not stem:
                    continue
                if (here := f"{folder}/{stem}".lstrip("/")) != key:
                    yield from _sample(file, name, key, parts)
                    key, parts = here, {}
                extension = extension.lower()
                if extension not in _IMAGES + _TEXTS:
                    continue
                if member.size > MAX_BYTES:
                    yield Rejected(source=f"{file}/{member.name}", reason=f"too large: {member.size:,} bytes")
                    continue
                parts[extension] = tar.extractfile(member).read()
        yield from _sample(file, name, key, parts)
    except (tarfile.TarError, OSError, EOFError) as error:
        after = f" after {key}" if key else ""
        yield Rejected(source=str(file), reason=f"damaged tar{after}: {error}")


def _sample(file: Path, name: str, key: str, parts: dict[str, bytes]) -> Found:
    image = next((parts[extension] for extension in _IMAGES if extension in parts), None)
    if image is not None:
        yield FoundImage(f"{name}/{key}", f"{file}/{key}", lambda: image, _references(parts))
    elif parts:
        yield Rejected(source=f"{file}/{key}", reason=f"no image beside {key}.{next(iter(parts))}")


def _references(parts: dict[str, bytes]) -> tuple[str, ...]:
    texts = [parts[extension].decode(errors="replace") for extension in ("txt", "caption") if extension in parts]
    try:
        entry = json.loads(parts.get("json", b"{}"))
    except ValueError:
        entry = {}
    found = (entry[field] for field in _JSON_FIELDS if field in entry) if isinstance(entry, dict) else iter(())
    return captions_of(texts) + captions_of(next(found, None))
