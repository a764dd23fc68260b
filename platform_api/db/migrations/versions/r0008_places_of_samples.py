"""Places of samples in the files of runs.

Revision ID: 0008
Revises: 0007
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "sample_files",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run", sa.String(200), nullable=False),
        sa.Column("path", sa.String(300), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("modified", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_sample_files"),
        sa.UniqueConstraint("run", "path", name="uq_sample_files_run"),
    )
    op.create_table(
        "sample_places",
        sa.Column("file_id", sa.Integer(), nullable=False),
        sa.Column("sample_id", sa.String(200), nullable=False),
        sa.Column("row_group", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["file_id"], ["sample_files.id"], name="fk_sample_places_file_id_sample_files", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("file_id", "sample_id", name="pk_sample_places"),
    )


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("sample_places")
    op.drop_table("sample_files")
