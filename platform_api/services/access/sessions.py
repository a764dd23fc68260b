"""Sessions of browsers: of a token, or of a person who logged in at the identity provider.

A session ends after its hours, at a log-out, with its token, or when an admin ends a person's. It has the groups of the
login and no rights of its own, so a change of the project's roles holds for it at once.
"""

import contextlib
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import Session, Token, utc_now
from rubricworks.platform_api.pagination import PageRequest, query_page
from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.project import Project
from rubricworks.platform_api.schemas.access import SessionBody
from rubricworks.platform_api.schemas.bodies import Page
from rubricworks.platform_api.services.access.audit_log import record
from rubricworks.platform_api.services.access.identity_provider import Identity, LoginRefused
from rubricworks.platform_api.services.access.principals import Principal
from rubricworks.platform_api.services.access.tokens import digest_of, principal_of_token

TOKEN_HOURS = 12
"""Lifetime of a session that was opened with a token."""


async def open_session(session: AsyncSession, principal: Principal, secret: str, key: str) -> str:
    """Begin a browser's session with a token; return the value of its cookie.

    Args:
        secret: the token's.
        key: idempotency key of the login; the same login again gets the same cookie, though no database has it.
    """
    cookie = hmac.new(secret.encode(), key.encode(), hashlib.sha256).hexdigest()
    expires = utc_now() + timedelta(hours=TOKEN_HOURS)
    await _delete_expired(session)
    if await session.get(Session, digest_of(cookie)) is None:
        with contextlib.suppress(IntegrityError):  # the same login, at the same moment
            async with session.begin_nested():
                session.add(Session(digest=digest_of(cookie), token_id=principal.token_id, expires_at=expires))
    return cookie


async def open_persons_session(session: AsyncSession, project: Project, identity: Identity) -> str:
    """Begin the session of a person who logged in; return the value of its cookie.

    Raises:
        LoginRefused: none of the person's groups has a role in the project.
    """
    scope = project.scope_of(identity.groups)
    if scope is None or project.login is None:
        raise LoginRefused(
            f"{identity.name} is in no group that has a role in the project {project.name}; an admin names one in "
            "`roles` of the project file, or the provider's in the claim of login.groups_claim"
        )
    await _delete_expired(session)
    cookie = secrets.token_hex(32)
    session.add(
        Session(
            digest=digest_of(cookie),
            person=identity.name,
            groups=project.known_groups(identity.groups),
            expires_at=utc_now() + timedelta(hours=project.login.session_hours),
        )
    )
    person = Principal(identity.name, scope, is_person=True)
    record(session, person, "session.open", identity.name, scope=scope, subject_id=identity.subject)
    return cookie


async def close_session(session: AsyncSession, cookies: Sequence[str]) -> None:
    """End a browser's session."""
    await session.execute(delete(Session).where(Session.digest.in_([digest_of(cookie) for cookie in cookies])))


async def end_persons_sessions(session: AsyncSession, by: Principal, person: str) -> int:
    """End all sessions of a person; return how many there were.

    Raises:
        NotFound: the person has none.
    """
    ended = (await session.scalars(delete(Session).where(Session.person == person).returning(Session.digest))).all()
    if not ended:
        raise NotFound(f"{person} has no session")
    record(session, by, "session.end", person, sessions=len(ended))
    return len(ended)


async def list_sessions(session: AsyncSession, asked: PageRequest) -> Page[SessionBody]:
    """Sessions of people, the last one to end first."""
    query = select(Session).where(Session.person.is_not(None), Session.expires_at > utc_now())
    return await query_page(session, query, (Session.expires_at, Session.digest), asked, SessionBody.model_validate)


async def principal_of_session(
    session: AsyncSession, cookies: Sequence[str], project: Project | None
) -> Principal | None:
    """Principal of the newest valid session whose token or groups still have a role.

    Args:
        cookies: values of the cookie, of which others may be another application's.
    """
    query = (
        select(Session, Token)
        .outerjoin(Token, Session.token_id == Token.id)
        .where(Session.digest.in_([digest_of(cookie) for cookie in cookies]), Session.expires_at > utc_now())
        .order_by(Session.expires_at.desc())
        .limit(1)
    )
    row = (await session.execute(query)).first()
    if row is None:
        return None
    opened, token = row
    if opened.person is None:
        return principal_of_token(token)
    scope = project.scope_of(frozenset(opened.groups or ())) if project and project.login else None
    return Principal(opened.person, scope, is_person=True) if scope else None


async def _delete_expired(session: AsyncSession) -> None:
    await session.execute(delete(Session).where(Session.expires_at < utc_now()))
