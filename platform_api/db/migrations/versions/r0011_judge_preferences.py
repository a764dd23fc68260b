"""Preferences between two judges' verdicts.

Revision ID: 0011
Revises: 0010
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Create the table; the version before does not ask for it."""
    op.create_table(
        "judge_preferences",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run", sa.String(200), nullable=False),
        sa.Column("first", sa.String(300), nullable=False),
        sa.Column("second", sa.String(300), nullable=False),
        sa.Column("sample_id", sa.String(200), nullable=False),
        sa.Column("response", sa.Text(), nullable=False),
        sa.Column("item", sa.String(64), nullable=False),
        sa.Column("criterion", sa.Text(), nullable=False),
        sa.Column("choice", sa.String(10), nullable=False),
        sa.Column("rater", sa.String(100), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_judge_preferences"),
        sa.UniqueConstraint("run", "first", "second", "item", "rater", name="uq_judge_preferences_run"),
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("judge_preferences")
