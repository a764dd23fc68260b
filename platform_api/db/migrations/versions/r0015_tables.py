"""Tables of the first release; the revisions before it were never released, and are refused.

Revision ID: 0015
Revises:
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
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
    op.create_index(op.f("ix_changes_action"), "changes", ["action"])
    op.create_index(op.f("ix_changes_subject"), "changes", ["subject"])
    op.create_table(
        "choices",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(10), nullable=False),
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
        sa.PrimaryKeyConstraint("id", name=op.f("pk_choices")),
        sa.UniqueConstraint("run", "kind", "first", "second", "item", "rater", name=op.f("uq_choices_run")),
    )
    op.create_table(
        "keyed_answers",
        sa.Column("who", sa.String(100), nullable=False),
        sa.Column("key", sa.String(200), nullable=False),
        sa.Column("request", sa.String(64), nullable=False),
        sa.Column("status", sa.Integer()),
        sa.Column("body", sa.Text()),
        sa.Column("location", sa.Text()),
        sa.Column("claim", sa.String(32), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("who", "key", name=op.f("pk_keyed_answers")),
    )
    op.create_index(op.f("ix_keyed_answers_created_at"), "keyed_answers", ["created_at"])
    op.create_table(
        "labels",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run", sa.String(200), nullable=False),
        sa.Column("stage", sa.String(100), nullable=False),
        sa.Column("step", sa.Integer()),
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
        "promotions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(100), nullable=False),
        sa.Column("run", sa.String(200)),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("champion", sa.Integer()),
        sa.Column("gate", sa.Text(), nullable=False),
        sa.Column("findings", sa.JSON(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("requested_by", sa.String(100), nullable=False),
        sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("decided_by", sa.String(100)),
        sa.Column("decided_at", sa.DateTime(timezone=True)),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("confirmed_by", sa.String(100)),
        sa.Column("confirmed_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_promotions")),
    )
    op.create_index(op.f("ix_promotions_model"), "promotions", ["model"])
    op.create_index(op.f("ix_promotions_state"), "promotions", ["state"])
    op.create_index(
        "uq_promotions_applying",
        "promotions",
        ["model"],
        unique=True,
        sqlite_where=sa.text("state = 'applying'"),
        postgresql_where=sa.text("state = 'applying'"),
    )
    op.create_index(
        "uq_promotions_open",
        "promotions",
        ["model"],
        unique=True,
        sqlite_where=sa.text("kind = 'promotion' AND state IN ('requested', 'applying')"),
        postgresql_where=sa.text("kind = 'promotion' AND state IN ('requested', 'applying')"),
    )
    op.create_table(
        "rubric_criteria",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("names", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_rubric_criteria")),
    )
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
        sa.Column("reviewed_by", sa.String(100)),
        sa.Column("reviewed_at", sa.DateTime(timezone=True)),
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
        sa.Column("progress", sa.JSON(), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("fault", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_runs")),
    )
    op.create_index("ix_runs_changed_name", "runs", ["changed", "name"])
    op.create_index(op.f("ix_runs_recipe"), "runs", ["recipe"])
    op.create_index(op.f("ix_runs_state"), "runs", ["state"])
    op.create_table(
        "sample_files",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run", sa.String(200), nullable=False),
        sa.Column("path", sa.String(300), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("modified", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sample_files")),
        sa.UniqueConstraint("run", "path", name=op.f("uq_sample_files_run")),
    )
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
        "submissions",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("run", sa.String(100), nullable=False),
        sa.Column("place", sa.String(20), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("recipe", sa.Text(), nullable=False),
        sa.Column("overrides", sa.JSON(), nullable=False),
        sa.Column("arm", sa.String(100)),
        sa.Column("service", sa.String(100), nullable=False),
        sa.Column("submitted_by", sa.String(100), nullable=False),
        sa.Column("submitted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("page", sa.Text(), nullable=False),
        sa.Column("request", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_submissions")),
        sa.UniqueConstraint("run", name=op.f("uq_submissions_run")),
    )
    op.create_index(op.f("ix_submissions_state"), "submissions", ["state"])
    op.create_index("uq_submissions_request", "submissions", ["request"], unique=True)
    op.create_table(
        "tokens",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("scope", sa.String(20), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.String(100), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True)),
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
        "deliveries",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("promotion_id", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True)),
        sa.Column("delivered_at", sa.DateTime(timezone=True)),
        sa.Column("error", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["promotion_id"], ["promotions.id"], name=op.f("fk_deliveries_promotion_id_promotions")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deliveries")),
    )
    op.create_index(op.f("ix_deliveries_due_at"), "deliveries", ["due_at"])
    op.create_index(op.f("ix_deliveries_promotion_id"), "deliveries", ["promotion_id"])
    op.create_table(
        "rollouts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("shard_id", sa.Integer(), nullable=False),
        sa.Column("row", sa.Integer(), nullable=False),
        sa.Column("run", sa.String(200), nullable=False),
        sa.Column("stage", sa.String(100), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("sample_id", sa.String(200), nullable=False),
        sa.Column("reward", sa.Double()),
        sa.Column("advantage", sa.Double()),
        sa.Column("credits", sa.JSON()),
        sa.Column("criteria", sa.String(64)),
        sa.ForeignKeyConstraint(
            ["shard_id"], ["shards.id"], name=op.f("fk_rollouts_shard_id_shards"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rollouts")),
    )
    op.create_index("ix_rollouts_place", "rollouts", ["run", "stage", "step", "sample_id", "row"])
    op.create_index("ix_rollouts_sample", "rollouts", ["run", "stage", "sample_id", "step"])
    op.create_index(op.f("ix_rollouts_shard_id"), "rollouts", ["shard_id"])
    op.create_table(
        "sample_places",
        sa.Column("file_id", sa.Integer(), nullable=False),
        sa.Column("sample_id", sa.String(200), nullable=False),
        sa.Column("row_group", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["file_id"], ["sample_files.id"], name=op.f("fk_sample_places_file_id_sample_files"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("file_id", "sample_id", name=op.f("pk_sample_places")),
    )
    op.create_table(
        "sessions",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("token_id", sa.Integer(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], name=op.f("fk_sessions_token_id_tokens")),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_sessions")),
    )
    op.create_index(op.f("ix_sessions_token_id"), "sessions", ["token_id"])
    # ### end Alembic commands ###
