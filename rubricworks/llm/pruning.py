"""Delete kept answers and give their room back to the disk, also while a run uses the cache.

A run waits a minute for the file, then fails. So answers are deleted some thousands at a time with pauses in between;
and where another process has the file open, rewriting it without its holes is given up after some seconds, or not begun
if that process reads without pause, so that the log cannot be emptied: a later pruning does it. A run that looks for a
deleted answer asks again.
"""

import sqlite3
import time
from pathlib import Path
from typing import NamedTuple

from rubricworks.llm.stored_answers import PATIENCE_S, bytes_on_disk, log_of, opened

_ROWS_PER_DELETION = 4000
_REWRITE_BESIDE_OTHERS_S = 10.0
"""Copying back what was rewritten, which cannot be given up, takes as long again at most."""
_TRIES, _BETWEEN_TRIES_S = 100, 0.03
_BUSY = "another process is using it"
_LAST_ID = 2**63 - 1
_SIZE = "2 * length(key) + length(model) + length(CAST(answer AS BLOB)) + 24"
"""Bytes of a row: the key stands in the table and in its index, and SQLite adds a little."""


class Pruned(NamedTuple):
    """What pruning took away, or would."""

    answers: int
    answer_bytes: int
    bytes_before: int
    """On disk, as `bytes_after`."""
    bytes_after: int
    kept_room: str
    """Why the file could not be made smaller; empty where it could."""


class _Cut(NamedTuple):
    """The last answer that is to go, by time and id."""

    made: int
    id: int


_NOTHING, _ALL = _Cut(-1, -1), _Cut(_LAST_ID, _LAST_ID)


def prune(
    path: Path,
    *,
    older_than_s: float | None = None,
    model: str | None = None,
    keep_bytes: float | None = None,
    dry_run: bool = False,
    patience_s: float = PATIENCE_S,
) -> Pruned:
    """Delete answers by at least one criterion.

    Args:
        path: a cache file.
        older_than_s: what was made longer ago goes.
        model: other models' answers stay; with nothing else said, all of this one's go.
        keep_bytes: the oldest go until the rest takes about this much of the file.
        dry_run: count, and delete nothing.
        patience_s: how long to wait for a process that holds the file's lock.
    Raises:
        UserError: the file is no cache of this version, cannot be written, or stays locked; what was deleted until then
            is gone.
        ValueError: no criterion was given.
    """
    if older_than_s is None and model is None and keep_bytes is None:
        raise ValueError("nothing says which answers are to go")
    before = bytes_on_disk(path)
    with opened(path, write=not dry_run, patience_s=patience_s) as file:
        whose, values = ("TRUE", ()) if model is None else ("model = ?", (model,))
        cut = _NOTHING if model is None or older_than_s is not None or keep_bytes is not None else _ALL
        if older_than_s is not None:
            cut = _Cut(int(time.time() - older_than_s) - 1, _LAST_ID)
        if keep_bytes is not None:
            cut = max(cut, _first_without_room(file, whose, values, keep_bytes))
        (end,) = file.execute("SELECT max(id) FROM answers").fetchone()  # what a run adds from now on stays
        doomed, values = f"{whose} AND (made, id) <= (?, ?) AND id <= ?", (*values, *cut, end)
        answers, size = file.execute(f"SELECT count(*), total({_SIZE}) FROM answers WHERE {doomed}", values).fetchone()
        if dry_run:
            return Pruned(answers, int(size), before, before, "")
        answers = _delete(file, doomed, values)
    kept_room = _rewrite(path, patience_s)
    return Pruned(answers, int(size), before, bytes_on_disk(path), kept_room)


def _first_without_room(file: sqlite3.Connection, whose: str, values: tuple[str, ...], room: float) -> _Cut:
    """The newest answer that no longer fits."""
    room /= _growth(file)
    newest_first = f"SELECT made, id, {_SIZE} FROM answers WHERE {whose} ORDER BY made DESC, id DESC"
    for made, number, size in file.execute(newest_first, values):
        room -= size
        if room < 0:
            return _Cut(made, number)
    return _NOTHING


def _growth(file: sqlite3.Connection) -> float:
    """Bytes of the file for each byte of a row: pages are not full, and long answers take whole ones."""
    (content,) = file.execute(f"SELECT total({_SIZE}) FROM answers").fetchone()
    names = ("page_count", "freelist_count", "page_size")
    pages, holes, page = (file.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
    return max(1.0, (pages - holes) * page / content) if content else 1.0


def _delete(file: sqlite3.Connection, doomed: str, values: tuple[str | int, ...]) -> int:
    """Some at a time; in between the lock is free for as long as it was held."""
    some = f"SELECT id FROM answers WHERE {doomed} AND id > ? ORDER BY id LIMIT {_ROWS_PER_DELETION}"
    one = f"DELETE FROM answers WHERE {doomed} AND id = ?"
    deleted, last = 0, -1
    while rows := file.execute(some, (*values, last)).fetchall():
        file.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        deleted += file.executemany(one, ((*values, number) for (number,) in rows)).rowcount
        file.execute("COMMIT")
        time.sleep(time.monotonic() - began)
        last = rows[-1][0]
    return deleted


def _rewrite(path: Path, patience_s: float) -> str:
    """Write the file anew, without holes; why not, if not."""
    others = log_of(path).exists()  # ours went with our connection
    with opened(path, write=True, patience_s=patience_s) as file:
        if others:
            if not _log_emptied(file, patience_s):
                return _BUSY
            end = time.monotonic() + _REWRITE_BESIDE_OTHERS_S
            file.set_progress_handler(lambda: time.monotonic() > end, 10_000)
        why = ""
        try:
            file.execute("VACUUM")
        except sqlite3.OperationalError as error:
            given_up = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_BUSY)
            why = _BUSY if given_up else str(error)
        file.set_progress_handler(None, 0)
        return why or ("" if _log_emptied(file, patience_s) else _BUSY)


def _log_emptied(file: sqlite3.Connection, patience_s: float) -> bool:
    """Whether the log could be folded into the file, which no reader may be in the way of.

    Tried again and again, because who waits for readers keeps writers out, and a run's reads end when it has written.
    """
    file.execute("PRAGMA busy_timeout = 0")
    try:
        for _ in range(_TRIES):
            (busy, *_) = file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not busy:
                return True
            time.sleep(_BETWEEN_TRIES_S)
        return False
    finally:
        file.execute(f"PRAGMA busy_timeout = {int(patience_s * 1000)}")
