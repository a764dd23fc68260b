"""Base class of stage configurations, and their canonical JSON and digest."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Le, Lt
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from rubricworks.data import manifest
from rubricworks.llm import Endpoint, GivesLogprobs, SeesImages
from rubricworks.llm.served import ServedAddress, ServedModel

Marker = SeesImages | GivesLogprobs
MOST = 2**31 - 1
"""Largest whole number of a configuration, unless its field says otherwise: counts, sizes and seeds have no larger use,
and what is above overflows in libraries, some only in the middle of a run.
"""

_STRING_OR_LISTS = re.compile(r'"(?:[^"\\]|\\.)*"|\[\[+', re.DOTALL)
"""A string of a JSON text, or adjacent lists outside of strings."""


class StageConfig(BaseModel):
    """Base of every stage's configuration; unknown fields are errors, so that a typo in a recipe is not ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True)

    seed: int = Field(default=1, ge=0)
    """Seed of every random choice in the stage."""

    @model_validator(mode="before")
    @classmethod
    def _booleans_are_no_numbers(cls, data: Any) -> Any:
        return booleans_as_words(cls, data)

    def versions(self) -> dict[str, str]:
        """Versions of other things that the output depends on, such as a user's own code."""
        return {}


def require_bounded(value: Any, where: str = "") -> None:
    """Raise ValueError for a whole number beyond `MOST` in a field without an upper bound of its own, at any depth."""
    if isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            if not any(isinstance(mark, Le | Lt) for mark in field.metadata):
                require_bounded(getattr(value, name), f"{where}.{name}".lstrip("."))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            require_bounded(item, f"{where}.{number}")
    elif isinstance(value, Mapping):
        for name, item in value.items():
            require_bounded(item, f"{where}.{name}")
    elif isinstance(value, int) and abs(value) > MOST:
        raise ValueError(f"{where} is {'above' if value > 0 else 'below minus'} {MOST}; write a number within that")


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
            for member in kinds
            if isinstance(member, type) and issubclass(member, BaseModel)
            for name, field in member.model_fields.items()
        }
        values = [get_args(member)[1] for member in kinds if get_origin(member) in (dict, Mapping) and get_args(member)]
        return {
            key: booleans_as_words(fields.get(key, values[0] if values else Any), value) for key, value in data.items()
        }
    if isinstance(data, list | tuple):
        sequences = [member for member in _members(kind) if get_origin(member) in (list, tuple)]
        kinds = [item for sequence in sequences for item in get_args(sequence) if item is not Ellipsis]
        if len(kinds) != len(data):  # a tuple of several kinds has as many items as kinds
            kinds = (kinds or [Any])[:1] * len(data)
        replaced = [booleans_as_words(*pair) for pair in zip(kinds, data, strict=True)]
        return data if replaced == [*data] else replaced
    return data


def _only_numbers(kind: Any) -> bool:
    """Return True if an annotation has a number among its kinds, and nothing that a boolean is a value of."""
    kinds = _members(kind)
    return any(member in (int, float) for member in kinds) and not any(
        member is bool or member is Any or (get_origin(member) is not None and True in get_args(member))
        for member in kinds
    )


def _members(kind: Any) -> list[Any]:
    """Members of a union, without `Annotated`; for any other annotation, the annotation itself."""
    if get_origin(kind) is Annotated:
        return _members(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return [member for part in get_args(kind) for member in _members(part)]
    return [kind]


def canonical_json(value: Any) -> str:
    """Serialize a configuration to the same text on every machine."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    return manifest.canonical_json(value).decode()


def parameter_json(text: str) -> str:
    """Write JSON so that it passes through a pipeline's parameters unchanged.

    Kubeflow resolves `{{$…}}` and `[[Index]]`, and Argo `{{item}}`, anywhere in a parameter, also in a prompt; a
    database of MySQL's `utf8` stores no emoji. So there are escapes in strings, and spaces between adjacent lists.
    """
    return _STRING_OR_LISTS.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    if not (text := match[0]).startswith('"'):
        return " ".join(text)
    text = text.replace("{{", "{\\u007b").replace("[[", "[\\u005b")
    return "".join(sign if sign.isascii() else json.dumps(sign)[1:-1] for sign in text)


def without_emoji(name: str) -> str:
    """Write the signs of a name that MySQL's `utf8` does not store by their numbers, such as U+1F680."""
    return "".join(sign if ord(sign) <= 0xFFFF else f"U+{ord(sign):X}" for sign in name)


def digest_of(value: Any) -> str:
    """Return the sha256, in hexadecimal, of a configuration without the fields that equal their defaults.

    So a new option leaves the digests of configurations that do not set it. The tag of a union's member stays: without
    it, two members with their defaults would have one digest.
    """
    return hashlib.sha256(manifest.canonical_json(_without_defaults(value))).hexdigest()


def _without_defaults(value: Any) -> Any:
    """Return the value as JSON data, without the fields that equal their defaults."""
    if isinstance(value, BaseModel):
        settings = [(name, field, getattr(value, name)) for name, field in type(value).model_fields.items()]
        return {
            name: _without_defaults(setting)
            for name, field, setting in settings
            if _is_tag(field) or setting != field.get_default(call_default_factory=True)
        }
    if isinstance(value, Mapping):
        return {str(key): _without_defaults(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_defaults(item) for item in value]
    return to_jsonable_python(value)


def _is_tag(field: FieldInfo) -> bool:
    """Return True for a field with a single possible value, which discriminates the members of a union."""
    return get_origin(field.annotation) is Literal and len(get_args(field.annotation)) == 1


def image_endpoints_in(value: Any) -> Iterator[Endpoint]:
    """Yield every endpoint in one or several configurations whose model receives images."""
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
            inner = marked or any(mark.when(value) for mark in marks)
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
    for annotation in annotations:
        inner = (*get_args(annotation), *getattr(annotation, "__metadata__", ()))
        marks += [annotation] if isinstance(annotation, kind) else _marks(inner, kind)
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


def served_in(value: Any) -> Iterator[ServedModel]:
    """Yield the model of every endpoint and address in a configuration that the run serves."""
    if isinstance(value, Endpoint | ServedAddress):
        if value.serve is not None:
            yield value.serve
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from served_in(getattr(value, name))
    elif isinstance(value, tuple | list):
        for inner in value:
            yield from served_in(inner)
    elif isinstance(value, Mapping):
        yield from served_in(list(value.values()))


def extract_stage_config(stage: str, text: str) -> str:
    """Return one stage's configuration as JSON, from its own text or from {"stages": {"prepare": {…}, …}}.

    A stage missing from `stages` gets its defaults, as reports do, which no registered recipe holds.
    """
    value = json.loads(text)
    return json.dumps(value["stages"].get(stage, {})) if isinstance(value, dict) and "stages" in value else text
