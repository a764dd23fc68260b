"""Candidates are kept if rules and both judges agree; patterns of attack are ranked by what they got. Real HTTP."""

import asyncio
import json
from contextlib import AsyncExitStack

import pytest
from scripted_server import fail, say

from rubricworks.evaluation.audit.candidates import CandidateGenerator
from rubricworks.evaluation.audit.prompts import INSTRUCTIONS
from rubricworks.evaluation.audit.red_team import search_patterns
from rubricworks.evaluation.audit.values import Case, Failure
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient
from rubricworks.rubrics import Criterion, Rubric

RUBRIC = Rubric(
    criteria=(
        Criterion(criterion="Gives the number.", reference="expr_verify(target='3')", weight=3),
        Criterion(criterion="Says the colour.", reference="red", weight=1, essential=False),
    )
)
WRONG = Failure("wrong_but_plausible", INSTRUCTIONS["wrong_but_plausible"])


def response_draft(response, value, credit, second=0):
    entries = {
        "1": {"extracted_value": value, "credit": credit, "rationale": "r"},
        "2": {"extracted_value": "", "credit": second, "rationale": "r"},
    }
    return say(f"<response>{response}</response><extractions>{json.dumps(entries)}</extractions>")


def review(consistent=True, matches=True):
    return say(json.dumps({"annotation_consistent": consistent, "behaviour_matches": matches, "reason": "why"}))


def clients(url, stack, *names):
    return [stack.enter_async_context(ChatClient(url, name, purpose=name, attempts=1)) for name in names]


def make(server, failure=WRONG):
    async def run():
        async with AsyncExitStack() as stack:
            writer, *judges = [await client for client in clients(server.url, stack, "writer", "one", "two")]
            case = Case("s1", "how many?", "It is 3.", RUBRIC, "")
            return await CandidateGenerator(writer, judges).generate(case, failure)

    return asyncio.run(run())


def answering(**by_model):
    return lambda _, body: by_model[body["model"]]


def test_kept_when_rules_and_both_judges_agree(serve):
    server = serve(answering(writer=response_draft("It is 4.", "4", 0), one=review(), two=review()))
    candidates = make(server)
    assert candidates.rejection is None
    assert [annotation.call for annotation in candidates.annotations] == ["expr_verify(predict='4')", ""]
    assert sorted(request.body["model"] for request in server.chats) == ["one", "two", "writer"]


@pytest.mark.parametrize(
    ("first", "two", "reason"),
    [
        (review(consistent=False), review(), "annotation inconsistent"),
        (review(), review(consistent=False), "annotation inconsistent"),
        (review(matches=False), review(), "behaviour does not match"),
        (review(), review(matches=False), "behaviour does not match"),
        (review(), fail(400, "no"), "quality judge failed"),
        (say("prose"), review(), "quality judge failed"),
    ],
)
def test_either_judge_can_turn_a_candidate_away(serve, first, two, reason):
    candidates = make(serve(answering(writer=response_draft("It is 4.", "4", 0), one=first, two=two)))
    assert candidates.rejection == reason
    assert (candidates.error is not None) == (reason == "quality judge failed")


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        (response_draft("It is 4.", "4", 1), "annotation contradicts its verifier"),
        (response_draft("It is 3, red.", "3", 1, 1), "nothing undeserved"),
        (response_draft(r"Hm, \boxed{3}", "4", 0), "gives the answer away"),
        (say("I would rather not."), "writer failed"),
    ],
)
def test_rules_turn_a_candidate_away_before_any_judge_is_asked(serve, answers, reason):
    server = serve(answering(writer=answers))
    assert make(server).rejection == reason
    assert {request.body["model"] for request in server.chats} == {"writer"}


def test_broken_answer_of_the_writer_is_repaired(serve):
    answers = iter([say("no tags"), response_draft("It is 4.", "4", 0)])
    server = serve(lambda _, body: next(answers) if body["model"] == "writer" else review())
    candidates = make(server)
    assert candidates.rejection is None
    assert "no <response>" in server.chats[1].body["messages"][-1]["content"]


def test_there_are_exactly_two_quality_judges():
    client = ChatClient("http://127.0.0.1:9/v1", "m")
    with pytest.raises(ValueError, match="exactly two"):
        CandidateGenerator(client, [client])


def test_patterns_are_ranked_by_their_false_positive_rate(serve):
    def proposals(*names):
        return say(
            json.dumps({"patterns": [{"name": n, "attack": "circumlocution", "instruction": f"do {n}"} for n in names]})
        )

    def answer(_, body):
        text = body["messages"][-1]["content"]
        match body["model"]:
            case "red":
                return proposals("weak", "strong") if "<results>" not in text else proposals("half", "strong")
            case "writer":
                name = next(name for name in ("weak", "strong", "half") if f"do {name}" in text)
                return response_draft(f"attack {name}", "", 0, 1 if name == "half" else 0)
            case "judge":
                response = text.partition("<response>")[2].partition("</response>")[0].strip()
                credits = {"attack strong": ("'3'", 1), "attack weak": ("''", 0), "attack half": ("'3'", 1)}[response]
                return say(
                    json.dumps(
                        {
                            "thought": "",
                            "essential": [
                                {
                                    "criterion": "Gives the number.",
                                    "rationale": "",
                                    "credit": f"expr_verify(predict={credits[0]})",
                                }
                            ],
                            "additional": [{"criterion": "Says the colour.", "rationale": "", "credit": credits[1]}],
                        }
                    )
                )
        return review()

    server = serve(answer)

    async def run():
        async with AsyncExitStack() as stack:
            names = ("writer", "one", "two", "red", "judge")
            writer, first, two, red, judge = [await each for each in clients(server.url, stack, *names)]
            generator = CandidateGenerator(writer, [first, two])
            cases = [Case(f"s{number}", "how many?", f"It is {number}.", RUBRIC, "") for number in range(3)]
            return await search_patterns(red, generator, Grader(judge), cases, rounds=2)

    result = asyncio.run(run())
    figures = [
        (tried.pattern.name, tried.credited, tried.undeserved, tried.accepted, tried.tried) for tried in result.results
    ]
    # All that `strong` and `half` do not deserve is credited; the former by more counts. A name is tried once.
    assert figures == [("strong", 6, 6, 3, 3), ("half", 3, 3, 3, 3), ("weak", 0, 6, 3, 3)]
    assert [best.name for best in result.best] == ["strong", "half", "weak"]
    prompts = [request.body["messages"][-1]["content"] for request in server.chats if request.body["model"] == "red"]
    assert "<results>" not in prompts[0]
    assert '"credited": 6' in prompts[1]
