"""Scripted writer of rubrics from prompts for pictures, with faults that the checks and the selection should mend.

It answers a query of candidates and a selection. Each right candidate is left out with probability `OMISSION`; faulty
ones are added: about something that the prompt does not say, with an alternative, and with a key of its own. The
aspects that stand first in the request come first in the answer, as with a model that favours what it reads first.
"""

import json
import random
import re

from rubricworks.world.chat import ApiError, ChatRequest, section
from rubricworks.world.pictures.criteria import Candidate, candidates_of, parse_prompt
from rubricworks.world.pictures.drawing import COLOURS, SHAPES
from rubricworks.world.scene.scene import rng_of

OMISSION = 0.15
FAULTY = 0.3
"""Probability of each kind of faulty candidate, per answer."""
_KEY = re.compile(r"^- (\w+): ", re.MULTILINE)
_COUNT = re.compile(r"Write (\d+) criteria|Choose at most (\d+)")
_FIDELITY = ("object_presence", "object_count", "attribute_accuracy", "spatial_relation")


def prompt_rubric_writer_reply(request: ChatRequest, seed: int) -> str:
    """Candidates for a prompt, or a selection among candidates.

    Raises:
        ApiError: the request has no prompt.
    """
    prompt = section(request.prompt, "prompt")
    if prompt is None:
        raise ApiError(400, "send the prompt between <prompt> tags", param="messages")
    match = _COUNT.search(request.prompt)
    count = int(match[1] or match[2]) if match else 10
    listed = section(request.prompt, "candidates")
    if listed is not None:
        return json.dumps({"selected": _select(json.loads(listed), count)})
    rng = rng_of("prompt rubric", seed, prompt, request.seed)
    order = {key: at for at, key in enumerate(_KEY.findall(request.prompt))}
    wish = parse_prompt(prompt)
    candidates = [] if wish is None else [candidate for candidate in candidates_of(wish) if rng.random() >= OMISSION]
    candidates += _faulty(rng)
    candidates = sorted(
        (candidate for candidate in candidates if candidate.key in order or candidate.key == "vibe"),
        key=lambda candidate: order.get(candidate.key, 99),
    )
    rows = [{"eval_key": key, "criterion": text, "evidence": evidence} for key, text, evidence in candidates[:count]]
    return json.dumps({"rubrics": rows})


def _faulty(rng: random.Random) -> list[Candidate]:
    colour, shape = rng.choice(COLOURS), rng.choice(SHAPES)
    faulty = [
        Candidate("object_presence", f"There is a {colour} {shape} behind glass.", f"{colour} {shape} behind glass"),
        Candidate("aesthetics", "The picture should ideally look balanced.", ""),
        Candidate("vibe", "It feels calm.", ""),
    ]
    return [candidate for candidate in faulty if rng.random() < FAULTY]


def _select(candidates: list[dict[str, str]], count: int) -> list[int]:
    """Numbers of the candidates, those of fidelity first."""
    ranked = sorted(candidates, key=lambda candidate: (candidate["eval_key"] not in _FIDELITY, candidate["id"]))
    return [int(candidate["id"]) for candidate in ranked[:count]]
