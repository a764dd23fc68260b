"""Digests of promoted versions.

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the column; the version before leaves it empty."""
    op.add_column("promotions", sa.Column("digest", sa.String(100), nullable=False, server_default=""))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("promotions", "digest")
