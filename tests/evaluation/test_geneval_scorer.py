"""GenEval as a scorer: a detector over HTTP, the official rules, and what a detector may do wrong."""

import asyncio
import json
from contextlib import AsyncExitStack

import pytest
from scripted_server import Said, ScriptedServer

from rubricworks.data.images import png_bytes
from rubricworks.data.tables import Sample
from rubricworks.errors import UserError
from rubricworks.evaluation.scorers.images.geneval import GenevalScorer
from rubricworks.evaluation.scorers.scorer import Item, ScoringContext
from rubricworks.rubrics import Response
from rubricworks.world.pictures.drawing import draw

TWO_DOGS = {"tag": "counting", "include": [{"class": "dog", "count": 2}], "exclude": [{"class": "dog", "count": 3}]}
IMAGE = Response.of_image(png_bytes(draw([])))


def detections(**objects):
    return Said(json.dumps({"detections": objects}).encode())


def score(answer, said, response=IMAGE):
    server = ScriptedServer([said])
    sample = Sample(sample_id="s1", prompt="a photo of two dogs", answer=answer)

    async def run():
        async with AsyncExitStack() as stack:
            context = ScoringContext(stack=stack, make_client=None, gather=None, on_failure=None)
            function = await GenevalScorer(url=server.url).open(context)
            return await function(Item(sample, response))

    try:
        return asyncio.run(run())[0], server.heard
    finally:
        server.close()


@pytest.mark.parametrize(
    ("objects", "value", "reason"),
    [
        ({"dog": [{"box": [0, 0, 5, 5]}] * 2}, 1.0, None),
        ({"dog": [{"box": [0, 0, 5, 5]}]}, 0.0, "expected dog>=2, found 1"),
        ({"dog": [{"box": [0, 0, 5, 5, 0.91]}] * 3}, 0.0, "expected dog<3, found 3"),
        ({"dog": [{"box": [0, 0, 5, 5, c]} for c in (0.5, 0.95, 0.99, 0.9)]}, 1.0, None),
        ({"dog": [{"box": [0, 0, 5, 5, c]} for c in (0.99, 0.5)]}, 0.0, "expected dog>=2, found 1"),
        ({}, 0.0, "expected dog>=2, found 0"),
    ],
)
def test_the_official_rules_decide_on_what_the_detector_finds(objects, value, reason):
    result, heard = score(json.dumps(TWO_DOGS), detections(**objects))
    assert (result.value, result.part) == (value, "correct")
    assert json.loads(result.evidence)["reasons"] == ([reason] if reason else [])
    assert heard[0].body["image"].startswith("data:image/png;base64,")


@pytest.mark.parametrize("answer", ["three", "[]", '{"tag": "counting"}', None])
def test_a_sample_without_requirements_is_refused_by_name(answer):
    with pytest.raises(UserError, match="s1: its answer is not GenEval's metadata"):
        score(answer, detections())


def test_a_text_and_a_detector_that_fails_are_one_line():
    with pytest.raises(UserError, match="the response is a text"):
        score(json.dumps(TWO_DOGS), detections(), Response("two dogs"))
    with pytest.raises(UserError, match="answered 503: busy"):
        score(json.dumps(TWO_DOGS), Said(b"busy", 503))
    with pytest.raises(UserError, match="something else than detections"):
        score(json.dumps(TWO_DOGS), Said(b'{"objects": []}'))
    with pytest.raises(UserError, match="something else than detections"):
        score(json.dumps(TWO_DOGS), Said(b'{"detections": {}, "error": "out of memory"}'))


def test_boxes_that_are_no_numbers_and_a_missing_colour_are_one_line():
    for box in ("[0, 0, NaN, 5, 0.9]", "[0, 0, 5]", "[0, 0, 5, 5, 0.9, 1]", "[0, 0, 5, 5, Infinity]"):
        with pytest.raises(UserError, match=r"something else than detections: detections.dog.0.box") as error:
            score(json.dumps(TWO_DOGS), Said(f'{{"detections": {{"dog": [{{"box": {box}}}]}}}}'.encode()))
        assert "\n" not in str(error.value), box
    red_dog = {"tag": "colors", "include": [{"class": "dog", "count": 1, "color": "red"}]}
    with pytest.raises(UserError, match="s1: the prompt asks for the colour of dog, and a detection of it has no"):
        score(json.dumps(red_dog), detections(dog=[{"box": [0, 0, 5, 5, 0.9]}]))
