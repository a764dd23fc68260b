"""Pitfalls from a policy's worst captions: what is asked, and what a judge's test leaves of the proposals."""

import asyncio
import json

import pytest
from coloured_squares import square
from scripted_server import fail, say

from rubricworks.data.tables import Sample
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient, ChatError, Endpoint
from rubricworks.rewards import signed_reward
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.synthesis import PitfallWriter, add_pitfalls
from rubricworks.synthesis.pitfalls import (
    A_REFERENCE_MAKES_IT,
    NO_FAILURE_MAKES_IT,
    NOT_JUDGED,
    REPEATED,
    pitfall_faults,
)

SAMPLE = Sample(sample_id="s1", image=square("top-left", "red"), prompt="describe")
RUBRIC = Rubric(criteria=(Criterion(criterion="Names red", evaluation_rule="passes if it says red", weight=3),))
REFERENCES, FAILURES = ["a red square", "one red square , shiny"], ["a red cat", "red red red lovely"]


def pitfall(word, weight=2, title=None):
    fields = {"description": "d", "evaluation_rule": f"passes if it says {word}", "justification": "j"}
    return {"criterion": title or word, "weight": weight} | fields


def judge(_, body):
    """A criterion is met by the caption that says the last word of its rule; the judge breaks down over "outage"."""
    text = body["messages"][1]["content"]
    caption = text.split("<caption>\n")[1].split("\n</caption>")[0]
    if "outage" in caption:
        return fail(400)
    asked = json.loads(text.split("<criteria>\n")[1].split("\n</criteria>")[0])
    verdicts = [
        {"id": request["id"], "reasoning": "r", "score": int(request["evaluation_rule"].split()[-1] in caption.split())}
        for request in asked
    ]
    return say(json.dumps({"verdicts": verdicts}))


def write(serve, proposals, *, references=REFERENCES, failures=FAILURES, rubric=RUBRIC, script=judge):
    writer, examiner = serve([say(json.dumps({"pitfalls": proposals}))]), serve(script)

    async def run():
        async with (
            ChatClient(Endpoint(url=writer.url, model="w"), attempts=1) as writing,
            ChatClient(Endpoint(url=examiner.url, model="j"), attempts=1) as judging,
        ):
            return await PitfallWriter(writing, Grader(judging), most=2).write(SAMPLE, references, failures, rubric)

    return asyncio.run(run()), writer, examiner


def test_mistake_that_no_reference_makes_becomes_a_negative_criterion(serve):
    result, writer, examiner = write(serve, [pitfall("cat", 3), pitfall("lovely", 1), pitfall("shiny"), pitfall("dog")])
    assert [(pitfall.criterion, pitfall.weight, pitfall.essential) for pitfall in result.pitfalls] == [
        ("cat", -3, False),
        ("lovely", -1, False),
    ]
    assert result.dropped == (("shiny", A_REFERENCE_MAKES_IT), ("dog", NO_FAILURE_MAKES_IT))
    assert len(examiner.chats) == 4  # each reference and each failure once, with all proposals
    text = writer.chats[0].body["messages"][1]["content"][1]["text"]
    assert all(f"<failure>\n{failure}\n</failure>" in text for failure in FAILURES)
    assert all(reference in text for reference in REFERENCES)
    assert '["Names red"]' in text
    assert "at most 2 pitfalls" in text
    assert "image_url" in writer.chats[0].text
    rubric = add_pitfalls(RUBRIC, result.pitfalls, most=3)
    # Of 3 points, red gives all, a cat takes 3 and lovely 1.
    assert [signed_reward(credits, rubric.weights) for credits in ([1, 0, 0], [1, 1, 0], [1, 0, 1])] == [
        1, 0, pytest.approx(2 / 3),
    ]  # fmt: skip


def test_the_judge_is_asked_as_of_any_criterion(serve):
    _, _, examiner = write(serve, [pitfall("cat")])
    assert "-" not in examiner.chats[0].text.split("<criteria>")[1].split("</criteria>")[0]


def test_a_proposal_that_repeats_a_criterion_is_not_tested(serve):
    result, _, _ = write(serve, [pitfall("cat", title="names RED!"), pitfall("cat"), pitfall("lovely", title="Cat")])
    assert result.dropped == (("names RED!", REPEATED), ("Cat", REPEATED))
    assert [pitfall.criterion for pitfall in result.pitfalls] == ["cat"]
    assert write(serve, [])[0] == ((), ())


def test_what_could_not_be_judged_is_no_evidence(serve):
    result, _, _ = write(serve, [pitfall("cat")], references=["a red square", "outage"])
    assert result == ((), (("cat", NOT_JUDGED),))
    result, _, _ = write(serve, [pitfall("cat")], failures=["outage", "a red cat"])
    assert [pitfall.criterion for pitfall in result.pitfalls] == ["cat"]
    result, _, _ = write(serve, [pitfall("cat")], failures=["outage"])
    assert result.dropped == (("cat", NO_FAILURE_MAKES_IT),)


def test_each_pitfall_is_tested_by_all_references_and_any_failure():
    references = [[0, 0.4, 1, None, 0], [0, 0, 0, 0, 0]]
    failures = [[0, 0, 1, 1, None], [1, 0.6, 1, 1, 0.4]]
    assert pitfall_faults(references, failures) == ["", "", A_REFERENCE_MAKES_IT, NOT_JUDGED, NO_FAILURE_MAKES_IT]


def test_the_newest_pitfalls_stay_and_what_is_earned_is_kept():
    first, second, third = (Criterion(criterion=title, weight=-1) for title in "abc")
    rubric = add_pitfalls(RUBRIC, [first, second], most=2)
    assert [criterion.criterion for criterion in rubric.criteria] == ["Names red", "a", "b"]
    assert [criterion.criterion for criterion in add_pitfalls(rubric, [third], most=2).criteria] == [
        "Names red",
        "b",
        "c",
    ]
    assert add_pitfalls(rubric, [], most=3) == rubric


def test_of_more_than_were_asked_for_the_first_are_taken(serve):
    result, _, _ = write(serve, [pitfall("cat"), pitfall("lovely"), pitfall("cat", title="another")])
    assert [pitfall.criterion for pitfall in result.pitfalls] == ["cat", "lovely"]


def test_a_faulty_proposal_is_dropped_with_its_reason(serve):
    faulty = [pitfall("cat", weight=-2, title="minus"), pitfall(" ", title="blank") | {"evaluation_rule": " "}]
    result, _, examiner = write(serve, [*faulty, pitfall("cat", title="...")])
    assert [reason for _, reason in result.dropped] == [
        "its weight -2 is not 1, 2 or 3",
        "its evaluation rule is blank",
        "it has no title",
    ]
    assert not result.pitfalls
    assert not examiner.chats


def test_a_malformed_answer_is_an_error_and_nothing_to_compare_is_refused(serve):
    with pytest.raises(ChatError):
        write(serve, ["cat"])
    with pytest.raises(ValueError, match="sample s1: pitfalls need a reference and a failure"):
        write(serve, [pitfall("cat")], references=[])
