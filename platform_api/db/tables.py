"""Tables of the platform's database: facts that no run folder has, and an index of run folders.

Rows of training stay in Parquet. `runs`, `run_tables`, `sample_files`, `sample_places`, `shards`, `rollouts`,
`criterion_credits` and `rubric_criteria` are an index of committed files and can be dropped and built again; the others
(tokens, sessions, audit log, submissions, notes and tags of runs, promotions, deliveries, rubric versions, labels,
choices) are the only copy.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    MetaData,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from rubricworks.platform_api.schemas.bodies import JsonObject

INDEX_VERSION = 1
"""Version of the rows that are indexed from a file. Raise it when they change, for they are made anew then: a column
that a migration adds to them has a default, which the version before writes.
"""
NAMES = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
"""Names of constraints, the same on SQLite and Postgres, so that migrations can drop them."""


class UtcDateTime(TypeDecorator[datetime]):
    """A time with its zone, also on SQLite, which stores none."""

    impl = DateTime(timezone=True)
    cache_ok = True
    python_type = datetime

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


def utc_now() -> datetime:
    """Time of now, with its zone."""
    return datetime.now(UTC)


class Table(DeclarativeBase):
    """Base of all tables."""

    metadata = MetaData(naming_convention=NAMES)


class Token(Table):
    """API token; only the digest of its secret is stored."""

    __tablename__ = "tokens"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(100), unique=True)
    scope: Mapped[str] = mapped_column(String(20))
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now)
    created_by: Mapped[str] = mapped_column(String(100))
    expires_at: Mapped[datetime] = mapped_column(UtcDateTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class Session(Table):
    """A browser's login with a token, or of a person, by the digest of its cookie."""

    __tablename__ = "sessions"
    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    token_id: Mapped[int | None] = mapped_column(ForeignKey("tokens.id"), index=True)
    person: Mapped[str | None] = mapped_column(String(100), index=True)
    groups: Mapped[list[str] | None] = mapped_column(JSON)
    """Groups of a person that have a role."""
    opened_at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now)
    expires_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Installation(Table):
    """The project that the database belongs to: one row, or none for an installation without a project."""

    __tablename__ = "installation"
    project: Mapped[str] = mapped_column(String(40), primary_key=True)


class Change(Table):
    """One change, as the audit log has it."""

    __tablename__ = "changes"
    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now)
    who: Mapped[str] = mapped_column(String(100))
    action: Mapped[str] = mapped_column(String(50), index=True)
    subject: Mapped[str] = mapped_column(String(300), index=True)
    details: Mapped[JsonObject] = mapped_column(JSON, default=dict)


class KeyedAnswer(Table):
    """The answer to a POST with an idempotency key; the same request again gets it again."""

    __tablename__ = "keyed_answers"
    who: Mapped[str] = mapped_column(String(100), primary_key=True)
    key: Mapped[str] = mapped_column(String(200), primary_key=True)
    request: Mapped[str] = mapped_column(String(64))
    """Digest of method, path and body."""
    status: Mapped[int | None]
    """None while the first request is being answered."""
    body: Mapped[str | None] = mapped_column(Text)
    location: Mapped[str | None] = mapped_column(Text)
    """Page that the answer to a form leads to."""
    claim: Mapped[str] = mapped_column(String(32))
    """Attempt that is being answered; another one has taken its place if it is not this one."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now, index=True)
    """Time of the claim, which is renewed."""


class Run(Table):
    """Index of a run's record."""

    __tablename__ = "runs"
    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    state: Mapped[str] = mapped_column(String(20))
    """State of its record; `starting` or `queued` before its first file."""
    recipe: Mapped[str] = mapped_column(String(200))
    pipeline: Mapped[str] = mapped_column(String(100))
    started: Mapped[datetime] = mapped_column(UtcDateTime)
    changed: Mapped[datetime] = mapped_column(UtcDateTime)
    bytes: Mapped[int] = mapped_column(BigInteger)
    message: Mapped[str] = mapped_column(Text)
    stages: Mapped[list[JsonObject]] = mapped_column(JSON)
    progress: Mapped[list[JsonObject]] = mapped_column(JSON)
    """Stages at work, as `StageAtWork`."""
    simulated: Mapped[bool]
    """True if the scene world replaced images or models."""
    fault: Mapped[str] = mapped_column(Text, default="")
    """Files that cannot be read, and what to do."""
    reward: Mapped[float | None]
    """Mean reward of the last steps of its last training."""
    win_rate: Mapped[float | None]
    win_low: Mapped[float | None]
    """Low end of the win rate's interval."""
    win_high: Mapped[float | None]
    dollars: Mapped[float | None]
    """Spent on calls so far."""
    seconds: Mapped[float | None]
    """Time of its stages."""
    model: Mapped[str | None] = mapped_column(String(200), index=True)
    """Name under which it registered its model."""
    version: Mapped[int | None]
    champion: Mapped[str | None] = mapped_column(String(220))
    """Model and version if it is the champion, as last read from the registry."""
    owner: Mapped[str | None] = mapped_column(String(100))
    """Submitter, copied from `submissions`."""
    tags: Mapped[str | None] = mapped_column(Text)
    """Tags separated by commas, copied from `run_tags`."""
    __table_args__ = (
        Index("ix_runs_changed_name", "changed", "name"),
        Index("ix_runs_state", "state"),  # for counts: a third of the width of the one below
        # One for each column that lists are sorted by: among equal values, the last changed comes first.
        *(
            Index(f"ix_runs_by_{name}", name, "changed", "name")
            for name in ("state", "recipe", "pipeline", "started", "reward", "win_rate", "dollars", "seconds")
        ),
        *(Index(f"ix_runs_by_{name}", name, "changed", "name") for name in ("champion", "owner", "tags")),
    )


class RunNote(Table):
    """Notes and tags of a run."""

    __tablename__ = "run_notes"
    run: Mapped[str] = mapped_column(String(200), primary_key=True)
    note: Mapped[str] = mapped_column(Text)
    at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now)
    by: Mapped[str] = mapped_column(String(100))


class RunTag(Table):
    """A tag of a run."""

    __tablename__ = "run_tags"
    tag: Mapped[str] = mapped_column(String(50), primary_key=True)
    run: Mapped[str] = mapped_column(String(200), primary_key=True, index=True)


class RunTable(Table):
    """Index of a finished table of a run, by its manifest."""

    __tablename__ = "run_tables"
    run: Mapped[str] = mapped_column(String(200), primary_key=True)
    path: Mapped[str] = mapped_column(String(300), primary_key=True)
    """Folder below the run's."""
    kind: Mapped[str] = mapped_column(String(100))
    """Name of its schema."""
    rows: Mapped[int]
    shards: Mapped[list[JsonObject]] = mapped_column(JSON)
    """Name, number of rows and digest of each file."""
    modified: Mapped[datetime] = mapped_column(UtcDateTime)
    __table_args__ = (Index("ix_run_tables_kind", "kind", "modified", "run", "path"),)


class SampleFile(Table):
    """A committed file of samples whose places are indexed."""

    __tablename__ = "sample_files"
    index_version: Mapped[int] = mapped_column(default=INDEX_VERSION, server_default="0")
    id: Mapped[int] = mapped_column(primary_key=True)
    run: Mapped[str] = mapped_column(String(200))
    path: Mapped[str] = mapped_column(String(300))
    """Path below the run's folder."""
    size: Mapped[int] = mapped_column(BigInteger)
    modified: Mapped[datetime] = mapped_column(UtcDateTime)
    __table_args__ = (UniqueConstraint("run", "path"),)


class SamplePlace(Table):
    """Index of a sample: the row group of its file that holds it, so that a page reads that one alone."""

    __tablename__ = "sample_places"
    file_id: Mapped[int] = mapped_column(ForeignKey("sample_files.id", ondelete="CASCADE"), primary_key=True)
    sample_id: Mapped[str] = mapped_column(String(200), primary_key=True)
    row_group: Mapped[int]
    file_name: Mapped[str] = mapped_column(String(200), server_default="")


class Shard(Table):
    """A committed shard of a table whose rows are indexed."""

    __tablename__ = "shards"
    index_version: Mapped[int] = mapped_column(default=INDEX_VERSION, server_default="0")
    id: Mapped[int] = mapped_column(primary_key=True)
    run: Mapped[str] = mapped_column(String(200))
    stage: Mapped[str] = mapped_column(String(100))
    number: Mapped[int]
    rows: Mapped[int]
    size: Mapped[int] = mapped_column(BigInteger)
    modified: Mapped[datetime] = mapped_column(UtcDateTime)
    __table_args__ = (UniqueConstraint("run", "stage", "number"),)


class Rollout(Table):
    """Index of a rollout: its place in the shard, its numbers, and the credit of each criterion."""

    __tablename__ = "rollouts"
    id: Mapped[int] = mapped_column(primary_key=True)
    shard_id: Mapped[int] = mapped_column(ForeignKey("shards.id", ondelete="CASCADE"))
    row: Mapped[int]
    run: Mapped[str] = mapped_column(String(200))
    stage: Mapped[str] = mapped_column(String(100))
    step: Mapped[int]
    sample_id: Mapped[str] = mapped_column(String(200))
    reward: Mapped[float | None]
    advantage: Mapped[float | None]
    credits: Mapped[list[float | None] | None] = mapped_column(JSON)
    """In the order of the criteria that `criteria` has; None where nothing was graded."""
    criteria: Mapped[str | None] = mapped_column(String(64))
    tokens: Mapped[int] = mapped_column(server_default="0")
    __table_args__ = (
        Index("ix_rollouts_shard", "shard_id", "row"),
        Index("ix_rollouts_reward", "run", "stage", "reward", "id"),
        Index("ix_rollouts_place", "run", "stage", "step", "sample_id", "row"),
        Index("ix_rollouts_sample", "run", "stage", "sample_id", "step"),
    )


class CriterionCredits(Table):
    """Credits of one criterion in one shard, summed, so that a page needs no row of a rollout."""

    __tablename__ = "criterion_credits"
    shard_id: Mapped[int] = mapped_column(ForeignKey("shards.id", ondelete="CASCADE"), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    criterion: Mapped[str] = mapped_column(Text)
    graded: Mapped[int]
    total: Mapped[float]
    squares: Mapped[float]
    lowest: Mapped[float]
    highest: Mapped[float]


class RubricCriteria(Table):
    """Names of a rubric's criteria, by their digest."""

    __tablename__ = "rubric_criteria"
    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    names: Mapped[list[str]] = mapped_column(JSON)


class Submission(Table):
    """A run that was submitted to the service."""

    __tablename__ = "submissions"
    number: Mapped[int] = mapped_column(primary_key=True)
    run: Mapped[str] = mapped_column(String(100), unique=True)
    place: Mapped[str] = mapped_column(String(20))
    """`here`, or `kubeflow`."""
    state: Mapped[str] = mapped_column(String(20), index=True)
    recipe: Mapped[str] = mapped_column(Text)
    """The text, as it was submitted."""
    overrides: Mapped[list[str]] = mapped_column(JSON, default=list)
    """Changed fields, as `policy.algorithm.steps=50`."""
    arm: Mapped[str | None] = mapped_column(String(100))
    service: Mapped[str] = mapped_column(String(100))
    """The process that took the name."""
    submitted_by: Mapped[str] = mapped_column(String(100))
    submitted_at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now)
    ended_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    message: Mapped[str] = mapped_column(Text, default="")
    page: Mapped[str] = mapped_column(Text, default="")
    request: Mapped[str] = mapped_column(String(64))
    """Name of the request, by which a repeated request finds the run."""
    __table_args__ = (Index("uq_submissions_request", "request", unique=True),)


_IS_OPEN_REQUEST = "kind = 'promotion' AND state IN ('requested', 'applying')"


class Promotion(Table):
    """A decision about one version of a registered model, from the request to the consumer's confirmation."""

    __tablename__ = "promotions"
    id: Mapped[int] = mapped_column(primary_key=True)
    model: Mapped[str] = mapped_column(String(200), index=True)
    version: Mapped[int]
    digest: Mapped[str] = mapped_column(String(100), default="")
    """Digest of its files, as the registry had it at the request."""
    run: Mapped[str | None] = mapped_column(String(200))
    """Run that registered it; None without such a tag."""
    kind: Mapped[str] = mapped_column(String(20))
    """`promotion`, or `rollback` to the champion before."""
    champion: Mapped[int | None]
    """Champion at the time of the request; the alias moves only from this version."""
    gate: Mapped[str] = mapped_column(Text)
    """Result of the gate, as the run's promote stage wrote it."""
    findings: Mapped[list[JsonObject]] = mapped_column(JSON, default=list)
    """Result of each rule of the gate, as `GateFinding`."""
    reason: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(String(20), index=True)
    requested_by: Mapped[str] = mapped_column(String(100))
    requested_at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now)
    decided_by: Mapped[str | None] = mapped_column(String(100))
    decided_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    decision: Mapped[str] = mapped_column(Text, default="")
    """Reason of the decision, or of a failure."""
    confirmed_by: Mapped[str | None] = mapped_column(String(100))
    confirmed_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    __table_args__ = (
        # One alias moves at a time: of two decisions on a model at once, the second cannot enter this state.
        Index(
            "uq_promotions_applying",
            "model",
            unique=True,
            sqlite_where=text("state = 'applying'"),
            postgresql_where=text("state = 'applying'"),
        ),
        # Of two requests for a model at once, the second is refused.
        Index(
            "uq_promotions_open",
            "model",
            unique=True,
            sqlite_where=text(_IS_OPEN_REQUEST),
            postgresql_where=text(_IS_OPEN_REQUEST),
        ),
    )


class Delivery(Table):
    """A webhook's message about a promotion, sent until it is received."""

    __tablename__ = "deliveries"
    id: Mapped[int] = mapped_column(primary_key=True)
    promotion_id: Mapped[int] = mapped_column(ForeignKey("promotions.id"), index=True)
    body: Mapped[str] = mapped_column(Text)
    attempts: Mapped[int] = mapped_column(default=0)
    due_at: Mapped[datetime | None] = mapped_column(UtcDateTime, default=utc_now, index=True)
    """None once it is delivered or given up."""
    delivered_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    error: Mapped[str] = mapped_column(Text, default="")


class RubricVersion(Table):
    """An edited rubric of one sample; version 1, written by the stage, is not stored here."""

    __tablename__ = "rubric_versions"
    id: Mapped[int] = mapped_column(primary_key=True)
    run: Mapped[str] = mapped_column(String(200))
    stage: Mapped[str] = mapped_column(String(100))
    sample_id: Mapped[str] = mapped_column(String(200))
    number: Mapped[int]
    replaces: Mapped[int]
    """Version that it was made from, the only one that it replaces."""
    rubric: Mapped[JsonObject] = mapped_column(JSON)
    reason: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(String(20), index=True)
    proposed_by: Mapped[str] = mapped_column(String(100))
    proposed_at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now)
    reviewed_by: Mapped[str | None] = mapped_column(String(100))
    reviewed_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    review: Mapped[str] = mapped_column(Text, default="")
    """Reason of the decision."""
    __table_args__ = (
        UniqueConstraint("run", "stage", "sample_id", "number"),
        # Of two reviews at once of versions made from the same one, the second is refused.
        Index(
            "uq_rubric_versions_approved",
            *("run", "stage", "sample_id", "replaces"),
            unique=True,
            sqlite_where=text("state = 'approved'"),
            postgresql_where=text("state = 'approved'"),
        ),
    )


class Label(Table):
    """A person's credit for one criterion on one response."""

    __tablename__ = "labels"
    id: Mapped[int] = mapped_column(primary_key=True)
    run: Mapped[str] = mapped_column(String(200))
    stage: Mapped[str] = mapped_column(String(100))
    step: Mapped[int | None]
    """None if it came in a file."""
    sample_id: Mapped[str] = mapped_column(String(200))
    response: Mapped[str] = mapped_column(Text)
    item: Mapped[str] = mapped_column(String(64))
    """Digest of sample, response and criterion."""
    criterion: Mapped[str] = mapped_column(Text)
    credit: Mapped[float]
    rater: Mapped[str] = mapped_column(String(100))
    at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now)
    __table_args__ = (UniqueConstraint("run", "stage", "rater", "item"),)


class Choice(Table):
    """A person's choice between two models' responses, or two judges' verdicts, made without their names."""

    __tablename__ = "choices"
    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(String(10))
    """`models` or `judges`."""
    run: Mapped[str] = mapped_column(String(200))
    """Run on whose page it was made."""
    first: Mapped[str] = mapped_column(String(300))
    """A model, or `JUDGE in RUN/STAGE`."""
    second: Mapped[str] = mapped_column(String(300))
    sample_id: Mapped[str] = mapped_column(String(200))
    response: Mapped[str] = mapped_column(Text)
    """Text, or an image's digest, that two judges judged; empty for a choice between models."""
    item: Mapped[str] = mapped_column(String(64))
    """Digest of sample, response and criterion, as of a label."""
    criterion: Mapped[str] = mapped_column(Text)
    """Empty for the whole scorecard, and for a choice between models."""
    choice: Mapped[str] = mapped_column(String(10))
    """`first` or `second`; neither side of models is `equal`, of judges `both` or `neither`."""
    rater: Mapped[str] = mapped_column(String(100))
    at: Mapped[datetime] = mapped_column(UtcDateTime, default=utc_now)
    __table_args__ = (UniqueConstraint("run", "kind", "first", "second", "item", "rater"),)
