"""Values that took a while to compute, of which the last few are kept: people look at one many times."""

import asyncio
from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

T = TypeVar("T")
_MOST = 32
_kept: dict[Hashable, Any] = {}
"""The last used one last."""


async def remember(make: Callable[..., T], place: tuple[Hashable, ...], *arguments: Any) -> T:
    """The value that `make` makes of the arguments, in a thread, unless it is known of their place."""
    key = (make, place)
    value = _kept.pop(key) if key in _kept else await asyncio.to_thread(make, *arguments)
    _kept[key] = value
    while len(_kept) > _MOST:
        _kept.pop(next(iter(_kept)))
    return cast("T", value)
