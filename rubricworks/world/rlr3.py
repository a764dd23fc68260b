"""The scripted models of RLR³'s pipeline: who answers under which name."""

from collections.abc import Callable, Mapping

from rubricworks.world.chat import ChatRequest
from rubricworks.world.opener import answer_opener
from rubricworks.world.scene import Scene

Answer = Callable[[ChatRequest, Scene | None, int], str]
"""What a model says, given the request, the scene that its image shows (None without an image) and the world's seed."""

RLR3_MODELS: Mapping[str, Answer] = {
    "question-opener": answer_opener,
}
