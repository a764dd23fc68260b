"""An event loop in a thread of its own, for callers that are not asynchronous and call from many threads."""

import asyncio
import threading
from collections.abc import Coroutine
from functools import lru_cache
from typing import Any, TypeVar

T = TypeVar("T")


def run_in_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in this process's one background loop, and wait for its result.

    One loop keeps a client's connections open from call to call, which `asyncio.run` would end.
    """
    return asyncio.run_coroutine_threadsafe(coroutine, _background_loop()).result()


@lru_cache(maxsize=1)
def _background_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="rubric-rewards", daemon=True).start()
    return loop
