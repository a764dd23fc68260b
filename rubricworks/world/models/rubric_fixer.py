"""The scripted rubric writers at two further tasks: mending flagged rubrics, and writing pitfalls.

The mender works from the criteria, flags and responses in its prompt. It knows the rules of this world and trusts what
half of the responses agree on. A criterion that it does not understand, that any text or no response meets, or that
repeats another one, is dropped; of two that contradict each other, the one with fewer responses on its side; a title
that says more than its rule is written anew from the rule. A rubric that can be gamed gets every criterion and guard
that it would write itself from the responses.

The writer of pitfalls works from the references, worst captions and titles in its prompt, and makes no mistakes of its
own: what one of the worst captions says of a place, or reads as a word, and no reference does, is a pitfall. Things
invented come first, then wrong shapes, colours and sizes.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Any

from rubricworks.world.chat import section
from rubricworks.world.models.writer import WriterTask, rubric_writer_reply, write_rubric
from rubricworks.world.scene.captions import place
from rubricworks.world.scene.parsing import Mentions, mentions
from rubricworks.world.scene.rules import (
    GivesCount,
    HasAttribute,
    NamesObject,
    ReadsWord,
    Rule,
    holds,
    parse_rule,
    write_rule,
)
from rubricworks.world.scene.scene import CELLS, COLOURS

_RESPONSE = re.compile(r'<response name="[^"\n]+">\n(.*?)\n</response>', re.DOTALL)
_OF_THE_RUBRIC = 0
_FIELDS = ("criterion", "description", "evaluation_rule", "weight")
Criterion = Mapping[str, Any]


def writer_reply(prompt: str) -> str:
    """The JSON answer of `rubric-writer`: edits of a flagged rubric, or a rubric."""
    flags = section(prompt, "flags")
    if flags is None:
        return rubric_writer_reply(prompt)
    try:
        return json.dumps(_edits(json.loads(section(prompt, "criteria") or ""), json.loads(flags), prompt))
    except (ValueError, KeyError, TypeError):
        return "I mend rubrics of scenes; this message holds no criteria and flags that I can read."


def _edits(criteria: Sequence[Criterion], flags: Sequence[Mapping[str, Any]], prompt: str) -> dict[str, object]:
    responses = _RESPONSE.findall(prompt)
    own = _own_rubric(responses)
    by: dict[int, list[Criterion]] = {}
    for flag in flags:
        if flag["id"] != _OF_THE_RUBRIC:
            by |= _mended(flag["flag"], flag["id"], criteria, own, responses)
    added: list[Criterion] = []
    if any(flag["id"] == _OF_THE_RUBRIC for flag in flags):
        ids = {criterion["criterion"]: criterion["id"] for criterion in criteria}
        mended = {criterion["criterion"] for several in by.values() for criterion in several}
        for criterion in own:
            if criterion["criterion"] in ids:
                by[ids[criterion["criterion"]]] = [criterion]
            elif criterion["criterion"] not in mended:
                added.append(criterion)
    if len(by) == len(criteria) and not any(by.values()) and not added:
        added = own
    return {"replace": [{"id": number, "by": several} for number, several in sorted(by.items())], "add": added}


def _own_rubric(responses: Sequence[str]) -> list[Criterion]:
    """The criteria that the writer would write from the responses, with its guards."""
    named = {f"Response {number}": text for number, text in enumerate(responses, start=1)}
    task = WriterTask((), named, max(1, ceil(len(named) / 2)), coverage="full", guards=True)
    return [{name: fields[name] for name in _FIELDS} for fields in write_rubric(task)]


def _mended(
    flag: str, number: int, criteria: Sequence[Criterion], own: Sequence[Criterion], responses: Sequence[str]
) -> dict[int, list[Criterion]]:
    """Id → what takes the criterion's place."""
    flagged = next(criterion for criterion in criteria if criterion["id"] == number)
    rule = parse_rule(flagged["evaluation_rule"])
    if flag == "compound" and rule is not None:
        titles = {criterion["criterion"] for criterion in criteria if criterion is not flagged}
        same = [
            criterion
            for criterion in own
            if parse_rule(criterion["evaluation_rule"]) == rule and criterion["criterion"] not in titles
        ]
        return {number: [{**criterion, "weight": flagged["weight"]} for criterion in same[:1]]}
    if flag == "contradicts" and rule is not None and _agreed(rule, responses):
        rivals = [
            criterion["id"] for criterion in criteria if _excludes(rule, parse_rule(criterion["evaluation_rule"]))
        ]
        return {rival: [] for rival in rivals}
    return {number: []}


def _agreed(rule: Rule, responses: Sequence[str]) -> bool:
    return 2 * sum(holds(rule, text) for text in responses) >= max(len(responses), 1)


def _excludes(rule: Rule, other: Rule | None) -> bool:
    """Return True for another value of the same thing."""
    match rule, other:
        case (HasAttribute(cell, value), HasAttribute(other_cell, other_value)):
            return cell == other_cell and value != other_value and (value in COLOURS) == (other_value in COLOURS)
        case (NamesObject(cell, shape), NamesObject(other_cell, other_shape)):
            return cell == other_cell and shape != other_shape
        case (GivesCount(count), GivesCount(other_count)):
            return count != other_count
        case (ReadsWord(word), ReadsWord(other_word)):
            return word != other_word
        case _:
            return False


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
