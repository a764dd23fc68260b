"""SQLite files of a folder that somebody else may have written.

SQLite trusts its files: who opens one rolls back the journal beside it, deletes the file that the journal names as its
super-journal, and computes every view and generated column. A reader here opens the file as one that cannot change,
reads its tables, and stops at a deadline. What a killed writer left half written is rolled back by the run itself when
it goes on, after `check_journal`.
"""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rubricworks.errors import UserError

_DEADLINE_S = 10.0
_INSTRUCTIONS = 10_000
"""SQLite's instructions between looks at the clock."""
_LONGEST_VALUE = 64 * 1024 * 1024
_SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")
"""End of a journal that names a super-journal: https://www.sqlite.org/fileformat2.html#the_rollback_journal."""


@contextmanager
def read_only(path: Path, *tables: str) -> Iterator[sqlite3.Connection]:
    """Connection that reads tables of a file in place and changes nothing, beside the file either.

    What a process is committing meanwhile may be seen in part.

    Raises:
        sqlite3.Error: the file is none of SQLite's, lacks one of the tables, or takes too long.
    """
    deadline = time.monotonic() + _DEADLINE_S
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True, isolation_level=None)) as file:
        file.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        file.set_progress_handler(lambda: time.monotonic() > deadline, _INSTRUCTIONS)
        for table in tables:
            _check_table(file, table)
        yield file


def _check_table(file: sqlite3.Connection, table: str) -> None:
    """Check that rows of a table are what the file holds: not so of a view, virtual table or generated column.

    A view without an end, or a column of a few bytes that makes gigabytes, would take the reader's time and memory.
    """
    query = "SELECT 1 FROM sqlite_schema WHERE name = ? AND type = 'table' AND rootpage > 0"
    is_stored = file.execute(query, (table,)).fetchone() is not None
    if not is_stored or any(hidden for *_, hidden in file.execute(f'PRAGMA table_xinfo("{table}")')):
        raise sqlite3.DatabaseError(f"it has no table {table} of stored rows")


def check_journal(path: Path) -> None:
    """Check that SQLite may roll back a file: its journal names no other file, and neither of both is a link.

    Raises:
        UserError: it must not be opened.
    """
    journal = path.with_name(f"{path.name}-journal")
    for file in (path, journal):
        if file.is_symlink():
            raise UserError(f"{file} is a link, which no run makes; remove it")
    if not journal.is_file():
        return
    with journal.open("rb") as content:
        size = content.seek(0, os.SEEK_END)
        content.seek(max(0, size - len(_SUPER_JOURNAL)))
        if content.read() == _SUPER_JOURNAL:
            raise UserError(f"{journal} names a file that SQLite would delete, which no run writes; remove the journal")
