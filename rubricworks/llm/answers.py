"""Parsing of answers: the chat-completions envelope, then the JSON that the model wrote in it.

Parsing is strict where leniency could invent a verdict: an object with a repeated key is malformed, NaN and Infinity
are not numbers, and JSON must be the whole answer or its only fenced block, at the end. A reasoning model's leading
`<think>` block is skipped.
"""

import json
import re
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from rubricworks.llm.identity import Identity
from rubricworks.llm.logprobs import Logprobs

Model = TypeVar("Model", bound=BaseModel)

_MAX_TOKENS = 10**9
_THINK_BLOCK = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_FENCED = re.compile(r"```(?:json|JSON)?[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)


class Answer(NamedTuple):
    """Content of a chat-completions response."""

    text: str | None
    finish: str
    refusal: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    """Prompt tokens that the provider had cached, of `prompt_tokens`."""
    identity: Identity = Identity()
    logprobs: Logprobs = ()
    """As the server sent them; empty if it sent none."""


def read_answer(payload: bytes) -> Answer:
    """Parse the first choice of a chat-completions response.

    Raises:
        ValueError: the bytes are not a chat-completions response.
    """
    try:
        body = _parse_payload(payload)
        choice = body["choices"][0]
        message = choice["message"]
        text, refusal, usage = message.get("content"), message.get("refusal"), body.get("usage") or {}
        if not (text is None or isinstance(text, str)):
            raise TypeError("content is not text")
        finish = str(choice.get("finish_reason") or "")
        prompt, completion = _token_count(usage.get("prompt_tokens")), _token_count(usage.get("completion_tokens"))
        details = usage.get("prompt_tokens_details")
        cached = min(_token_count(details.get("cached_tokens")), prompt) if isinstance(details, dict) else 0
        identity = Identity(str(body.get("model") or ""), str(body.get("system_fingerprint") or ""))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError("the answer does not follow the chat-completions protocol") from error
    return Answer(
        text and _replace_surrogates(text),
        finish,
        _replace_surrogates(str(refusal or "")),
        prompt,
        completion,
        cached,
        identity,
        _logprobs(choice.get("logprobs")),
    )


def _logprobs(value: Any) -> Logprobs:
    content = value.get("content") if isinstance(value, dict) else None
    return content if isinstance(content, list) else ()


def _replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which JSON can hold but tables cannot."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _token_count(tokens: Any) -> int:
    """Token count as the server reports it; 0, meaning unknown, for an impossible one."""
    try:
        count = tokens if type(tokens) is int else int(tokens or 0)
    except (ValueError, TypeError, OverflowError):
        return 0
    return count if 0 <= count <= _MAX_TOKENS else 0


def _parse_payload(payload: bytes) -> Any:
    try:
        return from_json(payload)
    except ValueError:  # the faster parser rejects lone surrogates
        return json.loads(payload)


def strip_thought(text: str) -> str:
    """Remove a model's leading `<think>` block."""
    return _THINK_BLOCK.sub("", text) if "<think>" in text else text


def parse_json(text: str, response: type[Model]) -> Model:
    """Parse and validate the JSON object in a model's text.

    Raises:
        ValueError: the text holds no valid object; the message can be shown to the model.
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
            value = json.loads(_replace_surrogates(json.dumps(value, ensure_ascii=False)))
        return response.model_validate(value)
    except json.JSONDecodeError as error:
        raise ValueError(f"the answer is not valid JSON: {error.msg} at character {error.pos}") from error
    except ValidationError as error:
        raise ValueError(_describe_faults(error)) from error
    except RecursionError as error:
        raise ValueError("the answer's JSON is nested too deeply") from error


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object holds the key {repeated!r} more than once")
    return fields


def _reject_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=_reject_constant)


def _describe_faults(error: ValidationError, limit: int = 5) -> str:
    """List validation errors by location, without the model's own text, as the message may be sent back to it."""
    faults = [f"{'.'.join(map(str, fault['loc'])) or 'the answer'}: {fault['msg']}" for fault in error.errors()]
    more = f"; and {len(faults) - limit} more" if len(faults) > limit else ""
    return "; ".join(faults[:limit]) + more
