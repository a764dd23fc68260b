"""Streams of server-sent events: they end with their caller's token, and with the service.

Proxies do not cut them: a comment goes out where nothing else has for a while.
"""

import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator

from fastapi import Request
from fastapi.responses import StreamingResponse

from rubricworks.platform_api.access import principal_of

_HEARTBEAT_SECONDS = 15.0
"""Silence after which a comment is sent; proxies end a connection after 30 s or more of it."""
_HEARTBEAT = ": nothing new\n\n"


def event_stream(request: Request, events: AsyncGenerator[str | None]) -> StreamingResponse:
    """Answer with a stream of events.

    Args:
        events: events as they are sent, and None for each look that found nothing new.
    """
    # nginx collects what it passes on, and would keep an event back until a buffer is full.
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    allowed = _while_allowed(request, events)
    return StreamingResponse(_with_heartbeats(allowed), media_type="text/event-stream", headers=headers)


async def _while_allowed(request: Request, events: AsyncGenerator[str | None]) -> AsyncIterator[str | None]:
    """The events until the service is told to stop, or the caller's token or session ends."""
    async with contextlib.aclosing(events):
        async for event in events:
            principal = await principal_of(request.scope, dict(request.headers))
            if request.app.state.is_stopping or principal != request.state.principal:
                return
            yield event


async def _with_heartbeats(events: AsyncIterator[str | None]) -> AsyncIterator[str]:
    last = time.monotonic()
    async for event in events:
        if event is None and time.monotonic() - last < _HEARTBEAT_SECONDS:
            continue
        last = time.monotonic()
        yield event or _HEARTBEAT
