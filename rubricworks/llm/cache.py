"""Answers kept between runs: one SQLite file of JSON, which several processes may share.

Keys are digests of what was asked, never of where. Writes are handed to a thread that commits them in groups (WAL), so
that a call neither waits for the disk nor blocks the event loop; until its group is committed, an answer is served from
memory, and a killed process asks it again. The first answer to a question stays.

A new question need not ask the file: one bit for each of 2^24 beginnings of a key says whether the file may hold it.
The bits are as fresh as the last group; when nothing has been committed for a moment, the file is asked. Looks share a
transaction for as long as a group gathers, because to begin one costs more than to look.
"""

import atexit
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rubricworks.errors import UserError

CACHE_FILE = "llm_cache.sqlite"
"""Its name in a run's folder."""
SCHEMA_VERSION = 2
_GROUP_S = 0.2
"""How long the writer gathers before it commits."""
_FRESH_S = 1.0
"""How long after a group the bits are trusted: an answer of another process may be missed for as long."""
_ROWS_PER_STATEMENT = 256
_CHECKPOINT_PAGES = 8_000
"""Of 4 kB: how long the write-ahead log grows before SQLite folds it in and waits for the disk."""
_LOCK_TIMEOUT_S = 60.0
_READ_TIMEOUT_S = 10.0
"""How long a reader waits for the lock; a run lets go of it after a few milliseconds."""
_BITS = 24
_COLUMNS = "key, model, made, answer"


class AnswerCache:
    """A dictionary on disk, from digests to JSON texts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._news = threading.Condition(self._lock)
        self._closing = threading.Event()
        self._pending: dict[bytes, tuple[str, str]] = {}
        """Model and answer, not committed yet."""
        self._bits = bytearray(1 << (_BITS - 3))
        self._fresh_until = 0.0
        self._last_id = 0
        self._others = -1
        """SQLite's count of what other connections have committed."""
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
        if (pending := self._pending.get(key)) is not None:
            return pending[1]
        place = int.from_bytes(key[:3], "little")
        if not self._bits[place >> 3] & (1 << (place & 7)) and time.monotonic() < self._fresh_until:
            return None
        with self._lock:
            try:
                if not self._reader.in_transaction:
                    self._reader.execute("BEGIN")
                    self._news.notify()
                row = self._reader.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
            except sqlite3.Error as error:
                raise self._unusable(error) from error
        return None if row is None else row[0]

    def put(self, key: bytes, model: str, answer: str) -> None:
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
            self._pending.setdefault(key, (model, answer))
            self._mark(key)

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
                self._news.wait_for(lambda: self._pending or self._reader.in_transaction or self._closing.is_set())
            self._closing.wait(_GROUP_S)
            with self._lock:
                self._look_anew()
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
                self._look_anew()
                for key, _ in group:
                    del self._pending[key]
                self._fresh_until = time.monotonic() + _FRESH_S

    def _look_anew(self) -> None:
        """End the reader's transaction: the next look begins one, and sees what was committed since."""
        if self._reader.in_transaction:
            self._reader.execute("COMMIT")

    def _commit(self, group: list[tuple[bytes, tuple[str, str]]]) -> None:
        """One transaction of few statements: sqlite3 gives up the interpreter lock for each."""
        now = int(time.time())
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            self._note_others()
            rows_left = group
            while rows_left:
                count = min(_ROWS_PER_STATEMENT, 1 << (len(rows_left).bit_length() - 1))
                rows, rows_left = rows_left[:count], rows_left[count:]
                marks = ",".join(["(?,?,?,?)"] * count)
                values = [value for key, (model, answer) in rows for value in (key, model, now, answer)]
                self._writer.execute(f"INSERT OR IGNORE INTO answers ({_COLUMNS}) VALUES {marks}", values)
            (self._last_id,) = self._writer.execute("SELECT coalesce(max(id), 0) FROM answers").fetchone()
            self._writer.execute("COMMIT")
        except sqlite3.Error:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise

    def _note_others(self) -> None:
        """Mark what other processes have committed since the last look; only the holder of the write lock may."""
        (version,) = self._writer.execute("PRAGMA data_version").fetchone()
        if version == self._others:
            return
        self._others = version
        fresh = self._writer.execute("SELECT key FROM answers WHERE id > ?", (self._last_id,))
        while keys := fresh.fetchmany(4096):
            with self._lock:
                for (key,) in keys:
                    self._mark(key)

    def _mark(self, key: bytes) -> None:
        place = int.from_bytes(key[:3], "little")
        self._bits[place >> 3] |= 1 << (place & 7)

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=_LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False)

    def _prepare(self) -> None:
        """WAL, synchronous=NORMAL: a killed process loses nothing committed, a power cut at most the last groups."""
        self._write_ahead()
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

    def _write_ahead(self) -> None:
        """SQLite does not wait for the lock here as it does elsewhere, so two processes that begin together collide."""
        for tries_left in range(100, -1, -1):
            try:
                self._writer.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if not tries_left or error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                    raise
                time.sleep(0.05)

    def _unusable(self, error: Exception) -> UserError:
        reason = " ".join(str(error).split())
        return UserError(
            f"the cache {self._path} cannot be used ({reason}); make room, make it writable or name another file, "
            "and run again: what was committed is kept"
        )


def read_answers(path: Path, *, after: int, limit: int) -> list[tuple[int, str, str, str]]:
    """Rows of a cache file in the order of their ids: id, key in hexadecimal, model, answer.

    The transaction is short, so a slow reader never keeps a run from folding its log in.

    Args:
        path: a cache file, which another thread or process may be writing to.
        after: skip rows up to this id.
        limit: rows at most.
    Raises:
        UserError: the file is no cache, or stays locked.
    """
    with _reader(path) as file:
        look = "SELECT id, hex(key), model, answer FROM answers WHERE id > ? ORDER BY id LIMIT ?"
        return file.execute(look, (after, limit)).fetchall()


def newest_answer_id(path: Path) -> int:
    """The id of a cache file's last row; 0 if it has none. Raises as `read_answers` does."""
    with _reader(path) as file:
        return int(file.execute("SELECT coalesce(max(id), 0) FROM answers").fetchone()[0])


@contextmanager
def _reader(path: Path) -> Iterator[sqlite3.Connection]:
    """Connection that cannot write. SQLite's own read-only mode would leave an empty log beside the file."""
    uri = f"{path.absolute().as_uri()}?mode=rw"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=_READ_TIMEOUT_S, isolation_level=None)) as file:
            file.execute("PRAGMA query_only = ON")
            yield file
    except sqlite3.Error as error:
        raise UserError(
            f"the cache {path} cannot be used ({' '.join(str(error).split())}); make room or make it writable"
        ) from error
