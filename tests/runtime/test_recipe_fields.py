"""Every text field of every method's recipe: it has a kind, and what it reaches is refused wherever it is written."""

from collections.abc import Mapping
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel

from rubricworks.platform_api.services.submission.submission_policy import SubmissionPolicy
from rubricworks.recipe.methods import METHODS, recipe_class
from rubricworks.runtime.admission import Admission
from rubricworks.runtime.recipe_fields import Reach, reach_of

POLICY = SubmissionPolicy(hosts={"api.example.org": ()}, places=("/data",), functions=("rewards:brevity",))
HOSTILE = {
    Reach.ADDRESS: ("https://evil.example/v1", "evil.example/v1", "databricks"),
    Reach.VARIABLE: ("AWS_SECRET_ACCESS_KEY",),
    Reach.HOST: ("evil.example",),
    Reach.FUNCTION: ("os:system",),
    Reach.SOURCE: ("org/name@" + "0" * 40, "s3://private/rows", "/etc"),
    Reach.MODEL: ("org/name", "gpt2", "/etc", "hf://org/name"),
}


def text_fields(kind, path=(), named=None):
    """(path, name of the field) of each text in a configuration class; a key of one's own choice is `own`."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        if kind is not Admission and path != ("cluster",):
            for name, field in kind.model_fields.items():
                yield from text_fields(field.annotation, (*path, name), name)
    elif get_origin(kind) in (dict, Mapping):
        yield from text_fields(get_args(kind)[1], (*path, "own"), named)
    elif get_origin(kind) is not Literal and get_args(kind):
        for part in get_args(kind):
            yield from text_fields(part, path, named)
    elif kind is Any or (isinstance(kind, type) and issubclass(kind, str)):
        yield path, named
    else:
        assert kind in (int, float, bool, NoneType, ...) or not isinstance(kind, type), f"{kind} at {'.'.join(path)}"


FIELDS = sorted({field for method in METHODS for field in text_fields(recipe_class(method))})
REACHING = [path for path, _ in FIELDS if reach_of(path) in HOSTILE]


def nested(path, value):
    for name in reversed(path):
        value = {name: value}
    return value


def test_every_text_field_of_every_method_has_a_kind():
    unknown = [path for path, name in FIELDS if (reach_of((name,)) or reach_of(path[-2:])) is None]
    assert not unknown, "add their names to recipe_fields, by what they reach"
    assert len(REACHING) > 50


@pytest.mark.parametrize("path", REACHING, ids=".".join)
def test_what_a_field_reaches_is_refused_in_a_section_an_arm_and_a_change(path):
    for hostile in HOSTILE[reach_of(path)]:
        dotted = ".".join(path)
        assert POLICY.violations_in(nested(path, hostile)), hostile
        assert POLICY.violations_in({"arms": {"a": {dotted: hostile}}}), hostile
        assert POLICY.violations_in({"new_samples": {"changes": {dotted: hostile}}}), hostile
        assert POLICY.violations_in({"new_samples": {"changes": {dotted: [hostile]}}}), hostile
