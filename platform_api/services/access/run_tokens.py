"""Tokens of submitted runs: each run's process calls this service as a runner, to request its promotion, until it ends.

A colon keeps their names apart from those that people choose, which have none.
"""

import secrets

from sqlalchemy import or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import Token
from rubricworks.platform_api.services.access.principals import Principal
from rubricworks.platform_api.services.access.tokens import RUN_TOKEN_PREFIX, add_token, digest_of, revoke_token

_DAYS = 30
_SERVICE = Principal("service", "admin")


async def create_run_token(session: AsyncSession, by: Principal, run: str) -> str:
    """Create a token for a run's process; return its secret."""
    _, secret = await add_token(session, by, _prefix(run) + secrets.token_hex(4), "runner", _DAYS)
    return secret


async def revoke_run_tokens(session: AsyncSession, run: str) -> None:
    """Revoke every token of a run that has ended."""
    query = select(Token.name).where(Token.name.startswith(_prefix(run), autoescape=True), Token.revoked_at.is_(None))
    for name in (await session.scalars(query)).all():
        await revoke_token(session, _SERVICE, name)


async def submitters_of(session: AsyncSession, name: str) -> set[str]:
    """Return who submitted or resumed the run that a token is of, and the runs that led to it; empty for other names.

    A run that is resumed gets a new token, made by whoever resumed it; who submitted it stands in the one before. A run
    may be submitted with the token of another run.
    """
    people: set[str] = set()
    names = {name}
    while runs := {one.rpartition(":")[0] + ":" for one in names if one.startswith(RUN_TOKEN_PREFIX)}:
        is_of_run = or_(*(Token.name.startswith(run, autoescape=True) for run in runs))
        names = set(await session.scalars(select(Token.created_by).where(is_of_run).distinct())) - people
        people |= names
    return people


def _prefix(run: str) -> str:
    """Beginning of the names of a run's tokens, which a column of 100 characters holds."""
    return f"{RUN_TOKEN_PREFIX}{run[:60]}:{digest_of(run)[:12]}:"
