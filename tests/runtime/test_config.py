"""Digests of configurations: what is not set is not in them, what is set is, and no two settings share one."""

import json
from itertools import combinations
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from rubricworks.recipe.files import built_in_recipes, load_recipe
from rubricworks.runtime.config import StageConfig, canonical_json, digest_of, parameter_json


class Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Sampling(Frozen):
    temperature: float = 1.0
    top: int = 0


class Exam(Frozen):
    type: Literal["exam"] = "exam"
    questions: int = 4


class Likert(Frozen):
    type: Literal["likert"] = "likert"


class Config(StageConfig):
    steps: int = 100
    sampling: Sampling = Sampling()
    judges: tuple[Sampling, ...] = ()
    by_task: dict[str, Sampling] = Field(default={})
    reward: Exam | Likert = Exam()


def with_new_options() -> type[StageConfig]:
    """`Config` of a later version: an option more at the top, in a section and in a union's member."""

    class Sampling(Frozen):
        temperature: float = 1.0
        top: int = 0
        bottom: int | None = None

    class Exam(Frozen):
        type: Literal["exam"] = "exam"
        questions: int = 4
        letters: str = "ABCD"

    class Config(StageConfig):
        steps: int = 100
        sampling: Sampling = Sampling()
        judges: tuple[Sampling, ...] = ()
        by_task: dict[str, Sampling] = Field(default={})
        reward: Exam | Likert = Exam()
        audit: Sampling | None = None

    return Config


SETTINGS = (
    {},
    {"steps": 50},
    {"seed": 2},
    {"sampling": {"temperature": 0.5}},
    {"judges": [{}]},
    {"judges": [{}, {}]},
    {"judges": [{"top": 3}, {}]},
    {"judges": [{}, {"top": 3}]},
    {"by_task": {"count": {}}},
    {"by_task": {"colour": {}}},
    {"reward": {"type": "exam", "questions": 8}},
    {"reward": {"type": "likert"}},
)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_new_options_leave_the_digest_of_settings_without_them(settings):
    assert digest_of(Config(**settings)) == digest_of(with_new_options()(**settings))


@pytest.mark.parametrize("pair", combinations(SETTINGS, 2), ids=str)
def test_different_settings_have_different_digests(pair):
    first, second = (digest_of(Config(**settings)) for settings in pair)
    assert first != second


def test_default_written_out_is_the_default():
    written = Config(steps=100, sampling={"temperature": 1}, judges=[], reward={"type": "exam", "questions": 4})
    assert digest_of(written) == digest_of(Config())


@pytest.mark.parametrize("path", built_in_recipes(), ids=lambda path: path.stem)
def test_stages_read_their_json_back_to_the_same_digest(path):
    for stage, config in load_recipe(path).stage_configs().items():
        assert digest_of(type(config).model_validate_json(canonical_json(config))) == digest_of(config), stage


TEXTS = st.text(
    alphabet=st.sampled_from([*'{[\\"]} $/u0', "\N{ROCKET}", "\u00e9", "\u2028", "\x7f", "\n"]), max_size=12
)
VALUES = st.recursive(
    TEXTS | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)


@given(VALUES)
def test_a_parameter_is_the_same_value_in_ascii_without_placeholders(value):
    text = parameter_json(canonical_json(value))
    assert json.loads(text) == value
    assert text.isascii()
    assert "{{" not in text
    assert "[[" not in text
