"""The scripted judge of open answers: a short answer is right if it means the same as the reference. No faults."""

import json

from rubricworks.world.chat import ChatRequest, section
from rubricworks.world.scene.scene import Scene

_SYNONYMS = {
    "violet": "purple",
    "left of": "left",
    "to the left": "left",
    "on the left": "left",
    "right of": "right",
    "to the right": "right",
    "on the right": "right",
    "over": "above",
    "under": "below",
    "beneath": "below",
}


def answer_judge_reply(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """One JSON object: reason, right."""
    answer, reference = (_plain(section(request.prompt, tag) or "") for tag in ("answer", "reference"))
    right = bool(answer) and answer == reference
    reason = f"the answer is {answer or 'empty'}, the reference {reference}"
    return json.dumps({"reason": reason, "right": right})


def _plain(text: str) -> str:
    words = " ".join(text.lower().strip(" .!\n").split()).removeprefix("the ").removeprefix("a ")
    return _SYNONYMS.get(words, words)
