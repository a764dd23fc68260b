"""Messages to the consumer of models: signed, sent until they are received, the same message under the same id.

The address is the operator's (`RUBRICWORKS_WEBHOOK_URL`), never a caller's; redirects are not followed, and where its
name leads is checked, see `consumer_address`. The consumer answers 2xx, serves the version, and says so by
`POST` to the message's `confirm`.
"""

import asyncio
import logging
import time
from datetime import timedelta

import aiohttp
from sqlalchemy import select, update
from sqlalchemy.exc import SQLAlchemyError

from rubricworks.data.downloads.hosts import FetchRefused
from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.db.faults import describe_fault
from rubricworks.platform_api.db.tables import Delivery, utc_now
from rubricworks.platform_api.services.promotion.consumer_address import ConsumerAddress
from rubricworks.tracking.promotion_messages import SIGNATURE, sign

_FIRST_PAUSE, _LONGEST_PAUSE = timedelta(seconds=2), timedelta(hours=1)
ATTEMPTS = 83
"""Sent anew for three days, so that a consumer that is down over a weekend hears of what it missed."""
_LEASE = timedelta(seconds=30)
"""Time in which nobody else sends a message that is being sent."""
_log = logging.getLogger(__name__)


def pause_after(attempts: int) -> timedelta:
    """Time until a message that was sent so often is sent again."""
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(attempts - 1, 30))


class Webhooks:
    """Sender of the messages that are due."""

    def __init__(self, database: Database, consumer: ConsumerAddress, secret: str) -> None:
        self._database, self._consumer, self._secret = database, consumer, secret

    async def follow(self, seconds: float) -> None:
        """Send what is due again and again, until cancelled."""
        async with self._consumer.client() as session:
            while True:
                try:
                    await self.send_due(session)
                except SQLAlchemyError as error:
                    _log.warning("messages could not be read: %s", describe_fault(error))
                except Exception:  # what is due must be sent
                    _log.exception("sending messages failed")
                await asyncio.sleep(seconds)

    async def send_due(self, http: aiohttp.ClientSession) -> int:
        """Send the messages that are due; return how many were received."""
        async with self._database.session() as session:
            due = (await session.scalars(select(Delivery).where(Delivery.due_at <= utc_now()).limit(20))).all()
        return sum([await self._send(http, one) for one in due])

    async def _send(self, http: aiohttp.ClientSession, delivery: Delivery) -> bool:
        if not await self._lease(delivery):
            return False
        headers = {
            "Content-Type": "application/json",
            "Rubricworks-Delivery": str(delivery.id),
            SIGNATURE: sign(self._secret, delivery.body, int(time.time())),
        }
        try:
            async with http.post(
                self._consumer.url, data=delivery.body, headers=headers, allow_redirects=False
            ) as answer:
                error = None if 200 <= answer.status < 300 else f"HTTP {answer.status}"
        except FetchRefused as refusal:
            error = f"{refusal}; see RUBRICWORKS_WEBHOOK_NETWORKS"
        except (
            aiohttp.ClientError,
            TimeoutError,
            ValueError,
        ) as failure:  # a name that DNS cannot have is a ValueError
            error = type(failure).__name__
        await self._note(delivery, error)
        return error is None

    async def _lease(self, delivery: Delivery) -> bool:
        async with self._database.session() as session:
            leased = await session.scalar(
                update(Delivery)
                .where(Delivery.id == delivery.id, Delivery.due_at == delivery.due_at)
                .values(due_at=utc_now() + _LEASE)
                .returning(Delivery.id)
            )
        return leased is not None

    async def _note(self, delivery: Delivery, error: str | None) -> None:
        async with self._database.session() as session:
            row = await session.get_one(Delivery, delivery.id)
            row.attempts += 1
            if error is None:
                row.delivered_at, row.due_at, row.error = utc_now(), None, ""
                return
            row.error = error
            row.due_at = utc_now() + pause_after(row.attempts) if row.attempts < ATTEMPTS else None
            _log.warning("message %d was not received (%s), attempt %d of %d", row.id, error, row.attempts, ATTEMPTS)
