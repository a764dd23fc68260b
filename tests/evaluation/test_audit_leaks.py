"""The check that an abnormal response gives no answer away: both ways, by rules alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.evaluation.audit.annotations import Annotation
from rubricworks.evaluation.audit.candidates import find_leak, mentions_target, stated_answers
from rubricworks.evaluation.audit.values import ATTACKS, Failure
from rubricworks.rubrics import Criterion, Rubric

COUNT = Criterion(criterion="Gives the number.", reference="expr_verify(target='3')", weight=3)
LETTER = Criterion(criterion="Gives the letter.", reference="expr_verify(target='A')", weight=3)
SIGN = Criterion(criterion="Reads the sign.", reference="text_verify(target='Main Street')", weight=3)
BOX = Criterion(criterion="Gives the box.", reference="bbox_verify(target=[[21, 21, 312, 312]])", weight=3)
ITEMS = Criterion(criterion="Lists them.", reference="list_verify(target=['tea', 'salt'])", weight=3)
WORDS = Criterion(criterion="Says the colour.", reference="red", weight=1)


def leak(response, criterion, mode="adversarial", attack="circumlocution", credit=0.0, question="what is it?"):
    rubric = Rubric(criteria=(criterion,))
    annotations = (Annotation(criterion=criterion.criterion, credit=credit),)
    failure = Failure(mode, "i", attack if mode == "adversarial" else None)
    return find_leak(question, response, rubric, annotations, failure)


@pytest.mark.parametrize(
    ("response", "criterion"),
    [
        ("There are 3 of them.", COUNT),
        ("There are three of them.", COUNT),
        ("So $3$ remain.", COUNT),
        ("It is option A that fits.", LETTER),
        ("we pick (A) here", LETTER),
        ("It is on MAIN  STREET, I think.", SIGN),
        ("around [ [ 21 , 21 , 312 , 312 ] ]", BOX),
        ("Salt, and tea.", ITEMS),
        (r"so \boxed{6/2}", COUNT),
        (r"so \boxed{[[20, 21, 312, 310]]}", BOX),
    ],
)
def test_target_in_a_response_that_must_not_know_it_is_a_leak(response, criterion):
    assert leak(response, criterion) is not None


@pytest.mark.parametrize(
    ("response", "criterion"),
    [
        ("There are 13 of them, or 3.5, or 3,000.", COUNT),
        ("A circle stands there.", LETTER),
        ("on the mainstreet", SIGN),
        ("around [21, 21, 312, 313]", BOX),
        ("Only tea.", ITEMS),
        (r"so \boxed{4}", COUNT),
        ("It is red.", WORDS),  # ground truth in words is for people and judges to find
        ("", COUNT),
    ],
)
def test_what_only_looks_like_the_target_is_no_leak(response, criterion):
    assert leak(response, criterion) is None


def test_criterion_that_the_response_meets_cannot_leak():
    assert leak("There are 3.", COUNT, credit=1.0) is None


@pytest.mark.parametrize("mode", ["no_final_answer", "wrong_but_plausible", "adversarial"])
def test_analysis_may_touch_on_the_value_but_not_give_it_as_the_answer(mode):
    def leaks_in(response):
        return leak(response, COUNT, mode=mode, attack="wrong_final_selection")

    assert leaks_in("First 2, then 3 came up; the answer is 4.") is None
    assert leaks_in("One more makes it. The answer is 3.") is not None
    assert leaks_in("One more makes it. Answer: three") is not None
    assert leaks_in("One more makes it.\n3") is not None


def test_unfinished_response_has_no_boxed_answer_of_any_kind():
    assert leak(r"so \boxed{4}", COUNT, mode="no_final_answer") == "it has a boxed answer, '4'"
    assert leak(r"so \boxed{4}", COUNT, mode="wrong_but_plausible") is None


def test_value_that_the_question_names_is_no_leak_until_it_is_the_answer():
    question = "Is it on Main Street or on Elm Street?"
    assert leak("Main Street and Elm Street cross here.", SIGN, question=question) is None
    assert leak("The answer is Main Street.", SIGN, question=question) is not None


def test_stated_answers_are_found_behind_the_word_and_at_the_end():
    assert stated_answers("So the answer is 3.5. Fine.") == ["3.5"]
    assert stated_answers("Steps.\nanswer: B") == ["B", "answer: B"]
    assert stated_answers("no such thing") == []


NUMBERS = st.integers(min_value=2, max_value=5_000)
WORDLIKE = st.sampled_from(("the", "count", "of", "birds", "by", "a", "wall", "under", "some", "sky", "seems", "large"))


@given(st.lists(WORDLIKE, max_size=12), NUMBERS, st.integers(min_value=0, max_value=12))
def test_number_among_words_is_always_found(words, number, place):
    text = " ".join([*words[:place], str(number), *words[place:]])
    assert mentions_target(text, f"expr_verify(target='{number}')")
    assert leak(text, COUNT.model_copy(update={"reference": f"expr_verify(target='{number}')"}))


@given(st.lists(st.one_of(WORDLIKE, NUMBERS.map(str)), max_size=12), NUMBERS)
def test_other_numbers_and_words_are_never_the_target(words, number):
    text = " ".join(word for word in words if word != str(number))
    assert not mentions_target(text, f"expr_verify(target='{number}')")


@given(st.text(max_size=200), st.sampled_from(ATTACKS), st.sampled_from([COUNT, LETTER, SIGN, BOX, ITEMS]))
def test_any_text_is_looked_through_without_failing(text, attack, criterion):
    assert leak(text, criterion, attack=attack) is None or isinstance(leak(text, criterion, attack=attack), str)
