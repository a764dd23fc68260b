"""What every stage's configuration has in common."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from rubricworks.data import manifest
from rubricworks.llm import Endpoint


class StageConfig(BaseModel):
    """Unknown fields are errors, so that a typo in a recipe cannot pass for a setting."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    seed: int = Field(default=1, ge=0)
    """Every random choice of the stage follows from it."""


def canonical_json(value: Any) -> str:
    """The same text for the same configuration, on every machine."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    return manifest.canonical_json(value).decode()


def digest_of(value: Any) -> str:
    """sha256 of the canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def endpoints_in(value: Any, where: str = "") -> Iterator[tuple[str, Endpoint]]:
    """Every endpoint in a configuration, or in several, with the field that names it."""
    if isinstance(value, Endpoint):
        yield where, value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from endpoints_in(getattr(value, name), f"{where}.{name}".lstrip("."))
    elif isinstance(value, tuple | list):
        for number, one in enumerate(value):
            yield from endpoints_in(one, f"{where}.{number}")


def own_config(stage: str, text: str) -> str:
    """A stage's configuration as JSON, also where those of several stand together: {"stages": {"prepare": {…}}}.

    A stage that is not among them, as those that an older recipe did not know, has its defaults.
    """
    value = json.loads(text)
    return json.dumps(value["stages"].get(stage, {})) if isinstance(value, dict) and "stages" in value else text
