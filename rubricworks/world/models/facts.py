"""The scripted judge of DCScore: it splits captions into facts, matches facts, and checks them against a scene.

The request's content selects the task: a caption, two lists of facts, or facts and an image. Each decision is flipped
at a stated rate.

The scripted parser of CAPTURE: a caption's scene graph, without errors and without a look at the image.
"""

import json
import re

from rubricworks.world.chat import ApiError, ChatRequest, section
from rubricworks.world.scene.parsing import Mention, mentions
from rubricworks.world.scene.scene import Scene, rng_of
from rubricworks.world.scene.statements import is_supported, read_statement, scene_mentions, statements

FACT_ERROR_RATE = 0.02
"""Probability, per decision (a fact's relevance, its match, its truth), that it is wrong."""
NO_FACTS = "I judge facts about images; send <caption>, or <facts> with an image or with <reference_facts>."

_NUMBERED = re.compile(r"(\d+)\. (.*)")


def fact_judge_reply(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """The JSON answer to any of the three requests of `evaluation.caption_prompts`."""
    if (caption := section(request.prompt, "caption")) is not None:
        return json.dumps({"facts": _facts(caption, seed)})
    facts, reference = (_numbered(section(request.prompt, tag)) for tag in ("facts", "reference_facts"))
    if reference:
        return json.dumps({"matches": _matches(facts, reference, seed)})
    if not facts:
        return NO_FACTS
    if scene is None:
        raise ApiError(400, "fact-judge checks facts against an image; send one as an image_url part", param="messages")
    return json.dumps({"checks": _checks(facts, scene, seed)})


def _facts(caption: str, seed: int) -> list[dict[str, object]]:
    """The caption's distinct claims; a remark is not relevant."""
    facts: list[dict[str, object]] = []
    for claim in dict.fromkeys(statements(caption)):
        errs = rng_of("relevant", seed, caption, claim.text).random() < FACT_ERROR_RATE
        facts.append({"fact": claim.text, "relevant": (claim.remark is None) != errs})
    return facts


def _matches(facts: dict[int, str], reference: dict[int, str], seed: int) -> list[dict[str, object]]:
    """The first equivalent reference fact of each fact; an error replaces a match by none, and none by any."""
    matches: list[dict[str, object]] = []
    for number, fact in facts.items():
        same = next((at for at, other in reference.items() if read_statement(other) == read_statement(fact)), None)
        rng = rng_of("match", seed, fact, *reference.values())
        if rng.random() < FACT_ERROR_RATE:
            same = rng.choice(list(reference)) if same is None else None
        matches.append({"fact": number, "reference": same})
    return matches


def _checks(facts: dict[int, str], scene: Scene, seed: int) -> list[dict[str, object]]:
    view, place = scene_mentions(scene), scene.model_dump_json()
    checks: list[dict[str, object]] = []
    for number, fact in facts.items():
        errs = rng_of("check", seed, place, fact).random() < FACT_ERROR_RATE
        is_true = all(is_supported(claim, view) for claim in read_statement(fact))
        checks.append({"fact": number, "is_true": is_true != errs})
    return checks


def _numbered(text: str | None) -> dict[int, str]:
    return {int(number): line for number, line in _NUMBERED.findall(text or "")}


NOTHING_TO_PARSE = "I parse captions into scene graphs; this message holds no <caption>."


def graph_parser_reply(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """The JSON answer: shapes are objects, colours and sizes their attributes, places and sides relations."""
    if (caption := section(request.prompt, "caption")) is None:
        return NOTHING_TO_PARSE
    stated = mentions(caption)
    objects: dict[str, dict[str, None]] = {}
    relations: dict[tuple[str, str, str], None] = {}
    for item in stated.objects:
        objects.setdefault(_noun(item), {}).update(dict.fromkeys(word for word in (item.size, item.colour) if word))
        if item.cell:
            objects.setdefault(item.cell, {})
            relations[_noun(item), "at", item.cell] = None
    for relation in stated.relations:
        for item in (relation.subject, relation.other):
            objects.setdefault(_noun(item), {}).update(dict.fromkeys([item.colour] if item.colour else []))
        relations[_noun(relation.subject), relation.kind, _noun(relation.other)] = None
    for word in stated.words:
        objects.setdefault("word", {})[word.lower()] = None
    return json.dumps(
        {
            "objects": list(objects),
            "attributes": [{"object": name, "attributes": list(words)} for name, words in objects.items() if words],
            "relations": [
                dict(zip(("subject", "relation", "object"), relation, strict=True)) for relation in relations
            ],
        }
    )


def _noun(item: Mention) -> str:
    return item.shape or "object"
