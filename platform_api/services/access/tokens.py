"""API tokens and the sessions of browsers that logged in with one.

A secret is 32 random bytes, so its SHA-256 needs no salt; the database never has the secret itself.
"""

import contextlib
import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import Session, Token, utc_now
from rubricworks.platform_api.problems import BadRequest, Conflict, NotFound
from rubricworks.platform_api.services.access.audit_log import record
from rubricworks.platform_api.services.access.principals import LONGEST_NAME, NAME_PATTERN, OWN_NAMES, SCOPES, Principal

PREFIX = "rw_"
"""Beginning of every token, by which scanners of secrets know it."""
SESSION_HOURS = 12
RUN_TOKEN_PREFIX = "run:"
"""Beginning of the names of submitted runs' tokens; people's tokens have no colon."""


async def create_token(session: AsyncSession, by: Principal, name: str, scope: str, days: int) -> tuple[Token, str]:
    """Create a token; return it with its secret, which is not stored.

    Raises:
        BadRequest: a name that no token may have, unknown scope, or a lifetime that is not between 1 and 366 days.
        Conflict: the name is taken, also by a revoked token, since the audit log speaks of tokens by name.
    """
    if not re.fullmatch(NAME_PATTERN, name) or len(name) > LONGEST_NAME:
        raise BadRequest(
            f"name {name!r}: write at most {LONGEST_NAME} letters, digits and @._-, a letter or a digit first"
        )
    if name.lower() in OWN_NAMES:
        raise BadRequest(f"name {name!r}: the audit log has it for a caller without a token; choose another one")
    return await add_token(session, by, name, scope, days)


async def add_token(session: AsyncSession, by: Principal, name: str, scope: str, days: int) -> tuple[Token, str]:
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


async def list_tokens(
    session: AsyncSession, *, before: int | None = None, limit: int | None = None, with_runs: bool = True
) -> Sequence[Token]:
    """Tokens, the newest first; all of them without a limit.

    Args:
        with_runs: whether tokens of submitted runs are among them.
    """
    query = select(Token).order_by(Token.id.desc()).limit(limit)
    if not with_runs:
        query = query.where(Token.name.not_like(f"{RUN_TOKEN_PREFIX}%"))
    if before is not None:
        query = query.where(Token.id < before)
    return (await session.scalars(query)).all()


async def revoke_token(session: AsyncSession, by: Principal, name: str) -> Token:
    """Revoke a token and end its sessions; a revoked one stays as it is.

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
    return _principal(await session.scalar(select(Token).where(Token.digest == digest_of(secret))))


async def open_session(session: AsyncSession, principal: Principal, secret: str, key: str) -> str:
    """Begin a browser's session; return the value of its cookie.

    Args:
        secret: the token's.
        key: idempotency key of the login; the same login again gets the same cookie, though no database has it.
    """
    cookie = hmac.new(secret.encode(), key.encode(), hashlib.sha256).hexdigest()
    expires = utc_now() + timedelta(hours=SESSION_HOURS)
    await session.execute(delete(Session).where(Session.expires_at < utc_now()))
    if await session.get(Session, digest_of(cookie)) is None:
        with contextlib.suppress(IntegrityError):  # the same login, at the same moment
            async with session.begin_nested():
                session.add(Session(digest=digest_of(cookie), token_id=principal.token_id, expires_at=expires))
    return cookie


async def close_session(session: AsyncSession, cookie: str) -> None:
    """End a browser's session."""
    await session.execute(delete(Session).where(Session.digest == digest_of(cookie)))


async def principal_of_session(session: AsyncSession, cookie: str) -> Principal | None:
    """Principal of a session that has not ended, and whose token is still valid."""
    query = (
        select(Token)
        .join(Session, Session.token_id == Token.id)
        .where(Session.digest == digest_of(cookie), Session.expires_at > utc_now())
    )
    return _principal(await session.scalar(query))


def digest_of(secret: str) -> str:
    """Digest by which a secret is stored."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _principal(token: Token | None) -> Principal | None:
    if token is None or token.revoked_at is not None or token.expires_at <= utc_now():
        return None
    return Principal(token.name, token.scope, token.id)
