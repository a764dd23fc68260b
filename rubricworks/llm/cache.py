"""Answers kept between runs: one SQLite file of JSON, which several processes may share.

Keys are digests of what was asked, never of where. Writes are handed to a thread that commits them in groups (WAL), so
that a call neither waits for the disk nor blocks the event loop; until its group is committed, an answer is served from
memory, and a killed process asks it again. The first answer to a question stays.
"""

import atexit
import sqlite3
import threading
import time
from pathlib import Path

from rubricworks.errors import UserError

_SCHEMA_VERSION = 1
_GROUP_S = 0.02
"""How long the writer gathers before it commits."""
_ROWS_PER_STATEMENT = 64
_LOCK_TIMEOUT_S = 60.0


class AnswerCache:
    """A dictionary on disk, from digests to JSON texts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._news = threading.Condition(self._lock)
        self._closing = threading.Event()
        self._pending: dict[bytes, str] = {}
        """Not committed yet."""
        self._failure: UserError | None = None
        self._closed = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = self._connect()
            self._reader = self._connect()
            self._prepare()
        except (sqlite3.Error, OSError) as error:
            raise self._unusable(error) from error
        self._thread = threading.Thread(target=self._write_groups, name="answer-cache", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def get(self, key: bytes) -> str | None:
        with self._lock:
            if (answer := self._pending.get(key)) is not None:
                return answer
            try:
                row = self._reader.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
            except sqlite3.Error as error:
                raise self._unusable(error) from error
        return None if row is None else row[0]

    def put(self, key: bytes, answer: str) -> None:
        """Keep an answer; it is on disk a moment later.

        Raises:
            UserError: an earlier group could not be written.
        """
        with self._lock:
            if self._failure is not None:
                raise self._failure
            if self._closed:
                raise RuntimeError("the cache is closed")
            if not self._pending:
                self._news.notify()
            self._pending.setdefault(key, answer)

    def close(self) -> None:
        """Write what is pending and let go of the file."""
        self._closing.set()
        with self._lock:
            self._news.notify()
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
                self._news.wait_for(lambda: self._pending or self._closing.is_set())
            self._closing.wait(_GROUP_S)
            with self._lock:
                group = list(self._pending.items())
            if not group:
                return
            try:
                self._commit(group)
            except sqlite3.Error as error:
                with self._lock:
                    self._failure = self._unusable(error)
                return
            with self._lock:
                for key, _ in group:
                    del self._pending[key]

    def _commit(self, group: list[tuple[bytes, str]]) -> None:
        """One transaction of few statements: sqlite3 gives up the interpreter lock for each."""
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            rows_left = group
            while rows_left:
                count = min(_ROWS_PER_STATEMENT, 1 << (len(rows_left).bit_length() - 1))
                rows, rows_left = rows_left[:count], rows_left[count:]
                marks = ",".join(["(?,?)"] * count)
                values = [value for row in rows for value in row]
                self._writer.execute(f"INSERT OR IGNORE INTO answers (key, answer) VALUES {marks}", values)
            self._writer.execute("COMMIT")
        except sqlite3.Error:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=_LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False)

    def _prepare(self) -> None:
        """WAL, synchronous=NORMAL: a killed process loses nothing committed, a power cut at most the last groups."""
        self._write_ahead()
        self._writer.execute("PRAGMA synchronous = NORMAL")
        self._writer.execute("CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, answer TEXT NOT NULL)")
        (version,) = self._writer.execute("PRAGMA user_version").fetchone()
        if version not in (0, _SCHEMA_VERSION):
            raise UserError(f"the cache {self._path} was written by another version; name another file or delete it")
        if version == 0:
            self._writer.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")

    def _write_ahead(self) -> None:
        """SQLite does not wait for the lock here as it does elsewhere, so two processes that begin together collide."""
        for tries_left in range(100, -1, -1):
            try:
                self._writer.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError:
                if not tries_left:
                    raise
                time.sleep(0.05)

    def _unusable(self, error: Exception) -> UserError:
        reason = " ".join(str(error).split())
        return UserError(
            f"the cache {self._path} cannot be used ({reason}); make room, make it writable or name another file, "
            "and run again: what was committed is kept"
        )
