"""Storage of an installation's runs: open once it answers, and files of a run as a folder for code that reads folders.

The folder has copies, of a run that lies on this machine too: a run may come from somebody else, and code that reads a
folder would follow its links and decode whatever its tables hold. Copies are kept for the next reader and take a
bounded place: those that were not used for longest give way.
"""

import asyncio
import hashlib
import logging
import math
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from rubricworks.data.ledger import LEDGER_FILE
from rubricworks.errors import TransientError, UserError
from rubricworks.llm.spending import BUDGET_FILE, SPENDING_FILE, read_spending
from rubricworks.platform_api.problems import BadRequest
from rubricworks.platform_api.services.runs import check_name
from rubricworks.reports.run_folder import SOURCE
from rubricworks.runs.records import RunRecord
from rubricworks.runs.store import RunStore, StoredFile, open_run_store
from rubricworks.runs.tables import TableFile

_AGAIN_AFTER = 5.0
"""Seconds between attempts to open it: each may take as long as a store that does not answer."""
_PATIENCE_S = 5.0
"""Seconds for which a bucket that fails is asked again: who reads a page waits for the answer."""
_log = logging.getLogger(__name__)
_OWN_FILES = ("recipe.yaml", LEDGER_FILE, BUDGET_FILE, SPENDING_FILE, SOURCE)
_MOST_BYTES = 128 * 1024 * 1024
"""Size of all copies: half of the chart's limit for temporary files."""
_LOCK = threading.Lock()
_sources: dict[Path, tuple[str, StoredFile]] = {}
"""Source of each copy."""
_readers: dict[Path, int] = {}
"""Number of readers of each run's copy, the last used one last."""


class RunStorage:
    """The storage at one place, once it is open."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._store: RunStore | None = None
        self._lock, self._next = asyncio.Lock(), 0.0

    async def get(self) -> RunStore | None:
        """The open storage; None, and a line in the log, if it does not answer."""
        async with self._lock:
            if self._store is None and time.monotonic() >= self._next:
                try:
                    self._store = await asyncio.to_thread(open_run_store, self._uri, patience_s=_PATIENCE_S)
                except UserError as error:
                    _log.warning("%s", error)
                self._next = time.monotonic() + _AGAIN_AFTER
            return self._store

    async def wait(self) -> RunStore:
        """The storage, once it is open."""
        while True:
            store = await self.get()
            if store is not None:
                return store
            await asyncio.sleep(_AGAIN_AFTER)


class CopiedTable(NamedTuple):
    """Files of a table that are copied."""

    kind: str
    """Name of its schema."""
    columns: Sequence[str] | None = None
    """Columns that are needed, of those that it has; None for all."""


@contextmanager
def run_folder(store: RunStore, run: str, tables: Mapping[str, CopiedTable] | None = None) -> Iterator[Path]:
    """Folder with copies of a run's small files, and of some of its tables. Blocks.

    Args:
        tables: by their folders, such as `score` and `score/responses`.
    Raises:
        NotFound: the name is no folder's.
        BadRequest: the copies that are in use would take too much room.
        UnreadableFile: a file cannot be copied.
    """
    check_name(run)
    copy = _workspace() / hashlib.sha256(store.uri.encode()).hexdigest()[:16] / run
    with _LOCK:
        _readers[copy] = _readers.pop(copy, 0) + 1
        try:
            _copy_files(store, run, tables or {}, copy)
        except BaseException:
            _readers[copy] -= 1
            raise
    try:
        yield copy
    finally:
        with _LOCK:
            _readers[copy] -= 1


def run_dollars(store: RunStore, record: RunRecord, files: Mapping[str, StoredFile]) -> float | None:
    """Dollars that a run has spent on calls: by its ledger, or by the stages at work, which report the whole run's.

    None where tokens were sent and no model has a price, except in the scene world. A ledger that cannot be read counts
    nothing: the run's fault tells of it.
    """
    spent = max((stage.dollars for stage in record.progress), default=0.0)
    if SPENDING_FILE not in files:
        return spent
    try:
        with run_folder(store, record.name) as folder:
            rows = read_spending(folder / SPENDING_FILE)
            spent = max(spent, math.fsum(row["cost"] for row in rows))
            is_known = spent or record.simulated or not any(row["prompt_tokens"] for row in rows)
            return spent if is_known else None
    except TransientError:
        raise
    except (UserError, BadRequest, OverflowError):  # half copied, or damaged
        return spent


def _copy_files(store: RunStore, run: str, tables: Mapping[str, CopiedTable], copy: Path) -> None:
    table_of = {folder: table for path, table in tables.items() for folder in (path, f"{path}/{table.kind}")}
    for path, file in store.files(run).items():
        place, target = PurePosixPath(path), copy / path
        table = table_of.get(str(place.parent))
        if not (path in _OWN_FILES or table) or ".." in place.parts:
            continue
        if _sources.get(target) == (store.uri, file) and target.is_file():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if table and place.suffix == ".parquet":
            TableFile(store, run, path, file, file.size, table.kind).copy(table.columns, target)
            _make_room(0, run)
        else:
            _make_room(file.size, run)
            content = store.read(run, path)
            if content is not None:
                target.write_bytes(content)
        _sources[target] = (store.uri, file)


def _make_room(size: int, run: str) -> None:
    sizes = {copy: sum(path.stat().st_size for path in copy.rglob("*") if path.is_file()) for copy in _readers}
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
