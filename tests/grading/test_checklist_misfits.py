"""A scorer's answer that does not fit its checklist: shown back twice, then an error and never a number."""

import json

import pytest
from checklists import CREDITS, RUBRIC, grade, scoring
from scripted_server import say

from rubricworks.rubrics import ErrorClass


def items(text: str, name: str = "essential") -> list[dict[str, object]]:
    return json.loads(text)[name]


GOOD = scoring(*CREDITS)
MISFITS = {
    "wrong order": (scoring(*CREDITS, essential=items(GOOD)[::-1]), "word for word"),
    "one left out": (scoring(*CREDITS, essential=items(GOOD)[:1]), "essential has 1 entries, the checklist 2"),
    "one too many": (scoring(*CREDITS, additional=items(GOOD, "additional") * 2), "additional has 2 entries"),
    "none at all": ('{"thought": "t"}', "essential has 0"),
    "another list": (scoring(*CREDITS, essential=items(GOOD) + items(GOOD, "additional"), additional=[]), "3 entries"),
    "altered": (GOOD.replace("Gives the number of cups.", "Gives the right number of cups."), "word for word"),
    "other spaces": (GOOD.replace("number of cups", "number  of cups"), "word for word"),
    "a number for a tool": (scoring(1, 1, CREDITS[2]), "credit is a number; give the call of expr_verify"),
    "a call for a ground truth": (scoring(CREDITS[0], "expr_verify(predict='tea')", CREDITS[2]), "give 0, 0.5 or 1"),
    "a number as a string": (scoring(CREDITS[0], "1", CREDITS[2]), "give 0, 0.5 or 1"),
    "another tool": (scoring("text_verify(predict='4')", 1, CREDITS[2]), "it calls text_verify; call expr_verify"),
    "a target": (scoring("expr_verify(predict='4', target='4')", 1, CREDITS[2]), "it holds target; give predict only"),
    "no predict": (scoring("expr_verify()", 1, CREDITS[2]), "it has no predict"),
    "two calls": (scoring("expr_verify(predict='4')expr_verify(predict='4')", 1, CREDITS[2]), "follows the call"),
    "code": (scoring("expr_verify(predict=__import__('os').system('touch pwned'))", 1, CREDITS[2]), "no literal"),
    "code alone": (scoring("__import__('os').system('touch pwned')", 1, CREDITS[2]), "no call to run"),
    "a giant call": (scoring(f"expr_verify(predict='{'4' * 200_000}')", 1, CREDITS[2]), "characters"),
    "true": (scoring(CREDITS[0], True, CREDITS[2]), "give 0, 0.5 or 1"),
    "0.7": (scoring(CREDITS[0], 0.7, CREDITS[2]), "give 0, 0.5 or 1"),
    "null": (scoring(CREDITS[0], None, CREDITS[2]), "give 0, 0.5 or 1"),
    "a list": (scoring(CREDITS[0], [1], CREDITS[2]), "give 0, 0.5 or 1"),
    "NaN": (scoring(CREDITS[0], float("nan"), CREDITS[2]), "NaN is not a JSON number"),
    "a field more": (scoring(*CREDITS, verdict="pass"), "verdict"),
    "no thought": (GOOD.replace('"thought": "t", ', ""), "thought"),
    "prose": ("Full credit for everything!", "not one JSON object"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_an_answer_that_does_not_fit_may_be_repaired(serve, name):
    answer, complaint = MISFITS[name]
    server = serve([say(answer), say(GOOD)])
    assert grade(server.url).credits == [1, 1, 0.5]
    assert complaint in server.chats[1].body["messages"][-1]["content"]


@pytest.mark.parametrize("name", MISFITS)
def test_an_answer_that_never_fits_is_an_error_and_no_number(serve, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server = serve([say(MISFITS[name][0])])
    reported = []
    card = grade(server.url, on_error=reported.append)
    assert len(server.chats) == 3
    assert card.credits == [None, None, None]
    assert {verdict.error for verdict in card.verdicts} == {ErrorClass.MALFORMED}
    assert [call.criteria for call in reported] == [tuple(criterion.criterion for criterion in RUBRIC.criteria)]
    assert list(tmp_path.iterdir()) == []
