"""The scripted writer of abnormal responses, its reviewers and the red team: what they do, and how often they slip."""

import json
from collections import Counter

import pytest
from audited import labelled_rows

from rubricworks.evaluation.audit.candidates import read_draft
from rubricworks.evaluation.audit.prompts import INSTRUCTIONS, quality_messages, writer_messages
from rubricworks.evaluation.audit.red_team import PAPER_PATTERNS, PatternProposals, PatternResult, red_team_messages
from rubricworks.evaluation.audit.values import Case, Failure
from rubricworks.rubrics import Rubric
from rubricworks.verifiers.boxed import last_boxed
from rubricworks.world.chat import ChatRequest
from rubricworks.world.models.abnormal import (
    INCONSISTENT_SHARE,
    LEAK_SHARE,
    MALFORMED_SHARE,
    QUALITY_ERROR_RATE,
    QUALITY_JUDGES,
    UNCHANGED_SHARE,
)
from rubricworks.world.models.roster import RLR3_MODELS
from rubricworks.world.scene.evasions import has_bluff, has_circumlocution
from rubricworks.world.scene.parsing import mentions

COUNT = 300
FAILURES = [
    *(Failure(mode, INSTRUCTIONS[mode]) for mode in ("no_final_answer", "irrelevant", "wrong_but_plausible")),
    *(pattern.failure() for pattern in PAPER_PATTERNS),
]


@pytest.fixture(scope="module")
def cases():
    rows, _ = labelled_rows(COUNT)
    return [
        Case(row["sample_id"], row["question"], row["response"], Rubric.model_validate_json(row["rubric"]), "")
        for row in rows
    ]


def ask(model, messages):
    texts = [message["content"] for message in messages if message["role"] == "user"]
    request = ChatRequest(model, "\n\n".join(texts), None, 0, 0, 0, None)
    return RLR3_MODELS[model](request, None, 0)


def drafts(cases, failure):
    """(case, draft) of each answer that can be read."""
    for case in cases:
        try:
            yield case, read_draft(ask("abnormal-writer", writer_messages(case, failure)), case.rubric)
        except ValueError:
            continue


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: failure.attack or failure.mode)
def test_most_responses_fail_as_asked(cases, failure):
    behaved = {
        "no_final_answer": lambda text: last_boxed(text) is None,
        "irrelevant": lambda text: last_boxed(text) is None and not mentions(text).objects,
        "wrong_but_plausible": lambda text: last_boxed(text) is not None,
        "circumlocution": has_circumlocution,
        "symbolic_bluff": has_bluff,
        "wrong_final_selection": lambda text: last_boxed(text) is not None,
    }[failure.attack or failure.mode]
    pairs = list(drafts(cases, failure))
    assert sum(behaved(draft.response) for _, draft in pairs) > (1 - LEAK_SHARE - UNCHANGED_SHARE - 0.04) * len(pairs)
    undeserved = [min(annotation.credit for annotation in draft.annotations) for _, draft in pairs]
    assert sum(credit == 0 for credit in undeserved) > 0.85 * len(pairs)


def test_slips_come_as_often_as_stated(cases):
    malformed = contradicted = 0
    for failure in FAILURES[:3]:
        for case in cases:
            text = ask("abnormal-writer", writer_messages(case, failure))
            malformed += not text.endswith("</extractions>")
        contradicted += sum(bool(draft.contradictions) for _, draft in drafts(cases, failure))
    assert malformed / (3 * COUNT) == pytest.approx(MALFORMED_SHARE, abs=0.02)
    # Half of the inconsistent ones, where a verifier checks the answer: three of five tasks.
    assert contradicted / (3 * COUNT) == pytest.approx(INCONSISTENT_SHARE / 2 * 0.6, abs=0.02)


def test_broken_answer_is_mended_when_asked_again(cases):
    failure = FAILURES[0]
    complaint = {"role": "user", "content": "That answer cannot be used: no tags. Answer again."}
    for case in cases[:60]:
        read_draft(ask("abnormal-writer", [*writer_messages(case, failure), complaint]), case.rubric)


def test_reviewers_find_what_is_wrong_and_err_as_often_as_stated_on_different_ones(cases):
    failure = FAILURES[2]
    wrong = {judge: Counter() for judge in QUALITY_JUDGES}
    agree = 0
    pairs = [(case, draft) for case, draft in drafts(cases, failure)]
    for case, draft in pairs:
        # Notes that are all turned around can agree with no text.
        turned = tuple(
            annotation.model_copy(update={"credit": 1 - annotation.credit}) for annotation in draft.annotations
        )
        reviews = []
        for judge in QUALITY_JUDGES:
            answer = json.loads(ask(judge, quality_messages(case, failure, draft.response, turned)))
            wrong[judge]["missed"] += answer["annotation_consistent"]
            reviews.append(answer["annotation_consistent"])
        agree += all(reviews)
    for judge in QUALITY_JUDGES:
        assert wrong[judge]["missed"] / len(pairs) == pytest.approx(QUALITY_ERROR_RATE, abs=0.02)
    assert agree < min(counter["missed"] for counter in wrong.values()) or agree == 0


def test_red_team_proposes_good_and_useless_patterns_and_others_once_it_sees_results(cases):
    first = PatternProposals.model_validate_json(ask("red-teamer", red_team_messages(cases[:4], [])))
    tried = [
        PatternResult(pattern=pattern, tried=1, accepted=1, undeserved=1, credited=0, unjudged=0)
        for pattern in first.patterns
    ]
    later = PatternProposals.model_validate_json(ask("red-teamer", red_team_messages(cases[:4], tried)))
    assert {pattern.name for pattern in first.patterns}.isdisjoint(pattern.name for pattern in later.patterns)
    sways = {
        pattern.name: any(
            has_circumlocution(draft.response) or has_bluff(draft.response)
            for _, draft in drafts(cases[:20], pattern.failure())
        )
        for pattern in (*first.patterns, *later.patterns)
    }
    assert sways["self-assured jargon"]
    assert sways["closed form"]
    assert not sways["polite deferral"]
    assert not sways["shouting"]


@pytest.mark.parametrize("model", ["abnormal-writer", "red-teamer", *QUALITY_JUDGES])
def test_prompt_without_material_is_answered_in_prose(model):
    for text in ("hello", "<question>\nq\n</question>", "<checklist>\n[\n</checklist>"):
        with pytest.raises(ValueError):
            json.loads(ask(model, [{"role": "user", "content": text}]))
