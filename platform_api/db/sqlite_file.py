"""Whether a database's file is whole, asked before a server works on it."""

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import make_url

from rubricworks.errors import UserError
from rubricworks.platform_api.db.faults import DAMAGED, fault_of, reason_of


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
