"""A request's bytes: all that stays the same between calls is encoded once, then joined with the messages.

The cache key is a digest of the same bytes, which hold the model, the messages with their images, the sampling settings
and the seed, joined with the revision and the answer's schema. The URL is not in it, so a server may move.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json

from rubricworks.llm.endpoint import Endpoint

_OURS = frozenset({"messages", "seed"})


class RequestFrame:
    """The request body for one endpoint and one kind of answer, but for its messages and seed."""

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
        self._head = to_json(fields)[:-1] + b',"messages":'
        self._sends_seed = endpoint.extra_body.get("seed", 0) is not None
        self._salt = hashlib.sha256(json.dumps([endpoint.revision, schema]).encode())

    def body(self, messages: Sequence[dict[str, Any]], seed: int) -> bytes:
        tail = b',"seed":%d}' % seed if self._sends_seed else b"}"
        try:
            encoded = to_json(messages)
        except PydanticSerializationError:  # half a surrogate pair, which only escaped JSON can carry
            encoded = json.dumps(messages).encode()
        return self._head + encoded + tail

    def key(self, body: bytes, seed: int) -> bytes:
        digest = self._salt.copy()
        digest.update(b"%d\n" % seed)
        digest.update(body)
        return digest.digest()


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
