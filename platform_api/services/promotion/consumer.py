"""The consumer of models: its address and messages.

A message is signed and sent until it is received, the same one under the same id. The consumer answers 2xx, serves the
version, and says so by `POST` to the message's `confirm`. The URL is the operator's (`RUBRICWORKS_WEBHOOK_URL`), never
a caller's, and redirects are not followed. A name may lead anywhere tomorrow: to this machine, its network, the cloud's
metadata service. So every connection goes to an address that was checked, and the name is not resolved a second time.
Admitted are public addresses, the address that the URL itself spells out (`localhost` counts), and the networks that
the operator names.
"""

import asyncio
import logging
import time
from datetime import timedelta
from functools import partial
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.resolver import ThreadedResolver
from sqlalchemy import select, update
from sqlalchemy.exc import SQLAlchemyError

from rubricworks.data.downloads.addresses import CheckedResolver, IPAddress, address_kind
from rubricworks.data.downloads.hosts import FetchRefused
from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.db.faults import describe_fault
from rubricworks.platform_api.db.tables import Delivery, utc_now
from rubricworks.tracking.promotion_messages import SIGNATURE, sign

Network = IPv4Network | IPv6Network
_NEVER = ("unspecified", "link-local", "multicast", "a cloud's own service")
"""Kinds of addresses that no consumer has: a metadata service gives away the machine's identity."""
_FIRST_PAUSE, _LONGEST_PAUSE = timedelta(seconds=2), timedelta(hours=1)
ATTEMPTS = 83
"""Repeated for three days, longer than a weekend."""
_LEASE = timedelta(seconds=30)
"""Time in which nobody else sends a message that is being sent."""
_log = logging.getLogger(__name__)


class ConsumerAddress(NamedTuple):
    """The consumer's URL and permitted networks."""

    url: str
    networks: tuple[Network, ...] = ()
    """Networks beyond the public internet that the consumer may be in."""

    def client(self, resolver: AbstractResolver | None = None) -> aiohttp.ClientSession:
        """HTTP client of this consumer; it raises FetchRefused rather than connect to an address not admitted.

        Args:
            resolver: DNS resolver; the system's by default.
        """
        checked = CheckedResolver(resolver or ThreadedResolver(), partial(admits, self))
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(resolver=checked, socket_factory=checked.socket),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=10),
        )


def admits(consumer: ConsumerAddress, address: IPAddress) -> bool:
    """Return True if the consumer may have this address."""
    kind = address_kind(address)
    if kind in _NEVER:
        return False
    host = (urlsplit(consumer.url).hostname or "").rstrip(".")
    is_spelled_out = kind == "loopback" if host == "localhost" else _is_literal(host, address)
    return kind == "public" or is_spelled_out or any(address in network for network in consumer.networks)


def _is_literal(host: str, address: IPAddress) -> bool:
    try:
        return ip_address(host) == address
    except ValueError:
        return False


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
        return sum([await self._send(http, delivery) for delivery in due])

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
