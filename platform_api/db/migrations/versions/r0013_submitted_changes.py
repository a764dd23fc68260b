"""Changes and arm with which a recipe was submitted.

Revision ID: 0013
Revises: 0012
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Add the columns; the version before leaves them empty."""
    op.add_column("submissions", sa.Column("overrides", sa.JSON(), nullable=True))
    op.add_column("submissions", sa.Column("arm", sa.String(100), nullable=True))


def downgrade() -> None:
    """Drop the columns."""
    op.drop_column("submissions", "arm")
    op.drop_column("submissions", "overrides")
