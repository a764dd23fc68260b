"""Findings of each rule of the gate.

Revision ID: 0009
Revises: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the column; the version before leaves it empty."""
    op.add_column("promotions", sa.Column("findings", sa.JSON(), nullable=False, server_default=sa.text("'[]'")))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("promotions", "findings")
