"""The scripted rubric writers as writers of pitfalls, from the references, worst captions and titles in their prompt.

They work from the text alone, and make no mistakes of their own: what one of the worst captions says of a place, or
reads as a word, and no reference does, is a pitfall. Things invented come first, then wrong shapes, colours and sizes.
"""

import json
import re
from collections.abc import Iterator, Sequence

from rubricworks.world.chat import section
from rubricworks.world.scene.captions import place
from rubricworks.world.scene.parsing import Mentions, mentions
from rubricworks.world.scene.rules import HasAttribute, NamesObject, ReadsWord, Rule, write_rule
from rubricworks.world.scene.scene import CELLS

INVENTED, WRONG = 3, 2

_REFERENCE = re.compile(r'<reference name="[^"\n]+">\n(.*?)\n</reference>', re.DOTALL)
_FAILURE = re.compile(r"<failure>\n(.*?)\n</failure>", re.DOTALL)
_MOST = re.compile(r"^Write at most (\d+) pitfalls?\b", re.MULTILINE)


def asks_for_pitfalls(prompt: str) -> bool:
    return _FAILURE.search(prompt) is not None


def pitfalls_reply(prompt: str) -> str:
    """The JSON answer of a rubric writer to a request for pitfalls."""
    try:
        titles = set(json.loads(section(prompt, "rubric") or "[]"))
    except ValueError:
        return "I write pitfalls about scenes; this message holds no list of criteria that I can read."
    references = [mentions(text) for text in _REFERENCE.findall(prompt)]
    failures = [mentions(text) for text in _FAILURE.findall(prompt)]
    mistakes = {title: (rule, weight) for title, rule, weight in _mistakes(references, failures) if title not in titles}
    worst = sorted(mistakes.items(), key=lambda item: -item[1][1])
    most = _MOST.search(prompt)
    pitfalls = [
        {
            "criterion": title,
            "description": "Whether the caption says what no reference says.",
            "evaluation_rule": write_rule(rule),
            "weight": weight,
            "justification": "One of the worst captions says so, and no reference does.",
        }
        for title, (rule, weight) in worst[: int(most[1]) if most else 3]
    ]
    return json.dumps({"pitfalls": pitfalls})


def _mistakes(references: Sequence[Mentions], failures: Sequence[Mentions]) -> Iterator[tuple[str, Rule, int]]:
    """Title, rule and severity of each mistake."""
    for cell in CELLS:
        known = [item for stated in references for item in stated.objects if item.cell == cell]
        said = [item for stated in failures for item in stated.objects if item.cell == cell]
        if said and not known:
            yield f"Invents an object at {place(cell)}", NamesObject(cell, None, lenient=True), INVENTED
            continue
        shapes = {item.shape for item in known} | {None}
        for shape in dict.fromkeys(item.shape for item in said):
            if shape not in shapes:
                yield f"Calls the object at {place(cell)} a {shape}", NamesObject(cell, shape, lenient=True), WRONG
        for aspect in ("colour", "size"):
            values = {getattr(item, aspect) for item in known} | {None}
            for value in dict.fromkeys(getattr(item, aspect) for item in said):
                if value not in values:
                    yield f"Calls the object at {place(cell)} {value}", HasAttribute(cell, value, lenient=True), WRONG
    read = {word for stated in references for word in stated.words}
    for word in dict.fromkeys(word for stated in failures for word in stated.words):
        if word not in read:
            yield f"Reads the word {word}, which is not there", ReadsWord(word, lenient=True), INVENTED
