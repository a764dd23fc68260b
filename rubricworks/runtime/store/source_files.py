"""Sources in a store or on the Hub: resolved from the recipe and downloaded whole before they are read."""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rubricworks.data.hub import hub_folder, hub_source
from rubricworks.data.sources import KINDS
from rubricworks.environment import fill
from rubricworks.errors import TransientError, UserError
from rubricworks.runtime.store.workspace import workspace_root
from rubricworks.storage import Bucket, StoredObject, is_remote, open_bucket, write_atomic

_AT_ONCE = 8
_ETAGS = "fetched.json"


def local_source(source: str, field: str = "data.source") -> str:
    """Return a source of a recipe with environment variables filled in, downloaded first if it is remote.

    Args:
        field: name of the recipe's field, for messages.
    Raises:
        UserError: a variable is not set, or the store or the Hub has nothing there, refuses or does not answer.
    """
    kind, place = kind_and_place(fill(source, field))
    if on_hub := hub_source(place):
        return f"{kind}{hub_folder(on_hub)}"
    return f"{kind}{_download(place)}{'/' if place.endswith('/') else ''}" if is_remote(place) else kind + place


def kind_and_place(source: str) -> tuple[str, str]:
    """Split `parquet:s3://bucket/rows` into `parquet:` and `s3://bucket/rows`; the kind may be empty."""
    kind, colon, place = source.partition(":")
    return (kind + colon, place) if kind in KINDS else ("", source)


def _download(uri: str) -> Path:
    """Bring the local copy of a source to the store's current state and return its path."""
    bucket, files = stored_files(uri)
    folder = workspace_root() / "sources" / hashlib.sha256(uri.rstrip("/").encode()).hexdigest()[:16]
    etags = _read_etags(folder)
    _remove_others(folder, set(files))
    missing = [path for path, item in files.items() if etags.get(path) != item.etag or not (folder / path).is_file()]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda path: _fetch(bucket, files[path], folder / path, uri), missing))
    write_atomic(folder / _ETAGS, json.dumps({path: item.etag for path, item in files.items()}).encode())
    return folder / uri.rstrip("/").rpartition("/")[2]


def stored_files(uri: str) -> tuple[Bucket, dict[str, StoredObject]]:
    """List the objects of a source by path relative to its parent; a single one if the URI names a file.

    Raises:
        UserError: the source is empty, or the store refuses.
    """
    parent, _, name = uri.rstrip("/").rpartition("/")
    bucket = open_bucket(uri)
    files = {f"{name}/{item.key}": item for item in bucket.objects()}
    if not files and not parent.endswith("/"):
        bucket = open_bucket(parent)
        files = {item.key: item for item in bucket.objects(name) if item.key == name}
    if not files:
        raise UserError(f"{uri}: there is nothing here; name a file or a folder of the bucket, without patterns")
    return bucket, files


def _fetch(bucket: Bucket, item: StoredObject, path: Path, uri: str) -> None:
    try:
        bucket.download(item.key, path)
    except FileNotFoundError as error:
        raise TransientError(f"{error}; {uri} changed while it was fetched, run again") from None


def _remove_others(folder: Path, names: set[str]) -> None:
    for path in folder.rglob("*"):
        if path.is_file() and path.name != _ETAGS and path.relative_to(folder).as_posix() not in names:
            path.unlink()


def _read_etags(folder: Path) -> dict[str, str]:
    try:
        return dict(json.loads((folder / _ETAGS).read_bytes()))
    except (OSError, ValueError, TypeError):
        return {}
