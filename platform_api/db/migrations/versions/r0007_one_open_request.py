"""One open request for each model.

Of the requests that stand open for a model, the one being applied or else the oldest stays; the others end as failed.
So does one that is older than a rollback of its model: it was judged against a champion that was taken back.

Revision ID: 0007
Revises: 0006
"""

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_PROMOTIONS = sa.table(
    "promotions",
    *(sa.column(name, sa.Integer()) for name in ("id", "version")),
    *(sa.column(name, sa.String()) for name in ("model", "kind", "state", "decision")),
)
_CHANGES = sa.table(
    "changes",
    sa.column("at", sa.DateTime(timezone=True)),
    *(sa.column(name, sa.String()) for name in ("who", "action", "subject")),
    sa.column("details", sa.JSON()),
)


def upgrade() -> None:
    """End the duplicates, and create the index; a duplicate that the version before inserts is refused."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute("LOCK TABLE promotions IN SHARE ROW EXCLUSIVE MODE")
    _end_duplicates(op.get_bind())
    is_open = sa.text("kind = 'promotion' AND state IN ('requested', 'applying')")
    op.create_index(
        "uq_promotions_open", "promotions", ["model"], unique=True, sqlite_where=is_open, postgresql_where=is_open
    )


def downgrade() -> None:
    """Drop the index."""
    op.drop_index("uq_promotions_open", "promotions")


def _end_duplicates(connection: sa.Connection) -> None:
    columns = _PROMOTIONS.c
    is_rollback = (columns.kind == "rollback") & columns.state.in_(("applied", "confirmed"))
    rollbacks = sa.select(columns.model, sa.func.max(columns.id)).where(is_rollback).group_by(columns.model)
    last_rollback = {model: number for model, number in connection.execute(rollbacks)}
    is_open = (columns.kind == "promotion") & columns.state.in_(("requested", "applying"))
    # `applying` sorts before `requested`.
    query = sa.select(_PROMOTIONS).where(is_open).order_by(columns.model, columns.state, columns.id)
    kept: set[str] = set()
    for row in connection.execute(query).all():
        is_older = row.state == "requested" and row.id < last_rollback.get(row.model, 0)
        if row.model not in kept and not is_older:
            kept.add(row.model)
            continue
        reason = "the champion was rolled back after this request" if is_older else "another request was open"
        connection.execute(
            sa.update(_PROMOTIONS)
            .where(columns.id == row.id)
            .values(state="failed", decision=f"{reason}; request anew")
        )
        connection.execute(
            sa.insert(_CHANGES).values(
                at=datetime.now(UTC),
                who="migration",
                action="promotion.fail",
                subject=f"{row.model}/{row.version}",
                details={"reason": reason},
            )
        )
