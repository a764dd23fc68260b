"""Base class of stage configurations, and their canonical JSON and digest."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rubricworks.data import manifest
from rubricworks.llm import Endpoint, GivesLogprobs, SeesImages

Marker = SeesImages | GivesLogprobs


class StageConfig(BaseModel):
    """Base of every stage's configuration; unknown fields are errors, so that a typo in a recipe is not ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True)

    moved: ClassVar[Mapping[str, str]] = {}
    """Former field → the one that took its place, for messages."""

    seed: int = Field(default=1, ge=0)
    """Seed of every random choice in the stage."""

    @model_validator(mode="before")
    @classmethod
    def _booleans_are_no_numbers(cls, data: Any) -> Any:
        return booleans_as_words(cls, data)

    def versions(self) -> dict[str, str]:
        """Versions of what the output depends on besides the configuration, such as a user's own code."""
        return {}


def booleans_as_words(kind: Any, data: Any) -> Any:
    """Replace the booleans in the data of a number's field by words, which pydantic refuses; it takes `true` for 1.

    Args:
        kind: type of the data: a configuration class, or the annotation of a field.
    """
    if isinstance(data, bool):
        return str(data).lower() if _only_numbers(kind) else data
    if isinstance(data, dict):
        kinds = _members(kind)
        fields = {
            name: field.annotation
            for one in kinds
            if isinstance(one, type) and issubclass(one, BaseModel)
            for name, field in one.model_fields.items()
        }
        values = [get_args(one)[1] for one in kinds if get_origin(one) in (dict, Mapping) and get_args(one)]
        return {
            key: booleans_as_words(fields.get(key, values[0] if values else Any), value) for key, value in data.items()
        }
    if isinstance(data, list | tuple):
        items = [one for of in _members(kind) for one in (get_args(of) if get_origin(of) in (list, tuple) else ())]
        items = [one for one in items if one is not Ellipsis]
        # A tuple of several kinds has as many items as kinds.
        kinds = items if len(items) == len(data) else [items[0] if items else Any] * len(data)
        replaced = [booleans_as_words(one, item) for one, item in zip(kinds, data, strict=True)]
        return data if replaced == [*data] else replaced
    return data


def _only_numbers(kind: Any) -> bool:
    """Return True if an annotation has a number among its kinds, and nothing that a boolean is a value of."""
    kinds = _members(kind)
    return any(one in (int, float) for one in kinds) and not any(
        one is bool or one is Any or (get_origin(one) is not None and True in get_args(one)) for one in kinds
    )


def _members(kind: Any) -> list[Any]:
    """Kinds of a union, without `Annotated` around them; an annotation that is no union, alone."""
    if get_origin(kind) is Annotated:
        return _members(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return [member for one in get_args(kind) for member in _members(one)]
    return [kind]


def canonical_json(value: Any) -> str:
    """Serialize a configuration to the same text on every machine."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    return manifest.canonical_json(value).decode()


def digest_of(value: Any) -> str:
    """Return the sha256 of the canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def image_endpoints_in(value: Any) -> Iterator[Endpoint]:
    """Yield every endpoint in a configuration, or a sequence of them, whose model is shown images."""
    return _marked_endpoints_in(value, SeesImages)


def logprob_endpoints_in(value: Any) -> Iterator[Endpoint]:
    """Yield every endpoint in a configuration, or a sequence of them, of which log-probabilities are used."""
    return _marked_endpoints_in(value, GivesLogprobs)


def _marked_endpoints_in(value: Any, kind: type[Marker], *, marked: bool = False) -> Iterator[Endpoint]:
    """Yield the endpoints of fields with a marker of the kind that holds.

    Args:
        marked: the endpoints of the value itself are.
    """
    if isinstance(value, Endpoint):
        if marked:
            yield value
    elif isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            marks = _marks([field.annotation, *field.metadata], kind)
            inner = any(mark.when(value) for mark in marks)
            yield from _marked_endpoints_in(getattr(value, name), kind, marked=inner)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _marked_endpoints_in(item, kind, marked=marked)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _marked_endpoints_in(item, kind, marked=marked)


def _marks(annotations: Iterable[Any], kind: type[Marker]) -> list[Marker]:
    """Markers of a kind in annotations, at any depth."""
    marks: list[Marker] = []
    for one in annotations:
        inner = (*get_args(one), *getattr(one, "__metadata__", ()))
        marks += [one] if isinstance(one, kind) else _marks(inner, kind)
    return marks


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
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from endpoints_in(item, f"{where}.{name}")


def extract_stage_config(stage: str, text: str) -> str:
    """Return one stage's configuration as JSON, from its own text or from {"stages": {"prepare": {…}, …}}.

    A stage missing from `stages` gets its defaults, as when the recipe is older than the stage.
    """
    value = json.loads(text)
    return json.dumps(value["stages"].get(stage, {})) if isinstance(value, dict) and "stages" in value else text
