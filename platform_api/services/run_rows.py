"""Rows in the database to delete: all that is stored of a run, its index included, and old ones that nothing needs.

The audit log stays: it tells who changed what, by the names of runs, and has no content of theirs.
"""

from collections import Counter
from datetime import timedelta

from sqlalchemy import ColumnElement, delete, exists, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import (
    Choice,
    Delivery,
    KeyedAnswer,
    Label,
    Promotion,
    Rollout,
    RubricCriteria,
    RubricVersion,
    Run,
    RunTable,
    SampleFile,
    Session,
    Shard,
    Submission,
    Table,
    Token,
    utc_now,
)


async def delete_rows(session: AsyncSession, run: str, *, dry_run: bool) -> Counter[str]:
    """Delete the rows of a run; return their number by table.

    Args:
        dry_run: count them only.
    """
    counts: Counter[str] = Counter()
    for table, condition in _rows_of(run):
        counts[table.__tablename__] += await _delete(session, table, condition, dry_run=dry_run)
    if not dry_run:
        used = select(Rollout.criteria).where(Rollout.criteria.is_not(None))
        await session.execute(delete(RubricCriteria).where(RubricCriteria.digest.not_in(used)))
    return +counts


async def prune_rows(session: AsyncSession, older_than: timedelta, *, dry_run: bool) -> Counter[str]:
    """Delete old rows that nothing needs any more; return their number by table.

    What people made (labels, preferences, rubric versions, promotions) and the audit log stay.
    """
    end = utc_now() - older_than
    gone = select(Run.name)
    of_run = "run:" + func.substr(Run.name, 1, 60)  # as `tokens` names them
    is_over = or_(Token.revoked_at < end, Token.expires_at < end)
    conditions: list[tuple[type[Table], ColumnElement[bool]]] = [
        (Submission, (Submission.submitted_at < end) & Submission.run.not_in(gone) & (Submission.state != "starting")),
        (Delivery, (Delivery.delivered_at < end)),
        (KeyedAnswer, KeyedAnswer.created_at < end),
        (Session, Session.expires_at < utc_now()),
        # A run's token names who may not approve the run's promotion, so it stays as long as the run.
        (Token, Token.name.startswith("run:") & is_over & ~exists().where(Token.name.startswith(of_run))),
    ]
    counts: Counter[str] = Counter()
    for table, condition in conditions:
        counts[table.__tablename__] += await _delete(session, table, condition, dry_run=dry_run)
    return +counts


async def _delete(session: AsyncSession, table: type[Table], condition: ColumnElement[bool], *, dry_run: bool) -> int:
    count = await session.scalar(select(func.count()).select_from(table).where(condition)) or 0
    if count and not dry_run:
        await session.execute(delete(table).where(condition).execution_options(synchronize_session=False))
    return count


def _rows_of(run: str) -> list[tuple[type[Table], ColumnElement[bool]]]:
    """Each table with the condition of a run's rows, those that others refer to last."""
    of_promotions = select(Promotion.id).where(Promotion.run == run)
    sides = (
        Choice.first.endswith(f" in {run}", autoescape=True),
        Choice.first.contains(f" in {run}/", autoescape=True),
    )
    others = (
        Choice.second.endswith(f" in {run}", autoescape=True),
        Choice.second.contains(f" in {run}/", autoescape=True),
    )
    return [
        (Delivery, Delivery.promotion_id.in_(of_promotions)),
        (Promotion, Promotion.run == run),
        (Label, Label.run == run),
        (Choice, or_(Choice.run == run, *sides, *others)),
        (RubricVersion, RubricVersion.run == run),
        (Submission, Submission.run == run),
        (KeyedAnswer, KeyedAnswer.body.contains(f'"{run}"', autoescape=True)),
        (Shard, Shard.run == run),
        (SampleFile, SampleFile.run == run),
        (RunTable, RunTable.run == run),
        (Run, Run.name == run),
    ]
