"""Body of a response as JSON, and the error that it may hold, whatever its HTTP status says.

While a call waits, OpenRouter and DeepSeek send comments (`: OPENROUTER PROCESSING`) or empty lines, also where no
stream was asked for. Some servers only stream; their events are put together to one response.

Gateways answer 200 before they know how a call ends, and put the error of a provider into the body: `error` alone or
beside `choices` (OpenRouter, LiteLLM), in a choice, in a list (Gemini), as `base_resp` (MiniMax), or as the whole body
(vLLM, FastAPI). Choices beside an error are no answer. Its inner code decides what to do: wait, ask again, or give up.
A content filter's error, such as Azure's 400, is a refusal.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic_core import from_json

from rubricworks.llm.answers.endings import Ending, ending_of

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
        if find_error(event) is not None:
            return event
    for event in events:
        if any("message" in choice for choice in event.get("choices") or []):
            return event
    message: dict[str, str] = {}
    merged: dict[str, object] = {}
    reasons: list[Any] = []
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
            reasons += [choice["finish_reason"]] if choice.get("finish_reason") else []
    reasons = reasons or ([] if ended else [_BROKEN_OFF])
    unfinished = (reason for reason in reasons if ending_of(str(reason)) is not Ending.FINISHED)
    finish = next(unfinished, reasons[-1] if reasons else None)
    choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": {"content": tokens}}
    return {**merged, "choices": [choice]}


_REFUSALS = frozenset(
    {
        *("content_filter", "contentfilter", "content_policy_violation", "contentpolicyviolationerror"),
        *("responsibleaipolicyviolation", "data_inspection_failed", "datainspectionfailed", "content_moderation"),
        *("moderation_blocked", "content_policy", "safety_violation", "flagged_input"),
        "1301",  # Zhipu: sensitive content
    }
)
_REFUSAL_TEXT = re.compile(r"ContentPolicyViolationError|requires moderation and your input was flagged")
_MINIMAX = {1001: 504, 1002: 429, 1004: 401, 1008: 402, 1024: 500, 1026: 0, 1027: 0, 1039: 429, 2013: 400, 2049: 401}
_MINIMAX_REFUSALS = (1026, 1027)
_ZHIPU = {"1113": 402, "1211": 404, "1214": 400, "1234": 503, "1302": 429, "1303": 429, "1304": 402, "1305": 429}
_NAMES = (
    (r"insufficient_quota|quota_exceeded|billing|balance|arrear|payment|credit", 402),
    (r"rate.?limit|throttl|too.?many|exhausted|\bqps\b|concurrency", 429),
    (r"api_?key|unauthenticated|authentication|unauthorized", 401),
    (r"permission|forbidden|access_?denied", 403),
    (r"not_?found|no_such_model", 404),
    (r"overload|unavailable|capacity", 503),
    (r"time.?out|timed.?out|deadline", 504),
    (r"invalid_?(?:request|argument|param)|bad_?request|context_length|unsupported|unprocessable", 400),
    (r"internal|server_?error|api_error|upstream|bad_?gateway", 500),
)
_RETRY_DELAY = re.compile(r"(\d+(?:\.\d+)?)s")
_MAX_MESSAGE = 300
_MAX_DEPTH = 4


class ErrorBody(NamedTuple):
    """Error that a body holds."""

    message: str
    status: int = 0
    """HTTP status that its code means; 0 if it has none that is known."""
    refused: bool = False
    """True if a content filter declined the request or its answer."""
    retry_after: float | None = None
    """Seconds to wait, if the error has them."""


def find_error(body: Any) -> ErrorBody | None:
    """Return the error that a parsed body holds, or None."""
    if isinstance(body, list):
        return next(filter(None, map(find_error, body[:3])), None)
    if not isinstance(body, dict):
        return None
    choices = body.get("choices")
    parts = [body, *choices] if isinstance(choices, list) else [body]
    for part in parts:
        if isinstance(part, dict) and (error := part.get("error")) and (error_body := _of_error(error)) is not None:
            return error_body
    if isinstance(response := body.get("base_resp"), dict) and (code := response.get("status_code")):
        status = _MINIMAX.get(code, 500) if isinstance(code, int) else 500
        return ErrorBody(_message(response.get("status_msg"), code), status, code in _MINIMAX_REFUSALS)
    is_whole = not choices and ("detail" in body or isinstance(body.get("message", body.get("error_msg")), str))
    if is_whole or body.get("object") == "error":
        return _of_error({**body, "code": body.get("code") or body.get("error_code")})
    return None


def _of_error(error: Any) -> ErrorBody | None:
    """Error of a value under `error`; None for a form that says there is none."""
    if not isinstance(error, dict):
        return ErrorBody(_message(error), _status_of_name(str(error)))
    codes = [str(code).lower() for code in _values(error, ("code", "type", "status")) if code not in (None, "")]
    message = next((error[name] for name in ("message", "detail", "error_msg", "msg") if error.get(name)), "")
    if _says_none(error):
        return None
    refused = not _REFUSALS.isdisjoint(codes) or bool(_REFUSAL_TEXT.search(str(message)))
    refused = refused or "flagged_input" in _metadata(error)
    text = _message(message or next(iter(codes), "") or json.dumps(error), _metadata(error).get("raw"))
    return ErrorBody(text, _status(codes, str(message)), refused, _retry_delay(error))


def _says_none(value: Any) -> bool:
    """Return True for an error whose values all say that there is none, such as `{"code": 0, "message": ""}`."""
    if isinstance(value, dict | list):
        return all(map(_says_none, value.values() if isinstance(value, dict) else value))
    return not value or str(value).lower() in ("0", "200", "none", "null")


def _status(codes: list[str], message: str) -> int:
    """HTTP status that the codes mean, a number before a name."""
    for code in codes:
        if code in _ZHIPU:
            return _ZHIPU[code]
    numbers = [int(code) for code in codes if code.isascii() and code.isdigit() and len(code) == 3]
    if number := next((number for number in numbers if 400 <= number < 600), 0):
        return 402 if number == 429 and _status_of_name(" ".join(codes)) == 402 else number
    return _status_of_name(" ".join(codes)) or _status_of_name(message)


def _status_of_name(name: str) -> int:
    return next((status for pattern, status in _NAMES if re.search(pattern, name, re.IGNORECASE)), 0)


def _values(error: Any, names: tuple[str, ...], depth: int = 0) -> Iterator[Any]:
    """Values of these fields, the outermost first: Azure's inner error says more than its outer one."""
    if not isinstance(error, dict) or depth > _MAX_DEPTH:
        return
    yield from (error[name] for name in names if isinstance(error.get(name), str | int))
    for value in error.values():
        yield from _values(value, names, depth + 1)


def _metadata(error: dict[str, Any]) -> dict[str, Any]:
    metadata = error.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _retry_delay(error: dict[str, Any]) -> float | None:
    """Seconds in Gemini's `RetryInfo`."""
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and (seconds := _RETRY_DELAY.fullmatch(delay)):
            return min(float(seconds[1]), 60.0)
    return None


def _message(*parts: Any) -> str:
    return " ".join(" ".join(str(part) for part in parts if part).split())[:_MAX_MESSAGE]
