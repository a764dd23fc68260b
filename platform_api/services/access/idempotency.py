"""Idempotency keys: retrying a POST with the same key has no further effect and replays the stored response.

The key is claimed in a transaction of its own before the change; the answer is stored in the transaction that makes the
change, so both are there or neither is. Of two requests at once the second waits for the answer of the first. A service
renews its claims as long as it works; the claim of a killed one expires, and then the request is carried out again.

What a killed request did outside the database stays once all the same. A submission knows its run again by the request
(`submissions`). A promotion in `applying` is ended by what the registry says, with its message to the consumer, which
has one id, and an approval or a rollback is answered by the promotion that it ended as (`promotions`). A run that is
stopped, or resumed for its dead letters, is so already.
"""

import asyncio
import contextlib
import hashlib
import logging
import time
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import NamedTuple

from sqlalchemy import ColumnElement, delete, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.db.faults import describe_fault
from rubricworks.platform_api.db.tables import KeyedAnswer, utc_now
from rubricworks.platform_api.problems import BadRequest, Conflict
from rubricworks.platform_api.services.access.principals import Principal

_CLAIM = timedelta(minutes=2)
_LIFETIME = timedelta(days=1)
_RENEWED_EVERY = 30.0
_PATIENCE, _POLL = 20.0, 0.05
"""Seconds that a second request waits for the answer of the first, and seconds between two looks."""
_log = logging.getLogger(__name__)


class Answer(NamedTuple):
    """An answer as it is stored: JSON, or the page that it leads to; neither if it held a secret."""

    status: int
    body: str | None
    location: str | None


class Keyed:
    """A request with its key."""

    def __init__(self, by: Principal, key: str, request: str) -> None:
        self.by, self.key, self.request = by, key, request
        self._claim = uuid.uuid4().hex
        self.is_resumed = False
        """True if a killed service began the same request; known once the key is claimed."""

    @property
    def name(self) -> str:
        """Name of the request, unique over all callers, by which its work is found again."""
        return hashlib.sha256(f"{self.by.name}\0{self.key}".encode()).hexdigest()

    async def claim(self, database: Database) -> Answer | None:
        """Claim the key; return the stored answer if the request was answered before.

        Raises:
            BadRequest: the key came with another request.
            Conflict: the same request is being answered for long, or its answer held a secret.
        """
        end = time.monotonic() + _PATIENCE
        while True:
            known = await self._find(database)
            if known is not None and known.request != self.request:
                raise BadRequest(
                    "Idempotency-Key: it came with another request before; take a new key for each, or load the page "
                    "of the form anew"
                )
            if known is not None and known.status is not None:
                if known.body is None and known.location is None:
                    raise Conflict(
                        "this request was carried out before, and its answer held a secret, which is shown once; "
                        "revoke the token and create another one"
                    )
                return Answer(known.status, known.body, known.location)
            if await self._try(database, known):
                self.is_resumed = known is not None
                return None
            if time.monotonic() > end:
                raise Conflict("a request with this Idempotency-Key is being answered; ask again in a moment")
            await asyncio.sleep(_POLL)

    @contextlib.asynccontextmanager
    async def renewed(self, database: Database) -> AsyncIterator[None]:
        """Keep the claim from expiring while the block runs."""
        renewing = asyncio.create_task(self._renew(database))
        try:
            yield
        finally:
            renewing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await renewing

    async def answer(self, session: AsyncSession, answer: Answer) -> None:
        """Store the answer in the session of the change.

        Raises:
            Conflict: the claim expired, and the same request is carried out by another process.
        """
        stored = update(KeyedAnswer).where(self._is_claimed()).values(answer._asdict())
        if await session.scalar(stored.returning(KeyedAnswer.key)) is None:
            raise Conflict("this request took too long and was carried out again; look at what it changed")

    async def release(self, database: Database) -> None:
        """Give the key back after a request that changed nothing."""
        async with database.session() as session:
            await session.execute(delete(KeyedAnswer).where(self._is_claimed()))

    async def _find(self, database: Database) -> KeyedAnswer | None:
        async with database.session() as session:
            known: KeyedAnswer | None = await session.get(KeyedAnswer, (self.by.name, self.key))
        return known

    async def _try(self, database: Database, known: KeyedAnswer | None) -> bool:
        """Claim the key, or replace an expired claim; return False if another request holds it."""
        now = utc_now()
        if known is not None and known.created_at >= now - _CLAIM:
            return False
        values = {"request": self.request, "claim": self._claim, "created_at": now}
        try:
            async with database.session() as session:
                if known is not None:
                    is_expired = KeyedAnswer.status.is_(None) & (KeyedAnswer.created_at < now - _CLAIM)
                    taken = update(KeyedAnswer).where(self._is_own() & is_expired).values(values)
                    return await session.scalar(taken.returning(KeyedAnswer.key)) is not None
                await session.execute(delete(KeyedAnswer).where(KeyedAnswer.created_at < now - _LIFETIME))
                session.add(KeyedAnswer(who=self.by.name, key=self.key, **values))
        except IntegrityError:
            return False
        return True

    async def _renew(self, database: Database) -> None:
        while True:
            await asyncio.sleep(_RENEWED_EVERY)
            try:
                async with database.session() as session:
                    await session.execute(update(KeyedAnswer).where(self._is_claimed()).values(created_at=utc_now()))
            except SQLAlchemyError as error:
                _log.warning("the claim of a request was not renewed: %s", describe_fault(error))

    def _is_own(self) -> ColumnElement[bool]:
        return (KeyedAnswer.who == self.by.name) & (KeyedAnswer.key == self.key)

    def _is_claimed(self) -> ColumnElement[bool]:
        return self._is_own() & KeyedAnswer.status.is_(None) & (KeyedAnswer.claim == self._claim)


def request_digest(method: str, target: str, body: bytes) -> str:
    """Digest by which a repeated request is known.

    Args:
        target: path and query.
    """
    return hashlib.sha256(b"\0".join((method.encode(), target.encode(), body))).hexdigest()
