"""Downloads of stage outputs from the store into the workspace; files that are already current are kept."""

import hashlib
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rubricworks.errors import UserError
from rubricworks.runtime.job import DONE
from rubricworks.runtime.store.attempts import REPLACED, IndexEntry, read_index
from rubricworks.storage import Bucket, open_bucket

_AT_ONCE = 8
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
_SMALL_BYTES = 1 << 20


def fetch_input(uri: str, folder: Path) -> None:
    """Download a finished stage's output without its checkpoints, or all objects below any other URI.

    Raises:
        UserError: the stage has not finished, or the URI holds nothing.
    """
    parent, _, name = uri.rstrip("/").rpartition("/")
    bucket = open_bucket(parent)
    index = {path: entry for path, entry in read_index(bucket, name).items() if path.startswith(f"{name}/")}
    if index:
        if f"{name}/{DONE}" not in index:
            raise UserError(f"{uri}: the {name} stage has not finished; run it first")
        index = {path: entry for path, entry in index.items() if "/checkpoint-" not in path}
        if (folder / DONE).is_file() and not _is_current(folder / DONE, index[f"{name}/{DONE}"]):
            shutil.rmtree(folder)  # rebuilt on another machine since it was fetched
        fetch_files(bucket, folder.parent, index)
        return
    objects = {item.key: IndexEntry(item.size, "") for item in open_bucket(uri).objects()}
    if not objects:
        raise UserError(f"{uri}: there is nothing here; run the stage that makes it first")
    fetch_files(open_bucket(uri), folder, objects)


def fetch_files(bucket: Bucket, folder: Path, index: dict[str, IndexEntry], *, weights: bool = True) -> None:
    """Download the files of an index that are missing or outdated in `folder`.

    Args:
        bucket: root of the index's paths in the store.
        folder: their root on this machine.
        weights: also download model weights; a report needs none.
    Raises:
        UserError: a file is missing or damaged, or the disk is full.
    """
    selected = [path for path in index if not path.startswith(REPLACED) and (weights or not path.endswith(_WEIGHTS))]
    missing = [path for path in selected if not _is_current(folder / path, index[path])]
    # `done.json` comes last, as it did in the upload: it marks a complete folder.
    missing.sort(key=lambda path: path.endswith(f"/{DONE}"))

    def fetch(path: str) -> None:
        try:
            bucket.download(path, folder / path)
        except FileNotFoundError as error:
            raise UserError(f"{error}, and the index names it; delete the stage's folder and run it again") from None

    data = [path for path in missing if not path.endswith(f"/{DONE}")]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(fetch, data))
    for path in missing[len(data) :]:
        fetch(path)


def _is_current(path: Path, entry: IndexEntry) -> bool:
    """Return True if the file matches its entry: by size, and up to 1 MiB by content too."""
    if not path.is_file() or path.stat().st_size != entry.size:
        return False
    if not entry.sha256:
        return entry.size > _SMALL_BYTES
    return entry.size > _SMALL_BYTES or hashlib.sha256(path.read_bytes()).hexdigest() == entry.sha256
