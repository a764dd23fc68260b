"""Several calls whose answers are of use only together."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from rubricworks.llm import ChatError


async def all_of(*asks: Coroutine[Any, Any, Any]) -> list[Any]:
    """What all of them return, in order, after every one has ended.

    Raises:
        ChatError: the first in order whose call failed. Errors of another kind, which end more than this, go first.
    """
    ended = await asyncio.gather(*asks, return_exceptions=True)
    failures = [one for one in ended if isinstance(one, BaseException)]
    for failure in sorted(failures, key=lambda one: isinstance(one, ChatError)):
        raise failure
    return ended
