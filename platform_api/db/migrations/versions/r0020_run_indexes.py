"""Indexes of runs: narrow ones by state, for counts, and on Postgres by the parts of their names, for searches.

Revision ID: 0020
Revises: 0019
"""

import logging

from alembic import op
from sqlalchemy.exc import DBAPIError

revision = "0020"
down_revision = "0019"
_log = logging.getLogger(__name__)


def upgrade() -> None:
    """Add them; that of names where the server has the extension pg_trgm and this role may create it."""
    op.create_index("ix_runs_state", "runs", ["state"])
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        return
    try:
        with connection.begin_nested():
            op.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
            op.execute("CREATE INDEX ix_runs_name_parts ON runs USING gin (name gin_trgm_ops)")
    except DBAPIError as error:
        _log.warning("searches for a part of a run's name read all names: %s", str(error.orig).partition("\n")[0])
