"""Valid and invalid values of rubrics, verdicts and scorecards."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rubricworks.rubrics import Criterion, ErrorClass, Rubric, Scorecard, Verdict

CREDITS = st.none() | st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from([0, 0.5, 1])
ERRORS = st.none() | st.sampled_from(list(ErrorClass))
TITLES = st.lists(st.text(min_size=1, max_size=8).filter(str.strip), min_size=1, max_size=6)


@given(CREDITS, ERRORS)
def test_a_verdict_holds_a_credit_between_0_and_1_or_an_error_and_never_both(credit, error):
    possible = (error is not None) if credit is None else (error is None and 0 <= credit <= 1)
    if possible:
        verdict = Verdict(criterion="c", credit=credit, error=error)
        assert (verdict.credit is None) != (verdict.error is None)
        assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict
    else:
        with pytest.raises(ValidationError):
            Verdict(criterion="c", credit=credit, error=error)


@given(TITLES)
def test_a_rubric_has_unique_titles(titles):
    criteria = tuple(Criterion(criterion=title, weight=1) for title in titles)
    stripped = [title.strip() for title in titles]
    if len(set(stripped)) == len(stripped):
        rubric = Rubric(criteria=criteria)
        assert [criterion.criterion for criterion in rubric.criteria] == stripped
        assert Rubric.model_validate_json(rubric.model_dump_json()) == rubric
    else:
        with pytest.raises(ValidationError, match="titles must be unique"):
            Rubric(criteria=criteria)


@pytest.mark.parametrize("weight", [0, -0.0, math.inf, -math.inf, math.nan, "heavy"])
def test_a_weight_is_a_finite_number_other_than_0(weight):
    with pytest.raises(ValidationError, match="weight"):
        Criterion(criterion="c", weight=weight)


def test_a_rubric_may_hold_pitfalls_but_not_pitfalls_alone():
    pitfall, merit = Criterion(criterion="invents an object", weight=-2), Criterion(criterion="names the cat", weight=3)
    rubric = Rubric(criteria=(merit, pitfall))
    assert rubric.weights == [3, -2]
    assert rubric.has_pitfalls
    assert not Rubric(criteria=(merit,)).has_pitfalls
    assert Rubric.model_validate_json(rubric.model_dump_json()) == rubric
    with pytest.raises(ValidationError, match="nothing can be earned"):
        Rubric(criteria=(pitfall,))


@pytest.mark.parametrize("fields", [{"criterion": " \n"}, {"criterion": ""}, {"criterion": "c", "importance": 3}, {}])
def test_a_criterion_has_a_title_and_no_unknown_fields(fields):
    with pytest.raises(ValidationError):
        Criterion(**{"weight": 1, **fields})


def test_a_rubric_has_a_criterion_and_a_scorecard_a_verdict():
    with pytest.raises(ValidationError):
        Rubric(criteria=())
    with pytest.raises(ValidationError):
        Scorecard(sample_id="s", response="r", judge="j", verdicts=())


def test_a_scorecard_lists_credits_in_order_and_knows_whether_it_is_complete():
    judged = Verdict(criterion="a", credit=0.5)
    failed = Verdict(criterion="b", error=ErrorClass.TRUNCATED)
    card = Scorecard(sample_id="s", response="", judge="j", verdicts=(judged, failed))
    assert card.credits == [0.5, None]
    assert not card.complete
    assert card.model_copy(update={"verdicts": (judged,)}).complete


def test_values_do_not_change():
    rubric = Rubric(criteria=(Criterion(criterion="a", weight=3), Criterion(criterion="b", weight=1)))
    assert rubric.weights == [3, 1]
    with pytest.raises(ValidationError, match="frozen"):
        rubric.criteria[0].weight = 5
