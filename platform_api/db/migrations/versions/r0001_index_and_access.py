"""Index of runs and rollouts; tokens, sessions, audit log, keyed answers.

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "changes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("who", sa.String(100), nullable=False),
        sa.Column("action", sa.String(50), nullable=False),
        sa.Column("subject", sa.String(300), nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_changes")),
    )
    op.create_index(op.f("ix_changes_action"), "changes", ["action"], unique=False)
    op.create_index(op.f("ix_changes_subject"), "changes", ["subject"], unique=False)
    op.create_table(
        "keyed_answers",
        sa.Column("who", sa.String(100), nullable=False),
        sa.Column("key", sa.String(200), nullable=False),
        sa.Column("request", sa.String(64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("body", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("who", "key", name=op.f("pk_keyed_answers")),
    )
    op.create_index(op.f("ix_keyed_answers_created_at"), "keyed_answers", ["created_at"], unique=False)
    op.create_table(
        "rubric_criteria",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("names", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_rubric_criteria")),
    )
    op.create_table(
        "runs",
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("recipe", sa.String(200), nullable=False),
        sa.Column("pipeline", sa.String(100), nullable=False),
        sa.Column("started", sa.DateTime(timezone=True), nullable=False),
        sa.Column("changed", sa.DateTime(timezone=True), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("stages", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_runs")),
    )
    op.create_index("ix_runs_changed_name", "runs", ["changed", "name"], unique=False)
    op.create_index(op.f("ix_runs_recipe"), "runs", ["recipe"], unique=False)
    op.create_index(op.f("ix_runs_state"), "runs", ["state"], unique=False)
    op.create_table(
        "shards",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run", sa.String(200), nullable=False),
        sa.Column("stage", sa.String(100), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("modified", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_shards")),
        sa.UniqueConstraint("run", "stage", "number", name=op.f("uq_shards_run")),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("scope", sa.String(20), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.String(100), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("digest", name=op.f("uq_tokens_digest")),
        sa.UniqueConstraint("name", name=op.f("uq_tokens_name")),
    )
    op.create_table(
        "criterion_credits",
        sa.Column("shard_id", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("criterion", sa.Text(), nullable=False),
        sa.Column("graded", sa.Integer(), nullable=False),
        sa.Column("total", sa.Double(), nullable=False),
        sa.Column("squares", sa.Double(), nullable=False),
        sa.Column("lowest", sa.Double(), nullable=False),
        sa.Column("highest", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["shard_id"], ["shards.id"], name=op.f("fk_criterion_credits_shard_id_shards"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("shard_id", "digest", name=op.f("pk_criterion_credits")),
    )
    op.create_table(
        "rollouts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("shard_id", sa.Integer(), nullable=False),
        sa.Column("row", sa.Integer(), nullable=False),
        sa.Column("run", sa.String(200), nullable=False),
        sa.Column("stage", sa.String(100), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("sample_id", sa.String(200), nullable=False),
        sa.Column("reward", sa.Double(), nullable=True),
        sa.Column("advantage", sa.Double(), nullable=True),
        sa.Column("credits", sa.JSON(), nullable=True),
        sa.Column("criteria", sa.String(64), nullable=True),
        sa.ForeignKeyConstraint(
            ["shard_id"], ["shards.id"], name=op.f("fk_rollouts_shard_id_shards"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rollouts")),
    )
    op.create_index("ix_rollouts_place", "rollouts", ["run", "stage", "step", "sample_id", "row"], unique=False)
    op.create_index("ix_rollouts_sample", "rollouts", ["run", "stage", "sample_id", "step"], unique=False)
    op.create_index(op.f("ix_rollouts_shard_id"), "rollouts", ["shard_id"], unique=False)
    op.create_table(
        "sessions",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("token_id", sa.Integer(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], name=op.f("fk_sessions_token_id_tokens")),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_sessions")),
    )
    op.create_index(op.f("ix_sessions_token_id"), "sessions", ["token_id"], unique=False)


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("criterion_credits")
    op.drop_index(op.f("ix_sessions_token_id"), table_name="sessions")
    op.drop_table("sessions")
    op.drop_index(op.f("ix_rollouts_shard_id"), table_name="rollouts")
    op.drop_index("ix_rollouts_sample", table_name="rollouts")
    op.drop_index("ix_rollouts_place", table_name="rollouts")
    op.drop_table("rollouts")
    op.drop_table("tokens")
    op.drop_table("shards")
    op.drop_index(op.f("ix_runs_state"), table_name="runs")
    op.drop_index(op.f("ix_runs_recipe"), table_name="runs")
    op.drop_index("ix_runs_changed_name", table_name="runs")
    op.drop_table("runs")
    op.drop_table("rubric_criteria")
    op.drop_index(op.f("ix_keyed_answers_created_at"), table_name="keyed_answers")
    op.drop_table("keyed_answers")
    op.drop_index(op.f("ix_changes_subject"), table_name="changes")
    op.drop_index(op.f("ix_changes_action"), table_name="changes")
    op.drop_table("changes")
