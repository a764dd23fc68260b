"""Names of the samples' files in their index, which is made anew from the runs.

Revision ID: 0016
Revises: 0015
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Add the column; the index of samples is emptied, and the next indexing fills it."""
    op.execute(sa.text("DELETE FROM sample_places"))
    op.execute(sa.text("DELETE FROM sample_files"))
    with op.batch_alter_table("sample_places") as places:
        places.add_column(sa.Column("file_name", sa.String(200), nullable=False))
