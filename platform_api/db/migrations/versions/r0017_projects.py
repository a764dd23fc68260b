"""Sessions of people, and the project of the database.

Revision ID: 0017
Revises: 0016
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Add the columns and the table; the version before writes rows without the new columns meanwhile."""
    with op.batch_alter_table("sessions") as sessions:
        sessions.alter_column("token_id", existing_type=sa.Integer(), nullable=True)
        sessions.add_column(sa.Column("person", sa.String(100)))
        sessions.add_column(sa.Column("groups", sa.JSON()))
        sessions.add_column(
            sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now())
        )
        sessions.create_index(op.f("ix_sessions_person"), ["person"])
    op.create_table(
        "installation",
        sa.Column("project", sa.String(40), nullable=False),
        sa.PrimaryKeyConstraint("project", name=op.f("pk_installation")),
    )
