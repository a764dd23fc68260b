"""Bytes of a response as JSON: what gateways put before it, and streams that nobody asked for.

While a call waits, OpenRouter and DeepSeek send comments (`: OPENROUTER PROCESSING`) or empty lines, also where no
stream was asked for. Some servers only stream; their events are put together to one response.
"""

import json
from typing import Any

from pydantic_core import from_json

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_EVENT_FIELDS = (b"data:", b"event:", b"id:", b"retry:")
_BROKEN_OFF = "interrupted: the stream broke off"
"""Finish reason of a stream without one, and without `[DONE]`; some servers forget the reason only."""


def parse_payload(payload: bytes) -> Any:
    """Parse the body of a response.

    Raises:
        ValueError: it is not JSON, nor a stream of JSON.
    """
    try:
        return from_json(payload)
    except ValueError:
        body = payload.removeprefix(_BYTE_ORDER_MARK).lstrip()
    while body.startswith(b":"):
        body = body.partition(b"\n")[2].lstrip()
    if body.startswith(_EVENT_FIELDS):
        return _merge(_events(body), ended=b"[DONE]" in body[-64:])
    return json.loads(body)  # the faster parser rejects lone surrogates


def _events(body: bytes) -> list[Any]:
    lines = (line.removeprefix(b"data:").strip() for line in body.splitlines() if line.startswith(b"data:"))
    return [from_json(line) for line in lines if line and line != b"[DONE]"]


def _merge(events: list[Any], *, ended: bool) -> Any:
    """The response that a stream's events make; an error or a whole response among them is returned as it is."""
    if not all(isinstance(event, dict) for event in events):
        raise ValueError("an event of the stream is not an object")
    for event in events:
        choices = event.get("choices") or []
        if event.get("error") or any(choice.get("error") or "message" in choice for choice in choices):
            return event
    message: dict[str, str] = {}
    merged: dict[str, object] = {}
    finish: Any = None
    tokens: list[Any] = []
    for event in events:
        merged |= {name: value for name, value in event.items() if value is not None and name != "choices"}
        for choice in event.get("choices") or []:
            if choice.get("index"):
                continue
            for name, piece in (choice.get("delta") or {}).items():
                if isinstance(piece, str):
                    message[name] = piece if name == "role" else message.get(name, "") + piece
            tokens += (choice.get("logprobs") or {}).get("content") or []
            finish = choice.get("finish_reason") or finish
    finish = finish or (None if ended else _BROKEN_OFF)
    choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": {"content": tokens}}
    return {**merged, "choices": [choice]}
