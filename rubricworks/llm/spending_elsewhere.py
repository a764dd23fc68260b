"""What was spent where this machine's ledger does not reach: rows of other machines, added to the file here.

A row says all that its stage has spent on a model for a purpose, so the larger of two is the later one.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from rubricworks.errors import UserError
from rubricworks.llm.spending import COUNTED, LOCK_TIMEOUT_S, TABLES

_KEY = ("stage", "purpose", "model")


def add_spending(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Bring a ledger, made if it is new, up to rows of `read_spending`; a process that spends meanwhile sees them.

    Raises:
        UserError: the ledger cannot be written, or a row is none.
    """
    places = ",".join("?" * (len(_KEY) + len(COUNTED)))
    later = ", ".join(f"{name} = excluded.{name}" for name in COUNTED)
    try:
        with closing(sqlite3.connect(path, timeout=LOCK_TIMEOUT_S, isolation_level=None)) as file:
            for table in TABLES:
                file.execute(table)
            file.execute("BEGIN IMMEDIATE")
            for row in rows:
                key = [row[name] for name in _KEY]
                file.execute(
                    f"INSERT INTO spending VALUES ({places}) ON CONFLICT (stage, purpose, model) "
                    f"DO UPDATE SET {later} WHERE excluded.calls > calls",
                    [*key, *(row[name] for name in COUNTED)],
                )
                for kind, count in row["errors"].items():
                    file.execute(
                        "INSERT INTO failures VALUES (?,?,?,?,?) ON CONFLICT (stage, purpose, model, class) "
                        "DO UPDATE SET count = excluded.count WHERE excluded.count > count",
                        [*key, kind, count],
                    )
            file.execute("COMMIT")
    except (sqlite3.Error, KeyError, TypeError) as error:
        raise UserError(f"the ledger {path} cannot be brought up to what other machines spent ({error})") from error
