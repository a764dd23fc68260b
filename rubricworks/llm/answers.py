"""From a server's bytes to a value: the protocol's envelope, then the JSON that the model wrote in it.

Strict where leniency would invent a verdict: an object with a repeated key is malformed rather than last-wins, NaN and
Infinity are no numbers, and JSON counts only if it is the whole answer or its one fenced block at the end. A reasoning
model's leading `<think>` part is passed over.
"""

import json
import re
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

Model = TypeVar("Model", bound=BaseModel)

_MOST_TOKENS = 10**9
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_FENCED = re.compile(r"```(?:json|JSON)?[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)


class Answer(NamedTuple):
    """What a chat-completions response says."""

    text: str | None
    finish: str
    refusal: str
    prompt_tokens: int
    completion_tokens: int


def read_answer(payload: bytes) -> Answer:
    """The first choice of a chat-completions response.

    Raises:
        ValueError: the bytes are not such a response.
    """
    try:
        body = _envelope(payload)
        choice = body["choices"][0]
        message = choice["message"]
        text, refusal, usage = message.get("content"), message.get("refusal"), body.get("usage") or {}
        if not (text is None or isinstance(text, str)):
            raise TypeError("content is not text")
        finish = str(choice.get("finish_reason") or "")
        prompt, completion = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError("the answer does not follow the chat-completions protocol") from error
    return Answer(text and _whole(text), finish, _whole(str(refusal or "")), prompt, completion)


def _whole(text: str) -> str:
    """Half a character, which JSON can hold, fits no table."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _count(tokens: Any) -> int:
    """Tokens as the server counts them; 0, which says nothing, for what no prompt or answer can have."""
    try:
        count = int(tokens or 0)
    except (ValueError, TypeError, OverflowError):
        return 0
    return count if 0 <= count <= _MOST_TOKENS else 0


def _envelope(payload: bytes) -> Any:
    try:
        return from_json(payload)
    except ValueError:  # the faster parser knows no half surrogate pairs
        return json.loads(payload)


def strip_thought(text: str) -> str:
    """Remove a model's leading `<think>` part."""
    return _THOUGHT.sub("", text) if "<think>" in text else text


def parse_json(text: str, response: type[Model]) -> Model:
    """The value that a model's text holds.

    Raises:
        ValueError: the text holds no such value; the message can be shown to the model.
    """
    text = strip_thought(text).strip()
    if not text.startswith("{"):
        fenced = list(_FENCED.finditer(text))
        if len(fenced) != 1 or fenced[0].end() != len(text):
            raise ValueError("the answer is not one JSON object")
        text = fenced[0][1].strip()
    try:
        value, end = _DECODER.raw_decode(text)
        if end != len(text):
            raise json.JSONDecodeError("Extra data", text, end)
        if "\\u" in text:
            value = json.loads(_whole(json.dumps(value, ensure_ascii=False)))
        return response.model_validate(value)
    except json.JSONDecodeError as error:
        raise ValueError(f"the answer is not valid JSON: {error.msg} at character {error.pos}") from error
    except ValidationError as error:
        raise ValueError(_explain(error)) from error
    except RecursionError as error:
        raise ValueError("the answer's JSON is nested too deeply") from error


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object holds the key {repeated!r} more than once")
    return fields


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=_no_number)


def _explain(error: ValidationError, shown: int = 5) -> str:
    """The faults by place, without the model's own text, which the message may be sent back with."""
    faults = [f"{'.'.join(map(str, fault['loc'])) or 'the answer'}: {fault['msg']}" for fault in error.errors()]
    more = f"; and {len(faults) - shown} more" if len(faults) > shown else ""
    return "; ".join(faults[:shown]) + more
