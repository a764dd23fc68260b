"""API tokens.

A secret is 32 random bytes, so its SHA-256 needs no salt; the database never has the secret itself. A submitted run has
a token too: its process calls this service as a runner, to request its promotion, until it ends.
"""

import hashlib
import re
import secrets
from datetime import timedelta

from sqlalchemy import delete, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import Session, Token, utc_now
from rubricworks.platform_api.pagination import PageRequest, query_page
from rubricworks.platform_api.problems import BadRequest, Conflict, NotFound
from rubricworks.platform_api.schemas.access import TokenBody
from rubricworks.platform_api.schemas.bodies import Page
from rubricworks.platform_api.services.access.audit_log import record
from rubricworks.platform_api.services.access.principals import LONGEST_NAME, NAME_PATTERN, OWN_NAMES, SCOPES, Principal

PREFIX = "rw_"
"""Prefix of every token, for secret scanners."""
_RUN = "run:"
"""Beginning of the names of submitted runs' tokens; people's tokens have no colon."""
_RUN_DAYS = 30
_SERVICE = Principal("service", "admin")


async def create_token(session: AsyncSession, by: Principal, name: str, scope: str, days: int) -> tuple[Token, str]:
    """Create a token; return it with its secret, which is not stored.

    Raises:
        BadRequest: a name that no token may have, unknown scope, or a lifetime that is not between 1 and 366 days.
        Conflict: the name is taken, also by a revoked token, since the audit log speaks of tokens by name.
    """
    if not re.fullmatch(NAME_PATTERN, name) or len(name) > LONGEST_NAME:
        raise BadRequest(
            f"name {name!r}: write at most {LONGEST_NAME} letters, digits and ._-, a letter or a digit first"
        )
    if name.lower() in OWN_NAMES:
        raise BadRequest(f"name {name!r}: the audit log has it for a caller without a token; choose another one")
    return await _add_token(session, by, name, scope, days)


async def _add_token(session: AsyncSession, by: Principal, name: str, scope: str, days: int) -> tuple[Token, str]:
    """Create a token as `create_token` does, under a name that people cannot choose."""
    if scope not in SCOPES:
        raise BadRequest(f"scope {scope!r}: choose one of {', '.join(SCOPES)}")
    if not 1 <= days <= 366:
        raise BadRequest(f"days: {days} is not between 1 and 366")
    secret = PREFIX + secrets.token_urlsafe(32)
    token = Token(
        name=name,
        scope=scope,
        digest=digest_of(secret),
        created_by=by.name,
        expires_at=utc_now() + timedelta(days=days),
    )
    session.add(token)
    try:
        await session.flush()
    except IntegrityError as error:
        raise Conflict(f"there is a token named {name!r} already; names are never used again") from error
    record(session, by, "token.create", name, scope=scope, days=days)
    return token, secret


async def list_tokens(session: AsyncSession, asked: PageRequest, *, with_runs: bool = True) -> Page[TokenBody]:
    """Tokens, the newest first.

    Args:
        with_runs: whether tokens of submitted runs are among them.
    """
    query = select(Token)
    if not with_runs:
        query = query.where(Token.name.not_like(f"{_RUN}%"))
    return await query_page(session, query, (Token.id,), asked, TokenBody.model_validate)


async def revoke_token(session: AsyncSession, by: Principal, name: str) -> Token:
    """Revoke a token and end its sessions; a revoked token is left unchanged.

    Raises:
        NotFound: there is no token of that name.
    """
    token = await session.scalar(select(Token).where(Token.name == name).with_for_update())
    if token is None:
        raise NotFound(f"there is no token named {name!r}")
    if token.revoked_at is None:
        token.revoked_at = utc_now()
        await session.execute(delete(Session).where(Session.token_id == token.id))
        record(session, by, "token.revoke", name)
    return token


async def principal_of_secret(session: AsyncSession, secret: str) -> Principal | None:
    """Principal of a valid token."""
    return principal_of_token(await session.scalar(select(Token).where(Token.digest == digest_of(secret))))


async def create_run_token(session: AsyncSession, by: Principal, run: str) -> str:
    """Create a token for a run's process; return its secret."""
    _, secret = await _add_token(session, by, _prefix(run) + secrets.token_hex(4), "runner", _RUN_DAYS)
    return secret


async def revoke_run_tokens(session: AsyncSession, run: str) -> None:
    """Revoke every token of a run that has ended."""
    query = select(Token.name).where(Token.name.startswith(_prefix(run), autoescape=True), Token.revoked_at.is_(None))
    for name in (await session.scalars(query)).all():
        await revoke_token(session, _SERVICE, name)


async def submitters_of(session: AsyncSession, name: str) -> set[str]:
    """Return the submitters and resumers of a token's run and of the runs that led to it; empty for other names.

    A run that is resumed gets a new token, made by whoever resumed it; who submitted it stands in the one before. A run
    may be submitted with the token of another run.
    """
    people: set[str] = set()
    names = {name}
    while runs := {token.rpartition(":")[0] + ":" for token in names if token.startswith(_RUN)}:
        is_of_run = or_(*(Token.name.startswith(run, autoescape=True) for run in runs))
        names = set(await session.scalars(select(Token.created_by).where(is_of_run).distinct())) - people
        people |= names
    return people


def _prefix(run: str) -> str:
    """Beginning of the names of a run's tokens, which a column of 100 characters holds."""
    return f"{_RUN}{run[:60]}:{digest_of(run)[:12]}:"


def digest_of(secret: str) -> str:
    """Digest by which a secret is stored."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def principal_of_token(token: Token | None) -> Principal | None:
    """Principal of a token that is neither revoked nor expired."""
    if token is None or token.revoked_at is not None or token.expires_at <= utc_now():
        return None
    return Principal(token.name, token.scope, token.id)
