"""Connections to Postgres that end when the server does not respond, also through a pooler.

A frozen server keeps its connections: its kernel goes on acknowledging what is sent, so that neither keepalives nor
TCP's own deadline end a request. Only a deadline on this side does. It asks the server to cancel the statement, and
closes the connection if that is not answered either.
"""

import asyncio
from typing import Any

from psycopg import AsyncConnection, OperationalError

_ANSWER_SECONDS = 20.0
"""Deadline of a statement."""
OPTIONS = {
    "connect_timeout": 5,
    # A machine that is gone acknowledges nothing.
    "keepalives_idle": 20,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
    # PgBouncer in transaction mode gives each transaction another server connection, which has not prepared it.
    "prepare_threshold": None,
}
"""Options of psycopg for every connection; those of a URL come before them."""


class PunctualConnection(AsyncConnection[Any]):
    """A connection of which every answer has a deadline."""

    async def wait(self, *arguments: Any, **options: Any) -> Any:
        """Wait for an answer as psycopg does.

        Raises:
            OperationalError: the server has not answered by the deadline.
        """
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await super().wait(*arguments, **options)
        except TimeoutError as error:
            raise OperationalError(f"no answer within {_ANSWER_SECONDS:g} s") from error
