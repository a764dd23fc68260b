"""Columns by which runs and rollouts are sorted and found, and notes and tags of runs.

They are empty until the index has read the run again.

Revision ID: 0018
Revises: 0017
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
_SORTED = ("state", "recipe", "pipeline", "started", "reward", "win_rate", "dollars", "seconds")
_COPIES = ("champion", "owner", "tags")


def upgrade() -> None:
    """Add the columns with their indexes, and the tables."""
    op.drop_index("ix_runs_state", "runs")
    op.drop_index("ix_runs_recipe", "runs")
    with op.batch_alter_table("runs") as runs:
        for name in ("reward", "win_rate", "win_low", "win_high", "dollars", "seconds"):
            runs.add_column(sa.Column(name, sa.Double()))
        runs.add_column(sa.Column("model", sa.String(200)))
        runs.add_column(sa.Column("version", sa.Integer()))
        runs.add_column(sa.Column("champion", sa.String(220)))
        runs.add_column(sa.Column("owner", sa.String(100)))
        runs.add_column(sa.Column("tags", sa.Text()))
    op.create_index("ix_runs_model", "runs", ["model"])
    for name in (*_SORTED, *_COPIES):
        op.create_index(f"ix_runs_by_{name}", "runs", [name, "changed", "name"])
    op.create_table(
        "run_notes",
        sa.Column("run", sa.String(200), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("by", sa.String(100), nullable=False),
        sa.PrimaryKeyConstraint("run", name=op.f("pk_run_notes")),
    )
    op.create_table(
        "run_tags",
        sa.Column("tag", sa.String(50), nullable=False),
        sa.Column("run", sa.String(200), nullable=False),
        sa.PrimaryKeyConstraint("tag", "run", name=op.f("pk_run_tags")),
    )
    op.create_index(op.f("ix_run_tags_run"), "run_tags", ["run"])
    op.drop_index("ix_rollouts_shard_id", "rollouts")
    with op.batch_alter_table("rollouts") as rollouts:
        rollouts.add_column(sa.Column("tokens", sa.Integer(), nullable=False, server_default="0"))
    op.create_index("ix_rollouts_shard", "rollouts", ["shard_id", "row"])
    op.create_index("ix_rollouts_reward", "rollouts", ["run", "stage", "reward", "id"])
