"""The recipe's source as its readers take it: a source in a store is fetched first, whole, into the workspace."""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rubricworks.data.sources import KINDS
from rubricworks.environment import fill
from rubricworks.errors import UserError
from rubricworks.runtime.store.workspace import workspace_folder
from rubricworks.storage import Bucket, StoredObject, is_remote, open_bucket, write_atomic

_AT_ONCE = 8
_NOTES = "fetched.json"


def source_here(written: str) -> str:
    """A recipe's `data.source` with the environment's values, and on this machine.

    Raises:
        UserError: a variable is not set, or the store has nothing there, refuses or does not answer.
    """
    kind, place = kind_and_place(fill(written, "data.source"))
    return f"{kind}{_fetched(place)}{'/' if place.endswith('/') else ''}" if is_remote(place) else kind + place


def kind_and_place(source: str) -> tuple[str, str]:
    """`parquet:s3://bucket/rows` → `parquet:`, `s3://bucket/rows`; the kind is empty where none is said."""
    kind, colon, place = source.partition(":")
    return (kind + colon, place) if kind in KINDS else ("", source)


def _fetched(uri: str) -> Path:
    """A copy that has what the store has now, and nothing else."""
    bucket, found = stored_files(uri)
    place = workspace_folder() / "sources" / hashlib.sha256(uri.rstrip("/").encode()).hexdigest()[:16]
    notes = _notes(place)
    _remove_others(place, set(found))
    missing = [path for path, one in found.items() if notes.get(path) != one.etag or not (place / path).is_file()]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda path: _fetch(bucket, found[path], place / path, uri), missing))
    write_atomic(place / _NOTES, json.dumps({path: one.etag for path, one in found.items()}).encode())
    return place / uri.rstrip("/").rpartition("/")[2]


def stored_files(uri: str) -> tuple[Bucket, dict[str, StoredObject]]:
    """The objects of a source, by path from the place that holds it; one object where the URI names a file.

    Raises:
        UserError: there is nothing, or the store refuses.
    """
    parent, _, name = uri.rstrip("/").rpartition("/")
    bucket = open_bucket(uri)
    found = {f"{name}/{one.key}": one for one in bucket.objects()}
    if not found and not parent.endswith("/"):
        bucket = open_bucket(parent)
        found = {one.key: one for one in bucket.objects(name) if one.key == name}
    if not found:
        raise UserError(f"{uri}: there is nothing here; give the place of your images, without patterns")
    return bucket, found


def _fetch(bucket: Bucket, one: StoredObject, path: Path, uri: str) -> None:
    try:
        bucket.download(one.key, path)
    except FileNotFoundError as error:
        raise UserError(f"{error}; {uri} changed while it was fetched, run again") from None


def _remove_others(place: Path, wanted: set[str]) -> None:
    for path in place.rglob("*"):
        if path.is_file() and path.name != _NOTES and path.relative_to(place).as_posix() not in wanted:
            path.unlink()


def _notes(place: Path) -> dict[str, str]:
    try:
        return dict(json.loads((place / _NOTES).read_bytes()))
    except (OSError, ValueError, TypeError):
        return {}
