"""Scripted pitfalls on hand-made captions: what the worst captions say and no reference does."""

import json

from coloured_squares import square

from rubricworks.data.tables import Sample
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.synthesis.pitfalls import PitfallDraft, pitfall_messages
from rubricworks.world.models.judges import judge_criterion
from rubricworks.world.models.rubric_fixer import asks_for_pitfalls, pitfalls_reply
from rubricworks.world.scene.rules import HasAttribute, NamesObject, ReadsWord, holds, parse_rule

REFERENCES = [
    "at top-left a big red circle . at center a small blue square . the word CAT .",
    "there is a big red circle at the top left . there is a small square at the center .",
]
SAMPLE = Sample(sample_id="s1", image=square("top-left", "red"), prompt="describe")


def prompt_of(*failures, titles=("Names the circle at the top left",), most=9):
    rubric = Rubric(criteria=tuple(Criterion(criterion=title, weight=1) for title in titles))
    messages = pitfall_messages(SAMPLE, REFERENCES, failures, rubric, most=most)
    return messages[1]["content"][1]["text"]


def pitfalls(*failures, **options):
    draft = PitfallDraft.model_validate_json(pitfalls_reply(prompt_of(*failures, **options)))
    return {parse_rule(pitfall.evaluation_rule): int(pitfall.weight) for pitfall in draft.pitfalls}


def test_inventions_come_first_and_then_what_is_mistaken():
    written = pitfalls(
        "at top-left a big green circle . at center a big blue star .",
        "at right a small red square . the word DOG . at top-left a red circle .",
    )
    assert list(written.items()) == [
        (NamesObject("right", None, lenient=True), 3),
        (ReadsWord("DOG", lenient=True), 3),
        (HasAttribute("top-left", "green", lenient=True), 2),
        (NamesObject("center", "star", lenient=True), 2),
        (HasAttribute("center", "big", lenient=True), 2),
    ]


def test_pitfall_is_made_by_the_worst_captions_and_by_no_reference():
    failures = ["at top-left a big green circle . at bottom a red star .", "the word SUN . at center a red square ."]
    for rule in pitfalls(*failures):
        assert not any(holds(rule, text) for text in REFERENCES)
        assert any(holds(rule, text) for text in failures)


def test_what_references_say_or_failures_leave_out_is_no_pitfall():
    assert pitfalls(REFERENCES[0], "at top-left a circle .", "") == {}


def test_titles_that_the_rubric_has_are_left_out_and_so_is_what_is_too_much():
    caption = "at right a red square . the word DOG ."
    (draft,) = json.loads(pitfalls_reply(prompt_of(caption, most=1)))["pitfalls"]
    assert draft["criterion"] == "Invents an object at the right"
    titles = ("one", draft["criterion"])
    assert list(pitfalls(caption, titles=titles)) == [ReadsWord("DOG", lenient=True)]


def test_the_scripted_judge_understands_a_pitfall():
    caption = "at right a red square ."
    (draft,) = json.loads(pitfalls_reply(prompt_of(caption)))["pitfalls"]
    judged = [
        judge_criterion(draft["criterion"], draft["evaluation_rule"], text, 0.0)[0] for text in (caption, "a cat")
    ]
    assert judged == [1, 0]


def test_only_a_prompt_with_failures_asks_for_pitfalls():
    assert asks_for_pitfalls(prompt_of("a cat"))
    assert not asks_for_pitfalls("<student_caption>\na cat\n</student_caption>")
