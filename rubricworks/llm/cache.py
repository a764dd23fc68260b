"""Answer cache: one SQLite file of JSON answers, which several processes may share.

Keys are digests of the request without the URL. A writer thread commits answers in groups (WAL), so that a call neither
waits for the disk nor blocks the event loop. An answer is served from memory until its group is committed; a killed
process loses it and asks again. The first answer to a request is kept.

Most misses do not query the file: a bitmap over the first 24 bits of the keys tells which keys the file can hold. The
bitmap is as fresh as the last group, so the file is queried if nothing was committed for a moment. Lookups within one
group interval share a transaction, because starting one costs more than a lookup.
"""

import atexit
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rubricworks.errors import UserError
from rubricworks.storage.sqlite_files import check_journal, read_only

CACHE_FILE = "llm_cache.sqlite"
"""File name in a run's folder."""
SCHEMA_VERSION = 2
_GROUP_INTERVAL_S = 0.2
"""Time the writer collects answers before it commits."""
_FRESHNESS_S = 1.0
"""Time after a commit in which the bitmap is trusted; answers of other processes may be missed that long."""
_ROWS_PER_STATEMENT = 256
_CHECKPOINT_PAGES = 8_000
"""Length of the write-ahead log, in pages of 4 kB, at which SQLite checkpoints it and waits for the disk."""
_LOCK_TIMEOUT_S = 60.0
_READ_TIMEOUT_S = 10.0
"""Time a reader waits for the lock; a run releases it after a few milliseconds."""
_KEY_BITS = 24
_COLUMNS = "key, model, made, answer"


class AnswerCache:
    """Persistent dictionary from digests to JSON texts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._wakeup = threading.Condition(self._lock)
        self._closing = threading.Event()
        self._pending: dict[bytes, tuple[str, str]] = {}
        """Model and answer by key, not committed yet."""
        self._bits = bytearray(1 << (_KEY_BITS - 3))
        self._fresh_until = 0.0
        self._last_id = 0
        self._data_version = -1
        """SQLite's `data_version`, which changes with commits of other connections."""
        self._failure: UserError | None = None
        self._closed = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            check_journal(path)
            self._writer = self._connect()
            self._reader = self._connect()
            self._prepare()
        except (sqlite3.Error, OSError) as error:
            raise self._unusable(error) from error
        self._thread = threading.Thread(target=self._write_groups, name="answer-cache", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def get(self, key: bytes) -> str | None:
        if (pending := self._pending.get(key)) is not None:
            return pending[1]
        bit = int.from_bytes(key[:3], "little")
        if not self._bits[bit >> 3] & (1 << (bit & 7)) and time.monotonic() < self._fresh_until:
            return None
        with self._lock:
            try:
                if not self._reader.in_transaction:
                    self._reader.execute("BEGIN")
                    self._wakeup.notify()
                row = self._reader.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
            except sqlite3.Error as error:
                raise self._unusable(error) from error
        return None if row is None else row[0]

    def put(self, key: bytes, model: str, answer: str) -> None:
        """Store an answer; the writer thread commits it a moment later.

        Raises:
            UserError: an earlier group could not be written.
        """
        with self._lock:
            if self._failure is not None:
                raise self._failure
            if self._closed:
                raise RuntimeError("the cache is closed")
            if not self._pending:
                self._wakeup.notify()
            self._pending.setdefault(key, (model, answer))
            self._mark_key(key)

    def close(self) -> None:
        """Commit pending answers and close the file."""
        self._closing.set()
        with self._lock:
            self._wakeup.notify()
        self._thread.join()
        atexit.unregister(self.close)
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._writer.close()
            self._reader.close()
            if self._failure is not None:
                raise self._failure

    def _write_groups(self) -> None:
        while True:
            with self._lock:
                self._wakeup.wait_for(lambda: self._pending or self._reader.in_transaction or self._closing.is_set())
            self._closing.wait(_GROUP_INTERVAL_S)
            with self._lock:
                self._end_read()
                group = list(self._pending.items())
            if not group:
                if self._closing.is_set():
                    return
                continue
            try:
                self._commit(group)
            except sqlite3.Error as error:
                with self._lock:
                    self._failure = self._unusable(error)
                return
            with self._lock:
                self._end_read()
                for key, _ in group:
                    del self._pending[key]
                self._fresh_until = time.monotonic() + _FRESHNESS_S

    def _end_read(self) -> None:
        """End the reader's transaction, so that the next lookup starts one and sees later commits."""
        if self._reader.in_transaction:
            self._reader.execute("COMMIT")

    def _commit(self, group: list[tuple[bytes, tuple[str, str]]]) -> None:
        """Insert a group in one transaction of few statements, as sqlite3 releases the GIL for each."""
        now = int(time.time())
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            self._mark_other_writers()
            remaining_rows = group
            while remaining_rows:
                count = min(_ROWS_PER_STATEMENT, 1 << (len(remaining_rows).bit_length() - 1))
                rows, remaining_rows = remaining_rows[:count], remaining_rows[count:]
                placeholders = ",".join(["(?,?,?,?)"] * count)
                values = [value for key, (model, answer) in rows for value in (key, model, now, answer)]
                self._writer.execute(f"INSERT OR IGNORE INTO answers ({_COLUMNS}) VALUES {placeholders}", values)
            (self._last_id,) = self._writer.execute("SELECT coalesce(max(id), 0) FROM answers").fetchone()
            self._writer.execute("COMMIT")
        except sqlite3.Error:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise

    def _mark_other_writers(self) -> None:
        """Mark keys that other processes have committed; requires the write lock."""
        (version,) = self._writer.execute("PRAGMA data_version").fetchone()
        if version == self._data_version:
            return
        self._data_version = version
        new_keys = self._writer.execute("SELECT key FROM answers WHERE id > ?", (self._last_id,))
        while keys := new_keys.fetchmany(4096):
            with self._lock:
                for (key,) in keys:
                    self._mark_key(key)

    def _mark_key(self, key: bytes) -> None:
        bit = int.from_bytes(key[:3], "little")
        self._bits[bit >> 3] |= 1 << (bit & 7)

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=_LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False)

    def _prepare(self) -> None:
        """WAL, synchronous=NORMAL: a killed process loses nothing committed, a power cut at most the last groups."""
        self._enable_wal()
        self._writer.execute("PRAGMA synchronous = NORMAL")
        self._writer.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        (version,) = self._writer.execute("PRAGMA user_version").fetchone()
        if version not in (0, SCHEMA_VERSION):
            raise UserError(f"the cache {self._path} was written by another version; name another file or delete it")
        self._writer.execute(
            "CREATE TABLE IF NOT EXISTS answers (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, model TEXT NOT NULL,"
            " made INTEGER NOT NULL, answer TEXT NOT NULL)"
        )
        if version == 0:
            self._writer.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _enable_wal(self) -> None:
        """Switch to WAL. SQLite ignores its lock timeout here, so processes that start together must retry."""
        for attempts_left in range(100, -1, -1):
            try:
                self._writer.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if not attempts_left or error.sqlite_errorcode & 0xFF not in (
                    sqlite3.SQLITE_BUSY,
                    sqlite3.SQLITE_LOCKED,
                ):
                    raise
                time.sleep(0.05)

    def _unusable(self, error: Exception) -> UserError:
        reason = " ".join(str(error).split())
        return UserError(
            f"the cache {self._path} cannot be used ({reason}); make room, make it writable or name another file, "
            "and run again: what was committed is kept"
        )


def read_answers(path: Path, *, after: int, limit: int) -> list[tuple[int, str, str, str]]:
    """Read rows of a cache file in order of id: id, key in hexadecimal, model, answer.

    The transaction is short, so that a slow reader never blocks a run's checkpoint.

    Args:
        path: a cache file, which another thread or process may be writing to.
        after: skip rows up to this id.
        limit: maximal number of rows.
    Raises:
        UserError: the file is not a cache, or stays locked.
    """
    with _reader(path) as file:
        query = "SELECT id, hex(key), model, answer FROM answers WHERE id > ? ORDER BY id LIMIT ?"
        return file.execute(query, (after, limit)).fetchall()


def find_answer(path: Path, key: bytes) -> str | None:
    """Answer that the cache file of any run has to a request, or None; of a run at work, not its last ones.

    Raises:
        UserError: the file is not a cache.
    """
    try:
        with read_only(path, "answers") as file:
            row = file.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
    except sqlite3.Error as error:
        raise _unreadable(path, error) from error
    return None if row is None else str(row[0])


def newest_answer_id(path: Path) -> int:
    """Id of a cache file's last row, or 0 if it is empty. Raises like `read_answers`."""
    with _reader(path) as file:
        return int(file.execute("SELECT coalesce(max(id), 0) FROM answers").fetchone()[0])


@contextmanager
def _reader(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a connection that cannot write, on a run of this process's own.

    SQLite's own read-only mode would leave an empty log next to the file.
    """
    check_journal(path)
    uri = f"{path.absolute().as_uri()}?mode=rw"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=_READ_TIMEOUT_S, isolation_level=None)) as file:
            file.execute("PRAGMA query_only = ON")
            yield file
    except sqlite3.Error as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: sqlite3.Error) -> UserError:
    reason = " ".join(str(error).split())
    return UserError(f"the cache {path} cannot be used ({reason}); make room or make it writable")
