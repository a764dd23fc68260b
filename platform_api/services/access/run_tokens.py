"""Tokens of submitted runs: each run's process calls this service as a runner, to request its promotion, until it ends.

A colon keeps their names apart from those that people choose, which have none.
"""

import secrets

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import Token
from rubricworks.platform_api.services.access.principals import Principal
from rubricworks.platform_api.services.access.tokens import create_token, digest_of, revoke_token

_BEGINNING = "run:"
_DAYS = 30
_SERVICE = Principal("service", "admin")


async def create_run_token(session: AsyncSession, by: Principal, run: str) -> str:
    """Create a token for a run's process; return its secret."""
    _, secret = await create_token(session, by, _prefix(run) + secrets.token_hex(4), "runner", _DAYS)
    return secret


async def revoke_run_tokens(session: AsyncSession, run: str) -> None:
    """Revoke every token of a run that has ended."""
    query = select(Token.name).where(Token.name.startswith(_prefix(run), autoescape=True), Token.revoked_at.is_(None))
    for name in (await session.scalars(query)).all():
        await revoke_token(session, _SERVICE, name)


async def submitter_of(session: AsyncSession, name: str) -> str | None:
    """Return who submitted the run that a token is of; None for the name of any other caller."""
    if not name.startswith(_BEGINNING):
        return None
    submitter: str | None = await session.scalar(select(Token.created_by).where(Token.name == name))
    return submitter


def _prefix(run: str) -> str:
    """Beginning of the names of a run's tokens, which a column of 100 characters holds."""
    return f"{_BEGINNING}{run[:60]}:{digest_of(run)[:12]}:"
