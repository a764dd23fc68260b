"""The scripted judge of DCScore: it takes captions apart into facts, matches facts, and checks them in a scene.

Which of the three it is asked for shows in what the request holds: a caption, two lists of facts, or facts and an
image. Whatever it decides comes out the other way at a stated rate.
"""

import json
import re

from rubricworks.world.chat import ApiError, ChatRequest, section
from rubricworks.world.scene.scene import Scene, rng_of
from rubricworks.world.scene.statements import borne_out, read_statement, statements, view_of_scene

FACT_ERROR_RATE = 0.02
"""Chance, per decision (a fact's relevance, its match, its truth), that it is wrong."""
NO_FACTS = "I judge facts about images; send <caption>, or <facts> with an image or with <reference_facts>."

_NUMBERED = re.compile(r"(\d+)\. (.*)")


def answer_fact_judge(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """Its JSON answer to any of the three requests of `evaluation.caption_prompts`."""
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
    """What the caption claims, each once; a remark is not relevant."""
    listed: list[dict[str, object]] = []
    for claim in dict.fromkeys(statements(caption)):
        errs = rng_of("relevant", seed, caption, claim.text).random() < FACT_ERROR_RATE
        listed.append({"fact": claim.text, "relevant": (claim.remark is None) != errs})
    return listed


def _matches(facts: dict[int, str], reference: dict[int, str], seed: int) -> list[dict[str, object]]:
    """The first reference fact that says the same; an error takes another one, or none."""
    matched: list[dict[str, object]] = []
    for number, fact in facts.items():
        same = next((at for at, other in reference.items() if read_statement(other) == read_statement(fact)), None)
        rng = rng_of("match", seed, fact, *reference.values())
        if rng.random() < FACT_ERROR_RATE:
            same = rng.choice(list(reference)) if same is None else None
        matched.append({"fact": number, "reference": same})
    return matched


def _checks(facts: dict[int, str], scene: Scene, seed: int) -> list[dict[str, object]]:
    view, place = view_of_scene(scene), scene.model_dump_json()
    checked: list[dict[str, object]] = []
    for number, fact in facts.items():
        errs = rng_of("check", seed, place, fact).random() < FACT_ERROR_RATE
        holds = all(borne_out(claim, view) for claim in read_statement(fact))
        checked.append({"fact": number, "is_true": holds != errs})
    return checked


def _numbered(listed: str | None) -> dict[int, str]:
    return {int(number): line for number, line in _NUMBERED.findall(listed or "")}
