"""A strong captioner that rewrites weak references: everything it sees, in the students' own style, hardly a fault."""

from rubricworks.world.chat import ApiError, ChatRequest
from rubricworks.world.scene.captions import write_caption
from rubricworks.world.scene.faults import Faults, perceive
from rubricworks.world.scene.scene import Scene, rng_of

RECAPTION_FAULTS = Faults(
    omits_big=0.004,
    omits_small=0.004,
    wrong_cell=0.004,
    wrong_size=0.004,
    wrong_colour=0.004,
    wrong_shape=0.004,
    misses_word=0.01,
    misreads_word=0.005,
)
"""Together 2 % of objects, and 1.5 % of words, are left out or wrong; nothing is invented."""


def answer_recaptioner(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """The caption of the image that the request shows; it depends on scene, request seed and world seed alone."""
    if scene is None:
        raise ApiError(400, "recaptioner looks at an image; send one as an image_url part", param="messages")
    rng = rng_of("recaptioner", seed, request.seed, scene.model_dump_json())
    return write_caption(perceive(scene, RECAPTION_FAULTS, rng), "canonical")
