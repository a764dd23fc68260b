"""Audit log: each change once, in the transaction that makes it."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import Change
from rubricworks.platform_api.services.access.principals import Principal


def record(session: AsyncSession, by: Principal, action: str, subject: str, **details: Any) -> None:
    """Add a change to the log."""
    session.add(Change(who=by.name, action=action, subject=subject, details=details))


async def list_changes(
    session: AsyncSession, *, before: int | None, limit: int, action: str | None, subject: str | None
) -> Sequence[Change]:
    """Changes, the newest first."""
    query = select(Change).order_by(Change.id.desc()).limit(limit)
    if before is not None:
        query = query.where(Change.id < before)
    if action is not None:
        query = query.where(Change.action == action)
    if subject is not None:
        query = query.where(Change.subject == subject)
    return (await session.scalars(query)).all()
