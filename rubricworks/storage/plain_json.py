"""JSON of run folders, read so that every reader can go on with it: pages, charts, databases and JSON itself.

A run folder may come from somebody else. What no page could show is not let in: numbers that are not finite or that no
database takes are None, half a surrogate and NUL are replaced, and nesting beyond any file of ours is refused.
"""

import json
from typing import Any

_LARGEST = 1e100
"""Figure beyond which sums and ticks of a chart are no numbers any more."""
_DEEPEST = 48
"""Lists and mappings inside each other."""


def plain_json(content: bytes | str) -> Any:
    """Value of a JSON text.

    Raises:
        ValueError: it is not JSON in UTF-8, or nested too deeply.
    """
    try:
        return _plain(_DECODER.decode(content if isinstance(content, str) else content.decode()), 0)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def plain_object(content: bytes | str) -> dict[str, Any]:
    """Mapping that a JSON text holds. Raises ValueError if it holds none."""
    value = plain_json(content)
    if not isinstance(value, dict):
        raise ValueError(f"{type(value).__name__} in place of an object")
    return value


def _plain(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return plain_text(value)
    if not isinstance(value, dict | list):
        return value
    if depth == _DEEPEST:
        raise ValueError("nested too deeply")
    if isinstance(value, list):
        return [_plain(part, depth + 1) for part in value]
    return {plain_text(key): _plain(part, depth + 1) for key, part in value.items()}


def plain_text(text: str) -> str:
    """A text as databases store it: Postgres refuses NUL, and no database takes half a surrogate."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def _finite(text: str) -> float | None:
    number = float(text)
    return number if abs(number) < _LARGEST else None


def _whole(text: str) -> int | None:
    # Python refuses to parse integers of more than 4,300 digits.
    return int(text) if len(text) <= 20 and -(2**63) <= int(text) < 2**63 else None


_DECODER = json.JSONDecoder(parse_float=_finite, parse_int=_whole, parse_constant=_finite)
