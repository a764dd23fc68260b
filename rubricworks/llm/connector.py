"""Keep-alive connections that carry one answer to one question.

A server that sends more than it was asked for would have its surplus taken for the answer to the next question: such a
connection is closed, not used again. aiohttp itself looks only while an answer is read, and the reader of a body that
breaks the protocol is not told of it, and waits for the timeout.
"""

import asyncio
from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

try:
    from fcntl import ioctl
    from termios import FIONREAD
except ImportError:  # Windows
    ioctl = None  # type: ignore[assignment]

_NO_BYTES = bytes(4)


class AnswerProtocol(ResponseHandler):
    """Protocol that ends the body in progress with the connection's error."""

    def set_exception(self, exc: BaseException, *cause: Any) -> None:
        payload = self._payload
        super().set_exception(exc, *cause)
        if payload is not None and not payload.is_eof() and payload.exception() is None:
            payload.set_exception(aiohttp.ClientPayloadError("the body breaks the protocol"), exc)


class AnswerConnector(aiohttp.TCPConnector):
    """Connector that reuses a connection only if nothing has come in on it since its last answer."""

    def __init__(self) -> None:
        super().__init__(limit=0)
        self._factory: Any = partial(AnswerProtocol, loop=asyncio.get_running_loop())

    async def _get(self, key: Any, traces: Any) -> Any:
        while (connection := await super()._get(key, traces)) is not None:
            protocol = connection.protocol
            assert protocol is not None, "a connection from the pool has one"
            if not protocol.should_close and not _has_input(protocol.transport):
                return connection
            connection.close()
        return None


def _has_input(transport: asyncio.Transport | None) -> bool:
    """Return True if bytes wait to be read; False over TLS, which sends records of its own, and on Windows."""
    if ioctl is None or transport is None or transport.get_extra_info("sslcontext") is not None:
        return False
    descriptor = transport.get_extra_info("socket").fileno()
    return descriptor >= 0 and ioctl(descriptor, FIONREAD, _NO_BYTES) != _NO_BYTES
