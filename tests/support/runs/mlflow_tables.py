"""MLflow's tables, migrated once: a new SQLite file of a later test is a copy of the first."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rubricworks.tracking import connection


@pytest.fixture(scope="session", autouse=True)
def _migrated_once() -> Iterator[None]:
    migrate = connection._migrate
    first: list[bytes] = []

    def copy(database: Path) -> None:
        if first:
            database.write_bytes(first[0])
        else:
            migrate(database)
            first.append(database.read_bytes())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "_migrate", copy)
        yield
