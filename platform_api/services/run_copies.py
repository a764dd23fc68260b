"""Files of a run as a folder, for code that reads folders: the run's own, or copies of those in a bucket."""

import shutil
import tempfile
import threading
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path, PurePosixPath

from rubricworks.platform_api.services.runs import check_name
from rubricworks.runs.store import RunStore, StoredFile
from rubricworks.storage import is_remote, local_path

_LOCK = threading.Lock()


def run_folder(store: RunStore, run: str, folders: Collection[str]) -> Path:
    """Folder of a run; of one in a bucket, a copy of its own files and of those right in some of its folders. Blocks.

    Args:
        folders: paths below the run's folder, such as `score` and `score/responses`.
    Raises:
        NotFound: the name is no folder's.
    """
    check_name(run)
    if not is_remote(store.uri):
        return local_path(store.uri) / run
    copy = _workspace() / run
    with _LOCK:
        for path, file in store.files(run).items():
            place = PurePosixPath(path)
            if str(place.parent) in (".", *folders) and ".." not in place.parts:
                _copy(store, run, path, file, copy / place)
    return copy


def _copy(store: RunStore, run: str, path: str, file: StoredFile, target: Path) -> None:
    if target.is_file() and target.stat().st_size == file.size and target.stat().st_mtime >= file.modified.timestamp():
        return
    content = store.read(run, path)
    if content is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


@lru_cache(maxsize=1)
def _workspace() -> Path:
    import atexit

    folder = tempfile.mkdtemp(prefix="rubricworks-pages-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
