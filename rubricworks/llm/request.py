"""Encoding of a request and its cache key. The parts that calls share are encoded and hashed once.

The key is the sha256 of the kind of endpoint, model, revision, sampling settings, answer schema, sample index and
messages, with each image replaced by its digest. The URL is not part of it, so a server may move. Images are inserted
into the body as they are, because a data URL needs no JSON escapes.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json

from rubricworks.llm.endpoint import Endpoint
from rubricworks.llm.image_tokens import image_tokens
from rubricworks.llm.messages import DataUrl, Message, Part

_KIND = "openai-chat-completions"
_RESERVED_FIELDS = frozenset({"messages", "seed"})
_MAX_PREFIXES = 64
BYTES_PER_TOKEN = 3


class Request(NamedTuple):
    """One encoded request."""

    body: bytes
    key: bytes
    """32 bytes."""
    tokens: int
    """Estimated prompt tokens, for the budget: three bytes of text per token; images by `image_tokens`."""


class RequestFrame:
    """Encoder of requests for one endpoint and one response schema."""

    def __init__(
        self, endpoint: Endpoint, response: type[BaseModel] | None, more: Mapping[str, object] | None = None
    ) -> None:
        """
        Args:
            more: further fields of the request; the endpoint's `extra_body` goes before them.
        """
        schema = None if response is None else strict_schema(response)
        fields: dict[str, object] = {
            "model": endpoint.model,
            "temperature": endpoint.temperature,
            "max_tokens": endpoint.max_tokens,
        }
        if response is not None:
            json_schema = {"name": response.__name__, "schema": schema, "strict": True}
            fields["response_format"] = {"type": "json_schema", "json_schema": json_schema}
        fields |= more or {}
        fields |= {name: value for name, value in endpoint.extra_body.items() if name not in _RESERVED_FIELDS}
        fields = {name: value for name, value in fields.items() if value is not None}
        self._head = to_json(fields)[:-1] + b',"messages":['
        self._sends_seed = endpoint.extra_body.get("seed", 0) is not None
        self._hash = hashlib.sha256(json.dumps([_KIND, endpoint.revision, schema]).encode() + self._head)
        self._prefixes: dict[str, tuple[bytes, Any]] = {}
        self._image_tokens = image_tokens(endpoint)

    def encode(self, messages: Sequence[Message], seed: int) -> Request:
        if not messages:
            raise ValueError("there is no message to send")
        first = messages[0]
        if len(messages) > 1 and first.get("role") == "system" and len(first) == 2:
            prefix, digest = self._prefix(first)
            messages = messages[1:]
        else:
            prefix, digest = self._head, self._hash.copy()
        suffix = b'],"seed":%d}' % seed if self._sends_seed else b"]}"
        for message in messages:
            if type(message.get("content")) is list:
                return _with_images(prefix, messages, suffix, digest, seed, self._image_tokens)
        text = _encode(messages)[1:-1]
        digest.update(b"%d" % seed + text)
        body = prefix + text + suffix
        return Request(body, digest.digest(), len(body) // BYTES_PER_TOKEN)

    def _prefix(self, message: Message) -> tuple[bytes, Any]:
        """Encoded head and system message, and their hash state; the same for every request of a purpose."""
        content = message["content"]
        cached = self._prefixes.get(content) if isinstance(content, str) else None
        if cached is None:
            prefix = self._head + _encode(message) + b","
            digest = self._hash.copy()
            digest.update(prefix)
            if len(self._prefixes) >= _MAX_PREFIXES:
                self._prefixes.clear()
            cached = (prefix, digest)
            if isinstance(content, str):
                self._prefixes[content] = cached
        return cached[0], cached[1].copy()


def _with_images(
    prefix: bytes, messages: Sequence[Message], suffix: bytes, digest: Any, seed: int, image_tokens: int
) -> Request:
    """Encode messages with images, which enter the body unchanged and the hash as digests."""
    pieces, hashed, images = [prefix], [b"%d" % seed], []
    for number, message in enumerate(messages):
        if number:
            pieces.append(b",")
        if isinstance(content := message.get("content"), list):
            images += _append_parts(message, content, pieces, hashed)
        else:
            pieces.append(_encode(message))
            hashed.append(pieces[-1])
    digest.update(b"\n".join(hashed))
    body = b"".join((*pieces, suffix))
    text = len(body) - sum(map(len, images))
    return Request(body, digest.digest(), text // BYTES_PER_TOKEN + image_tokens * len(images))


def _image_url(part: Any) -> DataUrl | None:
    """Data URL of a message part made by `image_part`, or None."""
    if not isinstance(part, dict) or len(part) != 2 or part.get("type") != "image_url":
        return None
    holder = part.get("image_url")
    if not isinstance(holder, dict) or len(holder) != 1:
        return None
    url = holder.get("url")
    return url if isinstance(url, DataUrl) else None


def _append_parts(message: Message, content: list[Part], pieces: list[bytes], hashed: list[bytes]) -> list[DataUrl]:
    """Append a message to the pieces of the body and of the hash; returns its images."""
    others = _encode({name: value for name, value in message.items() if name != "content"})
    pieces.append(others[:-1] + (b',"content":[' if len(others) > 2 else b'"content":['))
    hashed.append(others)
    images = []
    for number, part in enumerate(content):
        if number:
            pieces.append(b",")
        if url := _image_url(part):
            images.append(url)
            pieces += (b'{"type":"image_url","image_url":{"url":"', url.encode("ascii"), b'"}}')
            hashed.append(b"image " + url.digest)
        else:
            piece = _encode(part)
            pieces.append(piece)
            hashed.append(piece)
    pieces.append(b"]}")
    return images


def _encode(value: Any) -> bytes:
    try:
        return to_json(value)
    except PydanticSerializationError:  # a lone surrogate, which only escaped JSON can carry
        return json.dumps(value).encode()


def strict_schema(response: type[BaseModel]) -> dict[str, object]:
    """JSON schema of a pydantic model for guided decoding: no titles or docstrings, every field required."""
    return _strict(response.model_json_schema())


def _strict(schema: dict[str, Any]) -> dict[str, object]:
    strict = {name: value for name, value in schema.items() if name not in ("title", "description", "default")}
    for group in ("properties", "$defs"):
        if group in strict:
            strict[group] = {name: _strict(value) for name, value in strict[group].items()}
    for keyword in ("items", "additionalProperties"):
        if isinstance(strict.get(keyword), dict):
            strict[keyword] = _strict(strict[keyword])
    for keyword in ("anyOf", "allOf", "oneOf"):
        if keyword in strict:
            strict[keyword] = [_strict(option) for option in strict[keyword]]
    if "properties" in strict:
        strict["required"] = list(strict["properties"])
        strict["additionalProperties"] = False
    return strict
