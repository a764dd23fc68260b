"""The scripted scorers: right on hand-made cases, wrong at their stated rates, weak only by what a request shows."""

import json
from math import sqrt

import pytest
from scored_cases import COUNT, SCENE, TEACHERS, ask, cases

from rubricworks.data.tables import Sample
from rubricworks.grading import Exposure, request_with_exposure, scoring_messages
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.verifiers import parse_verifier_call
from rubricworks.world.chat import read_request
from rubricworks.world.models.scorers import NOTHING_TO_SCORE, SCORERS, ScorerFaults, scorer_reply
from rubricworks.world.scene.answers import call_of, misread, read_response, write_response
from rubricworks.world.scene.attacks import BLUFFS, CIRCUMLOCUTIONS, has_bluff, has_circumlocution
from rubricworks.world.scene.checklist_sentences import (
    answer_criterion,
    is_answer_criterion,
    parse_step_criterion,
    step_criterion,
)
from rubricworks.world.scene.parsing import mentions
from rubricworks.world.scene.questions import (
    Query,
    answer_query,
    other_answers,
)
from rubricworks.world.scene.scene import CELLS, rng_of

STEPS = "at top-left a big red circle . at center a small red star ."


@pytest.mark.parametrize(
    ("query", "response", "credits"),
    [
        (COUNT, STEPS + " \\boxed{ 2 }", [1, 1, 1]),
        (COUNT, STEPS + " \\boxed{ 3 }", [0, 1, 1]),
        (COUNT, STEPS, [0, 1, 1]),
        (COUNT, "\\boxed{2}", [1, 0, 0]),
        (COUNT, "\\boxed{1} no : \\boxed{2}", [1, 0, 0]),
        (COUNT, "a small red circle at the top left . \\boxed{two}", [1, 0.5, 0]),
        (COUNT, "at top-left a big blue circle . at center a small red circle . \\boxed{2}", [1, 0.5, 0.5]),
        (COUNT, "at top-left a big blue square . \\boxed{2}", [1, 0, 0]),
        (COUNT, "at top-left a big red circle . at top-left a small blue star . \\boxed{2}", [1, 0, 0]),
        (COUNT, "", [0, 0, 0]),
        (COUNT, "the answer is 2", [0, 0, 0]),
        (Query("word"), "the word CAT . \\boxed{ cat }", [1]),
        (Query("colour", cell="center"), "\\boxed{ red }", [1, 0]),
        (Query("colour", cell="center"), "\\boxed{ Red. }", [1, 0]),
        (Query("colour", cell="center"), "\\boxed{ blue }", [0, 0]),
        (Query("box", cell="center"), "\\boxed{ [ [ 427 , 427 , 573 , 573 ] ] }", [1, 0]),
        (Query("box", cell="center"), "\\boxed{ [ [ 427 , 427 , 573 ] ] }", [0, 0]),
        (Query("box", cell="center"), "\\boxed{ in the middle }", [0, 0]),
    ],
)
def test_who_makes_no_mistakes_scores_as_the_rules_say(monkeypatch, query, response, credits):
    monkeypatch.setitem(SCORERS, "scorer", ScorerFaults())
    assert ask("scorer", query, SCENE, response)[1] == credits


def test_options_are_answered_by_letter(monkeypatch):
    """An answer implied by an analysis is a letter too."""
    monkeypatch.setitem(SCORERS, "scorer", ScorerFaults(extracts_implied=1))
    question = "what colour is the object at center ? A blue B red"
    rubric = Rubric(criteria=(Criterion(criterion="The answer.", reference="expr_verify(target='B')", weight=1),))
    sample = Sample(sample_id="s", question=question)
    for response, call in (("\\boxed{B}", "B"), ("\\boxed{A}", "A"), ("at center a small red star .", "B"), ("", "")):
        messages = scoring_messages(request_with_exposure(sample, response, rubric, "text"))
        answer = json.loads(scorer_reply(read_request({"model": "scorer", "messages": messages}), None, 0))
        assert answer["essential"][0]["credit"] == f"expr_verify(predict='{call}')"


@pytest.mark.slow
@pytest.mark.parametrize("model", [*TEACHERS, "scorer"])
def test_scorers_err_at_their_stated_rates(model):
    faults = SCORERS[model]
    extractions, credits, malformed = [], [], []
    for query, scene in cases(2_500):
        text, args = ask(model, query, scene, write_response(query, scene))
        if not args:
            malformed.append(text)
            args = ask(model, query, scene, write_response(query, scene), complaint="Answer again.")[1]
        verified = query.task in ("count", "word", "box")
        (extractions if verified else credits).append(args[0] != 1)
        credits += [credit != 1 for credit in args[1:]]
    for errors, model_name, rate in (
        (sum(extractions), len(extractions), faults.wrong_extraction),
        (sum(credits), len(credits), faults.wrong_credit),
        (len(malformed), 2_500, faults.malformed),
    ):
        assert abs(errors - model_name * rate) < 4 * sqrt(model_name * rate * (1 - rate))
    assert {text.endswith("}") for text in malformed} == {True, False}  # of several kinds


def test_the_median_of_three_teachers_is_better_than_each():
    wrong = dict.fromkeys((*TEACHERS, "median"), 0)
    for query, scene in cases(800):
        response = write_response(query, scene)
        environment = {model: ask(model, query, scene, response, complaint="again")[1] for model in TEACHERS}
        environment["median"] = [sorted(credits)[1] for credits in zip(*environment.values(), strict=True)]
        for who, credits in environment.items():
            wrong[who] += sum(credit != 1 for credit in credits)
    assert all(0 < 4 * wrong["median"] < wrong[teacher] for teacher in TEACHERS)


def answer_rate(exposure: Exposure, write) -> float:
    """Share of 500 cases in which the weak scorer credits the answer; `write` makes the response."""
    credited = 0
    for number, (query, scene) in enumerate(cases(500)):
        response = write(query, scene, rng_of("response", number))
        credits = ask("weak-scorer", query, scene, response, exposure, complaint="again")[1]
        credited += credits[0] >= 0.5
    return credited / 500


def analysis(query, scene):
    return write_response(query, scene).rpartition("\\boxed")[0]


def boxed(query, scene, rng):
    right = answer_query(query, scene)
    wrong = rng.random() < 0.5
    return write_response(query, scene, boxed=rng.choice(other_answers(query, right)) if wrong else None)


def without_answer(query, scene, rng):
    return analysis(query, scene) + " so much can be said ."


def evading(query, scene, rng):
    return f"{analysis(query, scene)} {rng.choice(CIRCUMLOCUTIONS + BLUFFS)}"


@pytest.mark.slow
def test_with_a_box_the_weak_scorer_is_about_the_same_in_all_settings():
    rates = [answer_rate(exposure, boxed) for exposure in ("text", "image", "targets", "unverified")]
    assert max(rates) - min(rates) < 0.04
    assert 0.45 < min(rates) < max(rates) < 0.62


def test_without_an_answer_the_weak_scorer_falls_for_what_is_shown():
    text = answer_rate("text", without_answer)
    assert 0.05 < text < 0.2
    # Between half and three times what RLR³ reports in Table 5.
    assert 0.013 < answer_rate("image", without_answer) - text < 0.078
    assert 0.021 < answer_rate("targets", without_answer) - text < 0.126
    assert 0.018 < answer_rate("unverified", without_answer) - text < 0.108


def test_evasions_sway_the_weak_judge_more_than_the_weak_extractor():
    text = answer_rate("text", evading)
    assert 0.15 < text < 0.37
    assert 0.022 < answer_rate("targets", evading) - text < 0.132
    assert 0.016 < answer_rate("unverified", evading) - text < 0.096


def test_by_default_nobody_finds_an_answer_that_the_response_does_not_imply():
    """There is neither image nor target in the request: an answer could come from nowhere."""
    for model in SCORERS:
        for query, scene in cases(200):
            if query.task in ("count", "word", "box"):
                assert ask(model, query, scene, CIRCUMLOCUTIONS[0], complaint="again")[1][0] == 0


def test_a_request_without_a_checklist_gets_prose():
    chat = read_request({"model": "scorer", "messages": [{"role": "user", "content": "hello"}]})
    assert scorer_reply(chat, None, 0) == NOTHING_TO_SCORE


def test_sentences_of_checklists_read_back_and_give_no_answer_away():
    for cell in CELLS:
        assert parse_step_criterion(step_criterion(cell)) == cell
        assert not is_answer_criterion(step_criterion(cell))
    for query, scene in cases(100):
        sentence = answer_criterion(query, False)
        assert is_answer_criterion(sentence)
        assert parse_step_criterion(sentence) is None
        assert (answer_query(query, scene) or "?") not in sentence.split()
    assert answer_criterion(COUNT, True) == "The final answer gives the letter of the right option."


def test_evasions_hold_nothing_to_extract():
    for sentence in (*CIRCUMLOCUTIONS, *BLUFFS):
        assert read_response(sentence).boxed is None
        assert not any(mentions(sentence))
        assert not any(character.isdigit() for character in sentence)
    assert has_circumlocution(f"first . {CIRCUMLOCUTIONS[1].upper()} \n")
    assert not has_circumlocution(BLUFFS[0])
    assert has_bluff(f"at top a star . {BLUFFS[0]}")


@pytest.mark.parametrize(
    "value", ["3", "B", "CAT", "[ [ 21 , 21 , 312 , 312 ] ]", "it's \\ odd", "9" * 500, "[[1,2,x]]"]
)
@pytest.mark.parametrize("tool", ["expr_verify", "text_verify", "bbox_verify", "list_verify", "time_verify"])
def test_every_value_makes_a_call_that_can_be_read(tool, value):
    assert parse_verifier_call(call_of(tool, value)).name == tool
    assert misread(value, rng_of("misread", tool)) != value
