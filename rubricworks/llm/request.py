"""A request's bytes and its cache key: what stays the same between calls is encoded and hashed once.

The key is the sha256 of what was asked: kind of endpoint, model, revision, sampling, the answer's schema, sample index
and messages, with each image standing as its digest. The URL is not in it, so a server may move. Images are spliced
into the bytes as they are, because a data URL holds nothing that JSON escapes.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json

from rubricworks.llm.endpoint import Endpoint
from rubricworks.llm.messages import DataUrl

_KIND = "openai-chat-completions"
_OURS = frozenset({"messages", "seed"})
_OPENINGS_KEPT = 64
BYTES_PER_TOKEN = 3
_IMAGE_TOKENS = 1_000


class Request(NamedTuple):
    """One encoded question."""

    body: bytes
    key: bytes
    """32 bytes."""
    tokens: int
    """What the prompt may count, for the budget: three bytes of text a token, a thousand tokens an image."""


class RequestFrame:
    """Encodes questions for one endpoint and one kind of answer."""

    def __init__(self, endpoint: Endpoint, response: type[BaseModel] | None) -> None:
        schema = None if response is None else strict_schema(response)
        fields: dict[str, Any] = {
            "model": endpoint.model,
            "temperature": endpoint.temperature,
            "top_p": endpoint.top_p,
            "max_tokens": endpoint.max_tokens,
        }
        if response is not None and endpoint.guided:
            json_schema = {"name": response.__name__, "schema": schema, "strict": True}
            fields["response_format"] = {"type": "json_schema", "json_schema": json_schema}
        fields |= {name: value for name, value in endpoint.extra_body.items() if name not in _OURS}
        fields = {name: value for name, value in fields.items() if value is not None}
        self._head = to_json(fields)[:-1] + b',"messages":['
        self._sends_seed = endpoint.extra_body.get("seed", 0) is not None
        self._hash = hashlib.sha256(json.dumps([_KIND, endpoint.revision, schema]).encode() + self._head)
        self._openings: dict[str, tuple[bytes, Any]] = {}

    def encode(self, messages: Sequence[dict[str, Any]], seed: int) -> Request:
        if not messages:
            raise ValueError("there is no message to send")
        first = messages[0]
        if len(messages) > 1 and first.get("role") == "system" and len(first) == 2:
            opening, digest = self._opening(first)
            messages = messages[1:]
        else:
            opening, digest = self._head, self._hash.copy()
        ending = b'],"seed":%d}' % seed if self._sends_seed else b"]}"
        for message in messages:
            if type(message.get("content")) is list:
                return _with_images(opening, messages, ending, digest, seed)
        text = _encode(messages)[1:-1]
        digest.update(b"%d" % seed + text)
        body = opening + text + ending
        return Request(body, digest.digest(), len(body) // BYTES_PER_TOKEN)

    def _opening(self, message: dict[str, Any]) -> tuple[bytes, Any]:
        """Head and system message, and a hash that has read both: the same for every question of a purpose."""
        content = message["content"]
        kept = self._openings.get(content) if isinstance(content, str) else None
        if kept is None:
            opening = self._head + _encode(message) + b","
            state = self._hash.copy()
            state.update(opening)
            if len(self._openings) >= _OPENINGS_KEPT:
                self._openings.clear()
            kept = (opening, state)
            if isinstance(content, str):
                self._openings[content] = kept
        return kept[0], kept[1].copy()


def _with_images(opening: bytes, messages: Sequence[dict[str, Any]], ending: bytes, digest: Any, seed: int) -> Request:
    """Images go into the bytes as they are, and into the hash as their digests."""
    pieces, asked, images = [opening], [b"%d" % seed], []
    for number, message in enumerate(messages):
        if number:
            pieces.append(b",")
        if isinstance(content := message.get("content"), list):
            images += _splice(message, content, pieces, asked)
        else:
            pieces.append(_encode(message))
            asked.append(pieces[-1])
    digest.update(b"\n".join(asked))
    body = b"".join((*pieces, ending))
    text = len(body) - sum(map(len, images))
    return Request(body, digest.digest(), text // BYTES_PER_TOKEN + _IMAGE_TOKENS * len(images))


def _image_url(part: Any) -> DataUrl | None:
    """The image of a message part made by `image_part`."""
    if not isinstance(part, dict) or len(part) != 2 or part.get("type") != "image_url":
        return None
    holder = part.get("image_url")
    if not isinstance(holder, dict) or len(holder) != 1:
        return None
    url = holder.get("url")
    return url if isinstance(url, DataUrl) else None


def _splice(message: dict[str, Any], content: list[Any], pieces: list[bytes], asked: list[bytes]) -> list[DataUrl]:
    """Append the message to the request's pieces, and what it asks to what is hashed; returns its images."""
    others = _encode({name: value for name, value in message.items() if name != "content"})
    pieces.append(others[:-1] + (b',"content":[' if len(others) > 2 else b'"content":['))
    asked.append(others)
    images = []
    for number, part in enumerate(content):
        if number:
            pieces.append(b",")
        if url := _image_url(part):
            images.append(url)
            pieces += (b'{"type":"image_url","image_url":{"url":"', url.encode("ascii"), b'"}}')
            asked.append(b"image " + url.digest)
        else:
            piece = _encode(part)
            pieces.append(piece)
            asked.append(piece)
    pieces.append(b"]}")
    return images


def _encode(value: Any) -> bytes:
    try:
        return to_json(value)
    except PydanticSerializationError:  # half a surrogate pair, which only escaped JSON can carry
        return json.dumps(value).encode()


def strict_schema(response: type[BaseModel]) -> dict[str, Any]:
    """A model's JSON schema without titles and docstrings, every field required, as guided decoding wants it."""
    return _strict(response.model_json_schema())


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in schema.items() if name not in ("title", "description", "default")}
    for group in ("properties", "$defs"):
        if group in kept:
            kept[group] = {name: _strict(value) for name, value in kept[group].items()}
    for place in ("items", "additionalProperties"):
        if isinstance(kept.get(place), dict):
            kept[place] = _strict(kept[place])
    for choice in ("anyOf", "allOf", "oneOf"):
        if choice in kept:
            kept[choice] = [_strict(option) for option in kept[choice]]
    if "properties" in kept:
        kept["required"] = list(kept["properties"])
        kept["additionalProperties"] = False
    return kept
