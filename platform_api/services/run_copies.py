"""Files of a run as a folder, for code that reads folders: the run's own, or copies of those in a bucket.

Copies are kept for the next reader and take a bounded place: those that were not used for longest give way.
"""

import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path, PurePosixPath

from rubricworks.llm.spending import BUDGET_FILE, SPENDING_FILE
from rubricworks.platform_api.problems import BadRequest
from rubricworks.platform_api.services.runs import check_name
from rubricworks.platform_api.services.stored_parquet import copy_columns
from rubricworks.reports.run_folder import SOURCE
from rubricworks.runs.store import RunStore, StoredFile
from rubricworks.runtime.store.run_state import LEDGER_FILE
from rubricworks.storage import is_remote, local_path

_OWN_FILES = ("recipe.yaml", LEDGER_FILE, BUDGET_FILE, SPENDING_FILE, f"{SPENDING_FILE}-wal", SOURCE)
_MOST_BYTES = 128 * 1024 * 1024
"""Size of all copies: half of what the chart gives to the folder of temporary files."""
_LOCK = threading.Lock()
_sources: dict[Path, tuple[str, StoredFile]] = {}
"""What each copy was made from."""
_readers: dict[Path, int] = {}
"""Number of readers of each run's copy, the last used one last."""


@contextmanager
def run_folder(store: RunStore, run: str, folders: Mapping[str, Sequence[str] | None] | None = None) -> Iterator[Path]:
    """Folder of a run; of one in a bucket, copies of its small files and of those right in some of its folders. Blocks.

    Args:
        folders: paths below the run's folder, such as `score` and `score/responses`, and the columns that are needed of
            the Parquet files in them; None for whole files.
    Raises:
        NotFound: the name is no folder's.
        BadRequest: the copies that are in use would take too much room.
    """
    check_name(run)
    if not is_remote(store.uri):
        yield local_path(store.uri) / run
        return
    copy = _workspace() / run
    with _LOCK:
        _readers[copy] = _readers.pop(copy, 0) + 1
        try:
            _copy_files(store, run, folders or {}, copy)
        except BaseException:
            _readers[copy] -= 1
            raise
    try:
        yield copy
    finally:
        with _LOCK:
            _readers[copy] -= 1


def _copy_files(store: RunStore, run: str, folders: Mapping[str, Sequence[str] | None], copy: Path) -> None:
    for path, file in store.files(run).items():
        place, target = PurePosixPath(path), copy / path
        is_own = path in _OWN_FILES
        if not (is_own or str(place.parent) in folders) or ".." in place.parts:
            continue
        if _sources.get(target) == (store.uri, file) and target.is_file():
            continue
        columns = None if is_own or place.suffix != ".parquet" else folders[str(place.parent)]
        if columns is None:
            _make_room(file.size, run)
            content = store.read(run, path)
            if content is not None:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            copy_columns(store, run, path, file.size, columns, target)
            _make_room(0, run)
        _sources[target] = (store.uri, file)


def _make_room(size: int, run: str) -> None:
    sizes = {copy: sum(one.stat().st_size for one in copy.rglob("*") if one.is_file()) for copy in _readers}
    for copy in [copy for copy, readers in _readers.items() if not readers]:
        if size + sum(sizes.values()) <= _MOST_BYTES:
            return
        shutil.rmtree(copy, ignore_errors=True)
        del sizes[copy], _readers[copy]
        for target in [target for target in _sources if target.is_relative_to(copy)]:
            del _sources[target]
    if size + sum(sizes.values()) > _MOST_BYTES:
        raise BadRequest(
            f"{run}: its tables, with those of other runs that are being read, come to more than "
            f"{_MOST_BYTES >> 20} MB; ask for fewer runs, or run the command `rubricworks` beside the bucket"
        )


@lru_cache(maxsize=1)
def _workspace() -> Path:
    import atexit

    folder = tempfile.mkdtemp(prefix="rubricworks-pages-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
