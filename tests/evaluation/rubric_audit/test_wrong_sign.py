"""The audit of a pitfall that a good response meets: flagged by its phrasing, or as the judge reads it."""

import asyncio
import json

import pytest
from criteria_readings import also_reads
from scripted_server import fail, say

from rubricworks.data.rubric_sets import RubricEntry
from rubricworks.evaluation.rubric_audit import audit_rubrics
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient
from rubricworks.rubrics import Criterion, Rubric


def judge(met):
    """A judge that meets nothing, and reads pitfalls as told; None: its server fails at that."""

    @also_reads
    def answer(_, body):
        user = body["messages"][1]["content"]
        if "<pitfalls_to_read>" in user:
            return fail(400) if met is None else say(json.dumps({"pitfalls": [{"id": 1, "met": met}]}))
        criteria = json.loads(user.split("<criteria>\n")[1].split("\n</criteria>")[0])
        return say(
            json.dumps({"verdicts": [{"id": criterion["id"], "reasoning": "", "score": 0} for criterion in criteria]})
        )

    return answer


def audited(server, text, weight=-1):
    criteria = (Criterion(criterion="Names the ferry", weight=2), Criterion(criterion=text, weight=weight))

    async def run():
        async with ChatClient(server.url, "judge") as client:
            entries = [RubricEntry("a", Rubric(criteria=criteria))]
            return await audit_rubrics(entries, {"a": ["A ferry."]}, Grader(client))

    (finding,) = asyncio.run(run()).findings
    return [flag.criterion for flag in finding.flags if flag.flag == "wrong sign"], "wrong sign" in finding.untested


@pytest.mark.parametrize(
    ("text", "met", "flagged", "untested"),
    [
        ("Must not name a bus", None, True, False),
        ("Avoids naming a bus", "better", True, False),
        ("Avoids naming the ferry", "worse", False, False),
        ("Avoids naming a bus", "unclear", False, True),
        ("Avoids naming a bus", None, False, True),
        ("Names a bus", None, False, False),
    ],
)
def test_a_pitfall_whose_satisfaction_is_good_is_flagged(serve, text, met, flagged, untested):
    assert audited(serve(judge(met)), text) == ([text] if flagged else [], untested)


def test_the_same_words_that_earn_are_no_fault(serve):
    assert audited(serve(judge(None)), "Must not name a bus", weight=1) == ([], False)
