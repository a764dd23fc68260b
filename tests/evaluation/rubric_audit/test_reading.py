"""Reading of criteria by a judge over HTTP: what is asked, which answers are refused, and what a failed call leaves."""

import asyncio
import json
import re

import pytest
from criteria_readings import criteria_to_read, say_readings
from scripted_server import Said, say

from rubricworks.data.rubric_sets import RubricEntry
from rubricworks.evaluation.rubric_audit import audit_rubrics, read_rubric
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.llm.spending import Budget, Spending
from rubricworks.rubrics import Criterion, Rubric

TITLES = ("Names the ferry", "Discusses the fare", "Dates the crossing and names the captain")
RUBRIC = Rubric(criteria=tuple(Criterion(criterion=title, weight=1) for title in TITLES))
FAULTS = {"acts": TITLES[1:2], "joined": TITLES[2:]}


def read_by(url, rubric=RUBRIC, timeout_s=120.0, **retries):
    async def run():
        async with ChatClient(Endpoint(url=url, model="judge", timeout_s=timeout_s), **retries) as judge:
            return await read_rubric(rubric, judge)

    return asyncio.run(run())


def contents(reading):
    return [(len(criterion.assertions), criterion.states_content) for criterion in reading.criteria]


def lists(server):
    """Texts of each request, in its order."""
    return [[criterion["text"] for criterion in criteria_to_read(heard.body)] for heard in server.chats]


def test_what_is_read_as_a_fault_is_asked_again_in_reverse_and_needs_both_answers(serve):
    def judge(number, body):
        faults = FAULTS if number == 0 else {"acts": TITLES[1:2]}
        return say_readings(criteria_to_read(body), **faults)

    server = serve(judge)
    reading = read_by(server.url)
    assert lists(server) == [list(TITLES), [TITLES[2], TITLES[1]]]
    assert contents(reading) == [(1, True), (1, False), (1, True)]
    assert reading.calls == 2


def test_sound_criteria_are_read_once(serve):
    server = serve(lambda _, body: say_readings(criteria_to_read(body)))
    assert contents(read_by(server.url)) == [(1, True)] * 3
    assert len(server.chats) == 1


def answer_of(*ids, **fields):
    given = {"assertions": ["it"], "states_content": True} | fields
    return json.dumps({"readings": [{"id": number, **given} for number in ids]})


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (answer_of(1, 2), r"ids \[1, 2\]; give exactly one reading for each id from 1 to 3"),
        (answer_of(1, 2, 2), r"ids \[1, 2, 2\]"),
        (answer_of(1, 2, 3, assertions=[]), "assertions"),
        (answer_of(1, 2, 3, assertions=[" "]), "the id 1 has an empty assertion"),
        (answer_of(1, 2, 3, states_content="no"), "states_content"),
        ("They all look fine to me.", "not one JSON object"),
    ],
)
def test_answer_that_omits_or_garbles_a_criterion_is_sent_back(serve, answer, complaint):
    server = serve([say(answer), say(answer_of(3, 1, 2))])
    assert contents(read_by(server.url)) == [(1, True)] * 3
    assert re.search(complaint, server.chats[1].body["messages"][-1]["content"])


@pytest.mark.parametrize(
    "failure",
    [
        say("I would rather grade."),
        say(answer_of(1)),
        Said(b"", status=400),
        Said(b"{}", reset=True),
        Said(b"", delay=5),
    ],
)
def test_a_judge_that_cannot_read_leaves_the_rubric_unread(serve, failure):
    server = serve([failure])
    assert read_by(server.url, attempts=1, patience_s=0.2, timeout_s=0.2).criteria is None


def test_a_second_call_that_fails_leaves_the_rubric_unread(serve):
    server = serve(
        lambda number, body: Said(b"", status=400) if number else say_readings(criteria_to_read(body), **FAULTS)
    )
    assert read_by(server.url, attempts=1).criteria is None


ENTRIES = [RubricEntry(name, RUBRIC) for name in "abc"]
RESPONSES = {name: [f"The ferry {name} crosses. It is white."] for name in "abc"}


def graded(body):
    criteria = json.loads(body["messages"][1]["content"].split("<criteria>\n")[1].split("\n</criteria>")[0])
    return say(
        json.dumps({"verdicts": [{"id": criterion["id"], "reasoning": "", "score": 1} for criterion in criteria]})
    )


def audited(url, entries=ENTRIES, **client):
    async def run():
        async with ChatClient(url, "judge", **client) as judge:
            return await audit_rubrics(entries, RESPONSES, Grader(judge), judge="judge")

    return asyncio.run(run())


def test_a_rubric_that_is_not_read_is_untested_beside_others_that_are(serve):
    def judge(_, body):
        criteria = criteria_to_read(body)
        if criteria is None:
            return graded(body)
        return say("no") if len(criteria) == 2 else say_readings(criteria)

    shorter = RubricEntry("a", Rubric(criteria=RUBRIC.criteria[:2]))
    audit = audited(serve(judge).url, [shorter, *ENTRIES[1:]])
    assert (audit.readings, audit.unread) == (3, 1)
    assert ["compound" in finding.untested for finding in audit.findings] == [True, False, False]


def test_without_budget_nothing_is_read_and_nothing_counts_as_sound(serve, tmp_path):
    server = serve(lambda _, body: graded(body))
    spending = Spending(tmp_path / "spending.sqlite", "synthesize_rubrics", Budget(tokens=10))
    audit = audited(server.url, spending=spending, purpose="audit")
    assert server.chats == []
    assert (audit.unread, audit.undecided, audit.flagged.value) == (3, 3, 0)
    assert audit.untested["compound"] == 3


@pytest.mark.parametrize(("credited", "flagged"), [(("meets this",), False), (("meets this", "has been done"), True)])
def test_a_claim_that_earns_credit_is_made_again_alone_and_both_must_earn_it(serve, credited, flagged):
    def judge(_, body):
        if criteria := criteria_to_read(body):
            return say_readings(criteria, acts=TITLES[1:2])
        caption = body["messages"][1]["content"].split("<caption>\n")[1]
        assert "has been done" not in caption or caption.startswith(f"This has been done: {TITLES[1]}.")
        listed = json.loads(body["messages"][1]["content"].split("<criteria>\n")[1].split("\n</criteria>")[0])
        is_met = {TITLES[1]: any(words in caption for words in credited) or "white" in caption}
        scores = [
            {"id": text["id"], "reasoning": "", "score": int(is_met.get(text["criterion"], "ferry" in caption))}
            for text in listed
        ]
        return say(json.dumps({"verdicts": scores}))

    audit = audited(serve(judge).url)
    for finding in audit.findings:
        assert (("parroted", TITLES[1]) in {(flag.flag, flag.criterion) for flag in finding.flags}) is flagged
        assert finding.claimed == pytest.approx(1 / 3 if flagged else 0)
    assert audit.calls == 3 * 11
