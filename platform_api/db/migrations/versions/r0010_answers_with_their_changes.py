"""Answers to forms, claims that another attempt takes over, and submissions that know their request again.

Revision ID: 0010
Revises: 0009
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add the columns; the version before leaves them empty."""
    op.add_column("keyed_answers", sa.Column("location", sa.Text(), nullable=True))
    op.add_column("keyed_answers", sa.Column("claim", sa.String(32), nullable=True))
    op.add_column("submissions", sa.Column("request", sa.String(64), nullable=True))
    op.create_index("uq_submissions_request", "submissions", ["request"], unique=True)


def downgrade() -> None:
    """Drop them."""
    op.drop_index("uq_submissions_request", "submissions")
    op.drop_column("submissions", "request")
    op.drop_column("keyed_answers", "claim")
    op.drop_column("keyed_answers", "location")
