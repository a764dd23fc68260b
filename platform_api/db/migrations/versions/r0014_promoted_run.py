"""Run that registered the version of a promotion.

Revision ID: 0014
Revises: 0013
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add the column; the version before leaves it empty."""
    op.add_column("promotions", sa.Column("run", sa.String(200), nullable=True))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("promotions", "run")
