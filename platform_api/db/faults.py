"""Faults of a database in words: its disk is full, its file is damaged, another process writes to it.

SQLite tells them apart by its result codes (https://sqlite.org/rescode.html), Postgres by SQLSTATE.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import URL, make_url
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnection

from rubricworks.errors import UserError
from rubricworks.redaction import redact


class Fault(NamedTuple):
    """Fault of a database, with its remedy."""

    problem: str
    remedy: str
    """Remedy for the operator; empty if only the reason has it."""
    retry_seconds: int | None = 2
    """Seconds after which a request may be repeated; None if that does not help."""

    def line(self, reason: str) -> str:
        """The fault on one line, for the server's operators.

        Args: reason: the database's own message.
        """
        return f"{self.problem} ({reason}){f': {self.remedy}' if self.remedy else ''}"


_FULL = Fault("the disk of the database is full", "make room on it; nothing is written until then", 60)
DAMAGED = Fault(
    "the database is damaged",
    "stop the server, then put a copy back or move the file away with its -wal and -shm: the next start makes a new "
    "one and indexes the runs again, without tokens, labels, edited rubrics and the audit log; `sqlite3 FILE .recover` "
    "may save those",
    None,
)
DAMAGED_SERVER = DAMAGED._replace(remedy="restore it from a backup; Postgres' own log names the file")
_UNREADABLE = Fault("the disk of the database cannot be read or written", "look at the disk and its mount")
_READ_ONLY = Fault("the database cannot be written", "let the server write to it; a full disk may have made it so", 60)
_BUSY = Fault("another process writes to the database", "let one server alone use a file, or several use Postgres")
_CROWDED = Fault("the database takes no more connections", "raise its max_connections, or run fewer servers")
_ALL_IN_USE = Fault("all connections to the database are in use", "")
_AWAY = Fault("the database does not answer", "")
_OF_SQLITE = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: DAMAGED,
    sqlite3.SQLITE_IOERR: _UNREADABLE,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
}
_OF_POSTGRES = {
    "53100": _FULL,
    "XX001": DAMAGED_SERVER,
    "XX002": DAMAGED_SERVER,
    "58030": _UNREADABLE,
    "25006": _READ_ONLY,
    "53300": _CROWDED,
}


def fault_of(error: BaseException) -> Fault | None:
    """The fault of the database behind an error; None if it is the statement's."""
    if isinstance(error, NoConnection):
        return _ALL_IN_USE
    cause = error.orig if isinstance(error, DBAPIError) else error
    code = getattr(cause, "sqlite_errorcode", None)
    if isinstance(code, int) and code & 0xFF in _OF_SQLITE:  # the low byte; the others say more
        return _OF_SQLITE[code & 0xFF]
    if (state := getattr(cause, "sqlstate", None)) in _OF_POSTGRES:
        return _OF_POSTGRES[state]
    return _AWAY if isinstance(error, OperationalError) else None


def describe_fault(error: BaseException) -> str:
    """One line for the log about an error, without what was asked of the database."""
    fault = fault_of(error)
    return type(error).__name__ if fault is None else fault.line(reason_of(error))


def reason_of(error: BaseException) -> str:
    """First line of the database's own error message."""
    first_line, *_ = str(getattr(error, "orig", None) or error).strip().splitlines() or [type(error).__name__]
    return redact(first_line)


def to_user_error(error: BaseException, url: URL) -> UserError:
    """One line about a database that cannot be used, for a command's user."""
    fault = fault_of(error)
    advice = f"; {fault.remedy}" if fault and fault.remedy else ""
    place = url.render_as_string(hide_password=True)
    return UserError(f"the database {place} cannot be opened: {reason_of(error)}{advice}")


def database_file(url: str) -> Path | None:
    """The file of a database; None for Postgres, and for one in memory."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or parsed.database in (None, "", ":memory:"):
        return None
    return Path(str(parsed.database)).absolute()


def check_database_file(path: Path) -> None:
    """Check that a database's file is whole, which takes two seconds for a gigabyte.

    Raises:
        UserError: it is damaged, or no database.
    """
    if not path.is_file():
        return
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True)) as connection:
            (answer,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        if fault_of(error) is not DAMAGED:  # of another fault, such as a full disk, /readyz tells
            return
        answer = reason_of(error)
    if answer != "ok":
        raise UserError(f"{path}: {DAMAGED.line(' '.join(answer.split()))}")
