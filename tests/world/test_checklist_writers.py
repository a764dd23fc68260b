"""The scripted writers of checklists and their merger: what they write, how they err, and what they cannot know."""

import json
import random
import re

import pytest

from rubricworks.rubrics import Checklist
from rubricworks.world.chat import ApiError, ChatRequest
from rubricworks.world.models.checklist_writers import (
    CHECKLIST_WRITERS,
    NO_QUESTION,
    ChecklistFaults,
    ChecklistTask,
    checklist_merger_reply,
    checklist_writer_reply,
    merge,
    options_of,
    write_checklist,
)
from rubricworks.world.scene.scene import Scene, generate_scene

SCENE = Scene.model_validate(
    {
        "objects": [
            {"cell": "top-left", "size": "big", "colour": "red", "shape": "circle"},
            {"cell": "top-right", "size": "small", "colour": "red", "shape": "star"},
            {"cell": "center", "size": "small", "colour": "blue", "shape": "star"},
        ],
        "word": "CAT",
    }
)
EVERYTHING = "expr_verify(target: str)\ntext_verify(target: str)\nbbox_verify(target)"
COUNT = "how many red objects are there ?"


def request(question, *, model="checklist-writer-1", answer=None, verifiers=EVERYTHING, seed=0, more=""):
    prompt = f"<question>\n{question}\n</question>\n\n"
    if answer is not None:
        prompt += f"<reference_answer>\n{answer}\n</reference_answer>\n\n"
    if verifiers:
        prompt += f"<verifiers>\n{verifiers}\n</verifiers>"
    return ChatRequest(model, prompt + more, b"", 1, len(prompt), seed, None)


def write(question, faults=None, seed=0, **options):
    task = ChecklistTask(request(question, **options), SCENE)
    return write_checklist(task, task.query, faults or ChecklistFaults(), random.Random(seed))


@pytest.mark.parametrize(
    ("question", "criterion", "reference", "cells"),
    [
        (COUNT, "number of red objects", "expr_verify(target='2')", ["top-left", "top-right"]),
        ("what colour is the object at center ?", "colour of the object at center", "blue", ["center"]),
        (
            "is the red circle left of or right of the blue star ?",
            "side on which the red circle is",
            "left",
            ["top-left", "center"],
        ),
        ("which word is written ?", "written word", "text_verify(target='CAT', ignore_case=True)", []),
        (
            "what is the box of the object at top-left ?",
            "box of the object at top-left",
            "bbox_verify(target=[[21, 21, 312, 312]])",
            ["top-left"],
        ),
        (
            "what colour is the object at center ? A red B blue C green",
            "letter of the right option",
            "expr_verify(target='B')",
            ["center"],
        ),
    ],
)
def test_without_faults_a_checklist_is_right_and_has_a_step_for_each_object(question, criterion, reference, cells):
    checklist = Checklist.model_validate(write(question))
    (answer,) = checklist.essential
    assert answer.criterion == f"The final answer gives the {criterion}."
    assert (answer.reference, answer.weight) == (reference, 3)
    assert [step.criterion for step in checklist.additional] == [
        f"The response describes the object at {cell}." for cell in cells
    ]
    truth = {item.cell: f"a {item.size} {item.colour} {item.shape}" for item in SCENE.objects}
    assert [step.reference for step in checklist.additional] == [truth[cell] for cell in cells]
    assert {step.weight for step in checklist.additional} <= {1, 2}


def test_verifiers_that_the_request_does_not_name_are_not_used():
    assert write(COUNT, verifiers="")["essential"][0]["reference"] == "2"
    assert write("which word is written ?", verifiers="expr_verify(target)")["essential"][0]["reference"] == "CAT"


def test_an_answer_that_is_shown_is_believed_more_than_the_eyes():
    assert write(COUNT, answer="5")["essential"][0]["reference"] == "expr_verify(target='5')"
    assert write("which word is written ?", answer="SUN")["essential"][0]["reference"].startswith(
        "text_verify(target='SUN'"
    )


@pytest.mark.parametrize(
    ("fault", "sign"),
    [
        ("leaks", lambda content, _: "2" in content["essential"][0]["criterion"]),
        ("judges", lambda content, _: content["essential"][0]["reference"] == "expr_verify(target='True')"),
        ("abuses", lambda content, _: content["essential"][0]["reference"].startswith("list_verify")),
        ("overweighs", lambda content, _: 5 in [item["weight"] for part in content.values() for item in part]),
        ("joins", lambda content, _: " and gives " in content["additional"][-1]["criterion"]),
        ("mistakes", lambda content, _: content["essential"][0]["reference"] != "expr_verify(target='2')"),
        ("strays", lambda content, _: "background" in content["additional"][-1]["criterion"]),
        ("skips", lambda content, clean: len(content["additional"]) == len(clean["additional"]) - 1),
        ("repeats", lambda content, _: content["additional"][-1]["reference"] == "expr_verify(target='2')"),
    ],
)
def test_each_fault_shows_when_it_is_certain_and_never_when_it_is_not(fault, sign):
    clean = write(COUNT, answer="2")
    assert sign(write(COUNT, ChecklistFaults(**{fault: 1.0}), answer="2"), clean)
    assert not sign(clean, clean)


def test_what_a_writer_says_depends_on_seed_model_scene_and_request_alone():
    first = checklist_writer_reply(request(COUNT), SCENE, 0)
    assert checklist_writer_reply(request(COUNT), SCENE, 0) == first
    others = {
        checklist_writer_reply(request(COUNT, model=model, seed=seed), SCENE, world)
        for model in CHECKLIST_WRITERS
        for seed in range(5)
        for world in range(5)
    }
    assert len(others) > 10


def test_faults_come_as_often_as_stated():
    leaks = 0
    scenes = [generate_scene(3, index) for index in range(600)]
    for scene in scenes:
        content = json.loads(checklist_writer_reply(request("how many objects are there ?"), scene, 0))
        leaks += re.search(r"which is \d", content["essential"][0]["criterion"]) is not None
    rate = CHECKLIST_WRITERS["checklist-writer-1"].leaks
    assert abs(leaks / len(scenes) - rate) < 4 * (rate * (1 - rate) / len(scenes)) ** 0.5


@pytest.mark.parametrize("answer", [checklist_writer_reply, checklist_merger_reply])
def test_writers_and_merger_need_an_image_and_a_question_that_they_know(answer):
    with pytest.raises(ApiError, match="image"):
        answer(request(COUNT), None, 0)
    assert answer(request("what is the meaning of it ?"), SCENE, 0) == NO_QUESTION


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("which ? A red B green", ("red", "green")),
        ("which ? A [ [ 21 , 21 ] ] B [ [ 3 , 4 ] ] C none", ("[ [ 21 , 21 ] ]", "[ [ 3 , 4 ] ]", "none")),
        ("which ?", ()),
        ("which ? B red A green", ()),
    ],
)
def test_options_are_read_from_the_question(text, options):
    assert options_of(text) == options


ASKED = "The final answer gives the number of red objects."


def item(criterion=ASKED, reference="expr_verify(target='2')", weight=3):
    return {"criterion": criterion, "reference": reference, "weight": weight}


def merged(*candidates):
    """Merge by a merger that makes no mistake."""

    class Careful(random.Random):
        def random(self):
            return 0.999

    full = [{"essential": essential, "additional": additional} for essential, additional in candidates]
    return merge(full, ASKED, Careful())


def test_the_majority_decides_what_is_checked_and_against_what():
    step, other = item("The response describes the object at top.", "a big red star", 2), "a big purple star"
    result = merged(
        ([item()], [step]),
        ([item(reference="expr_verify(target='4')")], [step | {"reference": other}]),
        ([item()], [step | {"weight": 1}, item("The response describes the object at left.", "a star", 1)]),
    )
    assert result == {"essential": [item()], "additional": [step]}


def test_the_same_in_other_words_is_kept_once_and_what_is_irrelevant_goes():
    again = item("The response ends with the number of red objects.", weight=2)
    stray = item("The response mentions the background.", "pale", 1)
    assert merged(([item()], [again, stray]), ([item()], [stray])) == {"essential": [item()], "additional": []}


def test_half_of_the_candidates_are_no_majority():
    step = item("The response describes the object at top.", "a big red star", 2)
    assert merged(([item()], [step]), ([item()], []))["additional"] == []


def test_the_merger_reads_its_candidates_from_the_request():
    more = "".join(
        f'\n\n<candidate name="Checklist {n}">\n{json.dumps({"essential": [item()], "additional": []})}\n</candidate>'
        for n in (1, 2, 3)
    )
    content = json.loads(checklist_merger_reply(request(COUNT, model="checklist-merger", more=more), SCENE, 0))
    assert content == {"essential": [item()], "additional": []}
    assert checklist_merger_reply(request(COUNT, model="checklist-merger"), SCENE, 0) == NO_QUESTION
