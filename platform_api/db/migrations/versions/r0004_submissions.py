"""Submitted runs.

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "submissions",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("run", sa.String(100), nullable=False),
        sa.Column("place", sa.String(20), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("recipe", sa.Text(), nullable=False),
        sa.Column("service", sa.String(100), nullable=False),
        sa.Column("submitted_by", sa.String(100), nullable=False),
        sa.Column("submitted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("page", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_submissions")),
        sa.UniqueConstraint("run", name=op.f("uq_submissions_run")),
    )
    op.create_index(op.f("ix_submissions_state"), "submissions", ["state"])


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("submissions")
