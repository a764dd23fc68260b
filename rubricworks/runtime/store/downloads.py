"""Files of finished or begun stages, from the store to where a stage reads them; what is here already stays."""

import hashlib
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rubricworks.errors import UserError
from rubricworks.runtime.job import DONE
from rubricworks.runtime.store.attempts import ASIDE, File, read_index
from rubricworks.storage import Bucket, open_bucket

_AT_ONCE = 8
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
_SMALL_BYTES = 1 << 20


def fetch_input(uri: str, folder: Path) -> None:
    """Get what a finished stage made, without its checkpoints; or whatever else lies below a URI.

    Raises:
        UserError: the stage has not finished, or there is nothing.
    """
    parent, _, name = uri.rstrip("/").rpartition("/")
    bucket = open_bucket(parent)
    index = {path: file for path, file in read_index(bucket, name).items() if path.startswith(f"{name}/")}
    if index:
        if f"{name}/{DONE}" not in index:
            raise UserError(f"{uri}: the {name} stage has not finished; run it first")
        index = {path: file for path, file in index.items() if "/checkpoint-" not in path}
        if (folder / DONE).is_file() and not _is_here(folder / DONE, index[f"{name}/{DONE}"]):
            shutil.rmtree(folder)  # made again elsewhere, since it was fetched
        fetch_files(bucket, folder.parent, index)
        return
    there = {found.key: File(found.size, "") for found in open_bucket(uri).objects()}
    if not there:
        raise UserError(f"{uri}: there is nothing here; run the stage that makes it first")
    fetch_files(open_bucket(uri), folder, there)


def fetch_files(bucket: Bucket, folder: Path, index: dict[str, File], *, weights: bool = True) -> None:
    """Get the files that an index names and are not here.

    Args:
        bucket: what the index's paths are relative to.
        folder: likewise, here.
        weights: those of models too; a page needs none.
    Raises:
        UserError: a file is gone, damaged, or finds no room.
    """
    wanted = [path for path in index if not path.startswith(ASIDE) and (weights or not path.endswith(_WEIGHTS))]
    missing = [path for path in wanted if not _is_here(folder / path, index[path])]
    # The mark that all is there comes last here, too.
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


def _is_here(path: Path, file: File) -> bool:
    """By size, and where that is cheap by content."""
    if not path.is_file() or path.stat().st_size != file.size:
        return False
    if not file.sha256:
        return file.size > _SMALL_BYTES
    return file.size > _SMALL_BYTES or hashlib.sha256(path.read_bytes()).hexdigest() == file.sha256
