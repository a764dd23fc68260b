"""Whether a short answer means the same as the reference: the scripted judge of open answers, without faults."""

import json

from rubricworks.world.chat import ChatRequest, section
from rubricworks.world.scene.scene import Scene

_SAME = {
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


def answer_answer_judge(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """One JSON object: reason, right."""
    given, reference = (_plain(section(request.prompt, tag) or "") for tag in ("answer", "reference"))
    right = bool(given) and given == reference
    reason = f"the answer is {given or 'empty'}, the reference {reference}"
    return json.dumps({"reason": reason, "right": right})


def _plain(text: str) -> str:
    words = " ".join(text.lower().strip(" .!\n").split()).removeprefix("the ").removeprefix("a ")
    return _SAME.get(words, words)
