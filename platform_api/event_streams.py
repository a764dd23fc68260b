"""Streams of server-sent events that proxies do not cut: a comment goes out where nothing else has for a while."""

import time
from collections.abc import AsyncIterator

from fastapi.responses import StreamingResponse

_HEARTBEAT_SECONDS = 15.0
"""Silence after which a comment is sent; proxies end a connection after 30 s or more of it."""
_HEARTBEAT = ": nothing new\n\n"


def event_stream(events: AsyncIterator[str | None]) -> StreamingResponse:
    """Answer with a stream of events.

    Args:
        events: events as they are sent, and None for each look that found nothing new.
    """
    # nginx collects what it passes on, and would keep an event back until a buffer is full.
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(_with_heartbeats(events), media_type="text/event-stream", headers=headers)


async def _with_heartbeats(events: AsyncIterator[str | None]) -> AsyncIterator[str]:
    last = time.monotonic()
    async for event in events:
        if event is None and time.monotonic() - last < _HEARTBEAT_SECONDS:
            continue
        last = time.monotonic()
        yield event or _HEARTBEAT
