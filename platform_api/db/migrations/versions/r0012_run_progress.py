"""Progress of the stages at work of each run.

Revision ID: 0012
Revises: 0011
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Add the column; the version before leaves it empty."""
    op.add_column("runs", sa.Column("progress", sa.JSON(), nullable=True))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("runs", "progress")
