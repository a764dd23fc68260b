"""Base class of stage configurations, and their canonical JSON and digest."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from rubricworks.data import manifest
from rubricworks.llm import Endpoint


class StageConfig(BaseModel):
    """Base of every stage's configuration; unknown fields are errors, so that a typo in a recipe is not ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    moved: ClassVar[Mapping[str, str]] = {}
    """Former field → the one that took its place, for messages."""

    seed: int = Field(default=1, ge=0)
    """Seed of every random choice in the stage."""

    def versions(self) -> dict[str, str]:
        """Versions of what the output depends on besides the configuration, such as a user's own code."""
        return {}


def canonical_json(value: Any) -> str:
    """Serialize a configuration to the same text on every machine."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    return manifest.canonical_json(value).decode()


def digest_of(value: Any) -> str:
    """Return the sha256 of the canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def endpoints_in(value: Any, where: str = "") -> Iterator[tuple[str, Endpoint]]:
    """Yield (field path, endpoint) for every endpoint in a configuration or a sequence of them."""
    if isinstance(value, Endpoint):
        yield where, value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from endpoints_in(getattr(value, name), f"{where}.{name}".lstrip("."))
    elif isinstance(value, tuple | list):
        for number, item in enumerate(value):
            yield from endpoints_in(item, f"{where}.{number}")


def extract_stage_config(stage: str, text: str) -> str:
    """Return one stage's configuration as JSON, from its own text or from {"stages": {"prepare": {…}, …}}.

    A stage missing from `stages` gets its defaults, as when the recipe is older than the stage.
    """
    value = json.loads(text)
    return json.dumps(value["stages"].get(stage, {})) if isinstance(value, dict) and "stages" in value else text
