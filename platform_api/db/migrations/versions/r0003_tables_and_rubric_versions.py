"""Index of the tables of runs; edited rubrics.

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "run_tables",
        sa.Column("run", sa.String(200), nullable=False),
        sa.Column("path", sa.String(300), nullable=False),
        sa.Column("kind", sa.String(100), nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("shards", sa.JSON(), nullable=False),
        sa.Column("modified", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("run", "path", name=op.f("pk_run_tables")),
    )
    op.create_index("ix_run_tables_kind", "run_tables", ["kind", "modified", "run", "path"])
    op.create_table(
        "rubric_versions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run", sa.String(200), nullable=False),
        sa.Column("stage", sa.String(100), nullable=False),
        sa.Column("sample_id", sa.String(200), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("replaces", sa.Integer(), nullable=False),
        sa.Column("rubric", sa.JSON(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("proposed_by", sa.String(100), nullable=False),
        sa.Column("proposed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("reviewed_by", sa.String(100), nullable=True),
        sa.Column("reviewed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("review", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rubric_versions")),
        sa.UniqueConstraint("run", "stage", "sample_id", "number", name=op.f("uq_rubric_versions_run")),
    )
    op.create_index(op.f("ix_rubric_versions_state"), "rubric_versions", ["state"])
    op.create_index(
        "uq_rubric_versions_approved",
        "rubric_versions",
        ["run", "stage", "sample_id", "replaces"],
        unique=True,
        sqlite_where=sa.text("state = 'approved'"),
        postgresql_where=sa.text("state = 'approved'"),
    )


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("rubric_versions")
    op.drop_table("run_tables")
