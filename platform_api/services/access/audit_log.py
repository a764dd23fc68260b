"""Audit log: each change once, in the transaction that makes it."""

from collections.abc import AsyncIterator
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.db.tables import Change
from rubricworks.platform_api.pagination import PageRequest, query_page
from rubricworks.platform_api.schemas.access import ChangeBody
from rubricworks.platform_api.schemas.bodies import Page
from rubricworks.platform_api.services.access.principals import Principal

_EXPORTED_AT_ONCE = 1_000


def record(session: AsyncSession, by: Principal, action: str, subject: str, **details: Any) -> None:
    """Add a change to the log."""
    session.add(Change(who=by.name, action=action, subject=subject, details=details))


async def list_changes(
    session: AsyncSession, asked: PageRequest, *, action: str | None = None, subject: str | None = None
) -> Page[ChangeBody]:
    """Changes, the newest first."""
    query = select(Change)
    if action is not None:
        query = query.where(Change.action == action)
    if subject is not None:
        query = query.where(Change.subject == subject)
    return await query_page(session, query, (Change.id,), asked, ChangeBody.model_validate)


async def export_changes(database: Database, after: int) -> AsyncIterator[str]:
    """Every change after one, the oldest first, each a line of JSON; the next export begins after the last `id`."""
    while True:
        async with database.session() as session:  # a caller who reads slowly keeps no connection
            query = select(Change).where(Change.id > after).order_by(Change.id).limit(_EXPORTED_AT_ONCE)
            changes = [ChangeBody.model_validate(change) for change in await session.scalars(query)]
        for change in changes:
            yield change.model_dump_json() + "\n"
        if len(changes) < _EXPORTED_AT_ONCE:
            return
        after = changes[-1].id
