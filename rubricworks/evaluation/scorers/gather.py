"""Concurrent calls whose answers are useful only as a whole."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from rubricworks.llm import ChatError


async def gather_all(*calls: Coroutine[Any, Any, Any]) -> list[Any]:
    """Await all calls to their end and return their results in order.

    Raises:
        ChatError: of the first call in order that failed. Exceptions of other types take precedence.
    """
    results = await asyncio.gather(*calls, return_exceptions=True)
    failures = [result for result in results if isinstance(result, BaseException)]
    for failure in sorted(failures, key=lambda error: isinstance(error, ChatError)):
        raise failure
    return results
