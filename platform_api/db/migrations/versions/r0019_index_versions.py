"""Versions of indexed files: rows that another version of the service made are made anew, and serve until then.

Columns that came without a default get one, for the version before writes rows without them.

Revision ID: 0019
Revises: 0018
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Add the columns and the defaults."""
    for table in ("shards", "sample_files"):
        with op.batch_alter_table(table) as files:
            files.add_column(sa.Column("index_version", sa.Integer(), nullable=False, server_default="0"))
    with op.batch_alter_table("rollouts") as rollouts:
        rollouts.alter_column("tokens", existing_type=sa.Integer(), server_default="0")
    with op.batch_alter_table("sample_places") as places:
        places.alter_column("file_name", existing_type=sa.String(200), server_default="")
