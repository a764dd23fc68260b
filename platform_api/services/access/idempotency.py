"""Idempotency keys: a POST sent again, because its answer was lost, changes nothing again and gets the same answer.

The key is claimed in a transaction of its own before the change, so of two requests at once one is refused (409), and
gets its answer in another one after it. A service that is killed before the answer leaves a claim that expires, and
then the request is carried out again. So a change must not depend on its key alone: a rollback names the champion that
it takes back, a decision the request that it ends.
"""

import hashlib
import json
from datetime import timedelta
from typing import Any

from sqlalchemy import delete
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.db.tables import KeyedAnswer, utc_now
from rubricworks.platform_api.problems import BadRequest, Conflict
from rubricworks.platform_api.services.access.principals import Principal

_CLAIM = timedelta(minutes=2)
_LIFETIME = timedelta(days=1)


class Keyed:
    """A request with its key."""

    def __init__(self, by: Principal, key: str, request: str) -> None:
        self.by, self.key, self.request = by, key, request

    async def claim(self, database: Database) -> dict[str, Any] | None:
        """Claim the key; return the stored answer if the request was answered before.

        Raises:
            BadRequest: the key came with another request.
            Conflict: the same request is being answered.
        """
        async with database.session() as session:
            await session.execute(delete(KeyedAnswer).where(KeyedAnswer.created_at < utc_now() - _LIFETIME))
            known = await session.get(KeyedAnswer, (self.by.name, self.key))
            if known is not None and known.status is None and known.created_at < utc_now() - _CLAIM:
                await session.delete(known)
                await session.flush()
                known = None
            if known is None:
                session.add(KeyedAnswer(who=self.by.name, key=self.key, request=self.request))
                try:
                    await session.flush()
                except IntegrityError as error:
                    raise self._in_flight() from error
                return None
        if known.request != self.request:
            raise BadRequest("Idempotency-Key: it came with another request before; take a new key for each")
        if known.status is None:
            raise self._in_flight()
        return {"status": known.status, "body": json.loads(known.body or "null")}

    async def answer(self, session: AsyncSession, status: int, body: Any) -> None:
        """Store the answer."""
        row = await session.get(KeyedAnswer, (self.by.name, self.key))
        if row is not None:
            row.status, row.body = status, json.dumps(body)

    async def release(self, database: Database) -> None:
        """Give the key back after a request that changed nothing."""
        async with database.session() as session:
            row = await session.get(KeyedAnswer, (self.by.name, self.key))
            if row is not None and row.status is None:
                await session.delete(row)

    def _in_flight(self) -> Conflict:
        return Conflict("a request with this Idempotency-Key is being answered; ask again in a moment")


def request_digest(method: str, path: str, body: bytes) -> str:
    """Digest by which a repeated request is known."""
    return hashlib.sha256(b"\0".join((method.encode(), path.encode(), body))).hexdigest()
