"""A judge's assertions: the paper's answer format is read, and what is no answer is refused with its place."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rubricworks.rubrics import CaptionAssertions

ANSWER = {
    "synthetic_features": {
        "atomic_assertions": [
            {"text": "a silver hubcap", "is_verified": True},
            {"text": "adds depth", "is_verified": False},
        ],
        "clarity_score": 9,
        "fluency_score": 10,
        "coherency_score": 1,
        "linguistic_scores_explanation": "Reads well; the last sentence stands alone.",
    },
    "gt_features": {"atomic_assertions": [{"text": "a red door", "is_covered": False}]},
}


def changed(path, value):
    """The answer with one place set to a value, or dropped where the value is `...`."""
    answer = copy.deepcopy(ANSWER)
    *way, last = path.split(".")
    place = answer
    for step in way:
        place = place[int(step) if step.isdigit() else step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return answer


def test_the_papers_answer_is_read_and_written_back_as_it_was():
    assertions = CaptionAssertions.model_validate_json(json.dumps(ANSWER))
    assert assertions.synthetic_features.atomic_assertions[1].is_verified is False
    assert assertions.gt_features.atomic_assertions[0].text == "a red door"
    assert json.loads(assertions.model_dump_json()) == ANSWER


SCORES = [f"synthetic_features.{name}_score" for name in ("clarity", "fluency", "coherency")]


@given(st.sampled_from(SCORES), st.integers(-5, 15))
def test_a_score_is_a_whole_number_from_1_to_10(path, score):
    if 1 <= score <= 10:
        CaptionAssertions.model_validate(changed(path, score))
    else:
        with pytest.raises(ValidationError, match=r"_score"):
            CaptionAssertions.model_validate(changed(path, score))


@pytest.mark.parametrize("path", SCORES)
@pytest.mark.parametrize("score", ["9/10", "9", 9.5, 9.0, True, None, [9], ...])
def test_what_only_looks_like_a_score_is_refused(path, score):
    with pytest.raises(ValidationError, match=path):
        CaptionAssertions.model_validate(changed(path, score))
    with pytest.raises(ValidationError, match=path):
        CaptionAssertions.model_validate_json(json.dumps(changed(path, score)))


@pytest.mark.parametrize(
    "path", ["synthetic_features.atomic_assertions.0.is_verified", "gt_features.atomic_assertions.0.is_covered"]
)
@pytest.mark.parametrize("mark", ["true", 1, 0, None, "yes", ...])
def test_a_mark_is_true_or_false_and_nothing_else(path, mark):
    with pytest.raises(ValidationError, match=path):
        CaptionAssertions.model_validate(changed(path, mark))


@pytest.mark.parametrize(
    "path",
    [
        "synthetic_features",
        "gt_features",
        "synthetic_features.atomic_assertions",
        "gt_features.atomic_assertions",
        "synthetic_features.linguistic_scores_explanation",
        "synthetic_features.atomic_assertions.1.text",
    ],
)
@pytest.mark.parametrize("value", [..., None, 3])
def test_every_part_must_be_there(path, value):
    with pytest.raises(ValidationError, match=path):
        CaptionAssertions.model_validate(changed(path, value))


@pytest.mark.parametrize("text", ["", "  \n", "x" * 2_001])
def test_an_assertion_says_something_and_is_short(text):
    with pytest.raises(ValidationError, match=r"assertions\.0\.text"):
        CaptionAssertions.model_validate(changed("gt_features.atomic_assertions.0.text", text))
    CaptionAssertions.model_validate(changed("gt_features.atomic_assertions.0.text", "x" * 2_000))


def test_a_judge_that_lists_without_end_is_refused():
    endless = [{"text": "a car", "is_covered": True}] * 1_001
    with pytest.raises(ValidationError, match="gt_features"):
        CaptionAssertions.model_validate(changed("gt_features.atomic_assertions", endless))
    CaptionAssertions.model_validate(changed("gt_features.atomic_assertions", endless[1:]))


def test_a_list_may_be_empty_and_may_repeat_itself():
    for claims in ([], ANSWER["gt_features"]["atomic_assertions"] * 3):
        assertions = CaptionAssertions.model_validate(changed("gt_features.atomic_assertions", claims))
        assert len(assertions.gt_features.atomic_assertions) == len(claims)


@pytest.mark.parametrize("path", ["note", "synthetic_features.note", "gt_features.atomic_assertions.0.is_verified"])
def test_unknown_fields_are_refused(path):
    with pytest.raises(ValidationError, match="Extra inputs"):
        CaptionAssertions.model_validate(changed(path, True))
