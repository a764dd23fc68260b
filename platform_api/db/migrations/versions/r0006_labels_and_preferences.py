"""Labels and preferences of people.

Revision ID: 0006
Revises: 0005
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "labels",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run", sa.String(200), nullable=False),
        sa.Column("stage", sa.String(100), nullable=False),
        sa.Column("step", sa.Integer(), nullable=True),
        sa.Column("sample_id", sa.String(200), nullable=False),
        sa.Column("response", sa.Text(), nullable=False),
        sa.Column("item", sa.String(64), nullable=False),
        sa.Column("criterion", sa.Text(), nullable=False),
        sa.Column("credit", sa.Double(), nullable=False),
        sa.Column("rater", sa.String(100), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_labels")),
        sa.UniqueConstraint("run", "stage", "rater", "item", name=op.f("uq_labels_run")),
    )
    op.create_table(
        "preferences",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run", sa.String(200), nullable=False),
        sa.Column("first", sa.String(200), nullable=False),
        sa.Column("second", sa.String(200), nullable=False),
        sa.Column("sample_id", sa.String(200), nullable=False),
        sa.Column("choice", sa.String(10), nullable=False),
        sa.Column("rater", sa.String(100), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_preferences")),
        sa.UniqueConstraint("run", "first", "second", "sample_id", "rater", name=op.f("uq_preferences_run")),
    )


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("preferences")
    op.drop_table("labels")
