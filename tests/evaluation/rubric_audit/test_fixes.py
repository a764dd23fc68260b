"""Rewrites of flagged rubrics: edits as they are carried out, and which rewrite is kept."""

import asyncio
import json

import pytest
from criteria_readings import also_reads
from scripted_server import say

from rubricworks.data.rubric_sets import RubricEntry
from rubricworks.evaluation.rubric_audit import RubricFix, apply_fix, audit_rubrics, fix_rubrics, with_rubrics
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient
from rubricworks.rubrics import Criterion, Rubric

CUP = Criterion(criterion="names cup", weight=3)
TOTAL = Criterion(criterion="gives the sum", weight=2, reference="expr_verify(target='4')", key="sum", essential=False)
RUBRIC = Rubric(criteria=(CUP, TOTAL))


def written(title, weight=1.0):
    return {"criterion": title, "description": "", "evaluation_rule": "", "weight": weight}


def fix(*replace, add=()):
    return RubricFix.model_validate({"replace": [{"id": at, "by": by} for at, by in replace], "add": list(add)})


def titles(rubric):
    return [criterion.criterion for criterion in rubric.criteria]


def test_edits_replace_split_drop_and_add_and_leave_the_rest_as_it_is():
    edited = apply_fix(RUBRIC, fix((1, [written("names a cup"), written("says red")]), add=[written("no bird", -1)]))
    assert titles(edited) == ["names a cup", "says red", "gives the sum", "no bird"]
    assert edited.criteria[2] == TOTAL
    assert titles(apply_fix(RUBRIC, fix((2, [])))) == ["names cup"]


def test_one_criterion_in_the_place_of_another_keeps_its_target():
    (_, mended) = apply_fix(RUBRIC, fix((2, [written("gives the sum of the numbers", 3)]))).criteria
    assert mended == TOTAL.model_copy(update={"criterion": "gives the sum of the numbers", "weight": 3.0})


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        (fix((3, [])), "names the id 3; name each of 1 to 2"),
        (fix((1, []), (1, [])), "names the id 1"),
        (fix((1, []), (2, [])), "criteria: Tuple should have at least 1 item"),
        (fix((1, [written("gives the sum")])), "stands 2 times"),
        (fix((1, [written(" ")])), "is blank"),
        (fix((1, [written("x", 0)])), "is 0"),
        (fix((1, []), (2, []), add=[written("x", -1)]), "no criterion has a positive weight"),
        (fix((1, [written("x", -1)])), "changes the sign of the id 1; its weight is positive"),
        (fix((2, [written("x"), written("y")])), "splits the id 2, which has a reference"),
        (fix((1, []), add=[written("x")]), "no must-have is left"),
    ],
)
def test_edits_that_give_no_rubric_say_what_to_mend(edits, message):
    with pytest.raises(ValueError, match=message):
        apply_fix(RUBRIC, edits)


def test_a_pitfall_stays_a_pitfall_and_what_is_added_is_no_must_have_where_some_are():
    pitfall = Criterion(criterion="talks down", weight=-4)
    rubric = Rubric(criteria=(CUP, TOTAL, pitfall))
    edited = apply_fix(rubric, fix((3, [written("talks down to a child", -3)]), add=[written("is short")]))
    assert [(criterion.criterion, criterion.weight, criterion.essential) for criterion in edited.criteria[2:]] == [
        ("talks down to a child", -3, True),
        ("is short", 1, False),
    ]
    with pytest.raises(ValueError, match="its weight is negative"):
        apply_fix(rubric, fix((3, [written("does not talk down", 3)])))
    assert all(apply_fix(Rubric(criteria=(CUP, pitfall)), fix(add=[written("is short")])).essential)


@pytest.mark.parametrize("weight", [True, "3", float("nan")])
def test_a_weight_is_a_number(weight):
    with pytest.raises(ValueError, match="weight"):
        fix((1, [written("x", weight)]))


ENTRIES = [RubricEntry(name, Rubric(criteria=(Criterion(criterion=f"names {name}", weight=3),))) for name in "abc"]
RESPONSES = {name: [f"<{name}> stands. It is small."] for name in "abc"}


class Models:
    """A judge that looks for the title's last word, or for a single thing, and a writer that guards some rubrics."""

    def __init__(self, answer):
        self.answer = answer

    @also_reads
    def __call__(self, _, body):
        text = body["messages"][1]["content"]
        if body["model"] == "writer":
            return say(self.answer(text))
        caption = text.split("<caption>\n")[1]
        scores = []
        for criterion in json.loads(text.split("<criteria>\n")[1].split("\n</criteria>")[0]):
            word = criterion["criterion"].split()[-1]
            met = caption.count("&lt;") == 1 if word == "only" else (word if word == "small" else f"{word}>") in caption
            scores.append({"id": criterion["id"], "reasoning": "", "score": int(met)})
        return say(json.dumps({"verdicts": scores}))


def fixes_by(answer, serve):
    url = serve(Models(answer)).url

    async def run():
        async with ChatClient(url, "judge") as judge, ChatClient(url, "writer") as writer:
            audit = await audit_rubrics(ENTRIES, RESPONSES, Grader(judge), judge="judge")
            return audit, await fix_rubrics(ENTRIES, RESPONSES, audit, writer, Grader(judge))

    return asyncio.run(run())


def guard(prompt):
    """Two criteria against naming everything for a, another title for b, and prose for c."""
    name = json.loads(prompt.split("<criteria>\n")[1].split("\n</criteria>")[0])[0]["criterion"][-1]
    if name == "c":
        return "I would rather not."
    add = [written("names one only", 3), written("says small", 3)] if name == "a" else []
    return json.dumps({"replace": [{"id": 1, "by": [written(f"that names {name}", 3)]}], "add": add})


def test_a_rewrite_with_fewer_flags_is_kept_and_no_other(serve):
    audit, fixes = fixes_by(guard, serve)
    assert audit.by_flag == {"presence only": 3}
    better, same, none = fixes.rewrites
    assert (better.kept, same.kept, none.kept) == (True, False, False)
    assert better.after.flags == ()
    assert [flag.flag for flag in same.after.flags] == ["presence only"]
    assert none.new is None
    assert "malformed" in none.error
    assert titles(fixes.kept["a"]) == ["that names a", "names one only", "says small"]
    assert fixes.audit.by_flag == {"presence only": 2}
    assert fixes.audit.criteria == 5
    fixed = with_rubrics(ENTRIES, fixes.kept)
    assert [rubric.rubric for rubric in fixed[1:]] == [entry.rubric for entry in ENTRIES[1:]]


def test_writer_sees_flags_and_responses_that_cannot_close_their_fence(serve):
    prompts = []

    def note(prompt):
        prompts.append(prompt)
        return guard(prompt)

    fixes_by(note, serve)
    (flag,) = json.loads(prompts[0].split("<flags>\n")[1].split("\n</flags>")[0])
    assert (flag["id"], flag["flag"]) == (0, "presence only")
    assert "add criteria that inventions fail" in flag["meaning"]
    assert '<response name="Response 1">\n&lt;a> stands.' in prompts[0]
