"""The scripted judge as a reader of criteria: facts are counted whatever joins them, and topics are told from facts."""

import json

import pytest

from rubricworks.evaluation.rubric_audit import RubricReading, reading_messages
from rubricworks.rubrics import Criterion
from rubricworks.world.models.criteria_reader import assertions_of, reading_reply, states_content
from rubricworks.world.models.writer import WriterTask, write_rubric

CAPTION = "at top-left a big red circle . at center a small blue star . the word CAT . there are 2 objects ."


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Names the circle at the top left and says that it is red", 2),
        ("Names the circle at the top left; it also reads the word MAP", 2),
        ("Names the blue star at the center, giving the number of objects", 2),
        ("Says that the circle at the top left is big and red", 2),
        ("At the top left, names a circle and, at the bottom, a star", 2),
        ("Specifies the colour of the star at the center (blue) and its size (big)", 2),
        ("Says there are 3 objects, one of them a star at the center", 2),
        ("Names a big red circle at the top left", 1),
        ("Says of the star at the center that it is blue", 1),
        ("Gives blue as the colour of the star at the center", 1),
        ("Identifies the shape at the top left as a circle", 1),
        ("Names the star at the center, which is blue", 1),
        ("Says that the square is left of the star", 1),
        ("Names the right number of objects", 1),
    ],
)
def test_facts_are_counted_and_not_the_words_that_join_them(text, count):
    assert len(assertions_of(text)) == count


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ("Says that the star at the center is blue", True),
        ("The star at the center is blue", True),
        ("Makes mention of the star at the center", True),
        ("Makes it clear that the star at the center is blue", True),
        ("Explains the star at the center", False),
        ("Should thoughtfully engage with the star at the center", False),
        ("Gives an account of the star at the center", False),
        ("Does justice to the star at the center", False),
        ("Discusses how the star at the center is blue", False),
        ("Says how many objects there are", False),
        ("States whether the star at the center is blue", False),
    ],
)
def test_a_claim_states_a_fact_where_its_verb_tells_one(text, states):
    assert states_content(text) is states


def test_what_the_writer_of_this_world_asks_for_is_one_fact_each():
    task = WriterTask((), {"a": CAPTION}, 1, coverage="full", guards=True)
    titles = [row["criterion"] for row in write_rubric(task)]
    assert len(titles) == 11
    assert {title: len(assertions_of(title)) for title in titles} == dict.fromkeys(titles, 1)


def test_a_reply_has_the_form_that_is_asked_for_and_errs_on_a_few():
    titles = [f"Says that the star at the center is blue {at}" for at in range(1000)]
    prompt = reading_messages([Criterion(criterion=title, weight=1) for title in titles])[-1]["content"]
    readings = RubricReading.model_validate_json(reading_reply(prompt)).readings
    assert [reading.id for reading in readings] == list(range(1, 1001))
    # Two of a hundred, give or take four standard deviations.
    for errors in (
        sum(len(reading.assertions) > 1 for reading in readings),
        sum(not reading.states_content for reading in readings),
    ):
        assert 3 <= errors <= 37
    assert "criteria_to_read" in reading_reply("Which caption is better?")
    with pytest.raises(json.JSONDecodeError):
        json.loads(reading_reply("<criteria_to_read>\nnone\n</criteria_to_read>"))
