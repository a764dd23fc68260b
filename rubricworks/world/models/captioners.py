"""Captioners: five teachers, each with its own fault and style, a strong recaptioner, a pair for VLM pretraining.

A caption depends on (world seed, model, image, request seed) alone: the same request gets the same answer, and other
request seeds give other captions, as a sampled model does. Temperature is ignored.
"""

from typing import NamedTuple

from rubricworks.world.chat import ApiError, ChatRequest
from rubricworks.world.scene.captions import Style, write_caption
from rubricworks.world.scene.faults import Faults, perceive
from rubricworks.world.scene.scene import Scene, rng_of

SLIPS = Faults(
    omits_big=0.02,
    omits_small=0.02,
    wrong_cell=0.02,
    wrong_size=0.02,
    wrong_colour=0.02,
    wrong_shape=0.02,
    invents=0.02,
    misses_word=0.10,
    misreads_word=0.03,
)
"""Small faults that every teacher has beside its own."""

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
"""About 2 % of objects and 1.5 % of words are left out or wrong; nothing is invented."""


PRETRAINING_CAPTIONERS: dict[str, Faults] = {
    "captioner-base": Faults(
        omits_big=0.05, omits_small=0.11, wrong_cell=0.025, wrong_size=0.05, wrong_colour=0.045, wrong_shape=0.045
    ),
    "captioner-policy": Faults(
        omits_big=0.01, omits_small=0.02, wrong_cell=0.005, wrong_size=0.015, wrong_colour=0.01, wrong_shape=0.01
    ),
}
"""Two captioners in one style that differ in their faults alone, as good as the quickstart's student was before and
after its RL: a mean oracle F1 of about 0.80 and 0.95.
"""


class Teacher(NamedTuple):
    fault: str
    faults: Faults
    style: Style


TEACHERS: dict[str, Teacher] = {
    "teacher-1": Teacher("overlooks small objects", SLIPS.model_copy(update={"omits_small": 0.35}), "there_is"),
    "teacher-2": Teacher("confuses colours that look alike", SLIPS.model_copy(update={"wrong_colour": 0.25}), "sits"),
    "teacher-3": Teacher(
        "puts objects into a neighbouring place", SLIPS.model_copy(update={"wrong_cell": 0.20}), "place_first"
    ),
    "teacher-4": Teacher("invents an object", SLIPS.model_copy(update={"invents": 0.50}), "listing"),
    "teacher-5": Teacher(
        "is wordy and misjudges sizes and shapes",
        SLIPS.model_copy(update={"wrong_size": 0.25, "wrong_shape": 0.08}),
        "verbose",
    ),
}


def teacher_caption(model: str, scene: Scene, image_digest: str, *, request_seed: int = 0, world_seed: int = 0) -> str:
    """The caption of an image by the teacher `model`."""
    teacher = TEACHERS[model]
    view = perceive(scene, teacher.faults, rng_of("teacher", world_seed, model, image_digest, request_seed))
    return write_caption(view, teacher.style)


def pretraining_caption(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """A caption of the request's image, in the students' own style, with the faults of the model."""
    if scene is None:
        raise ApiError(400, f"{request.model} looks at an image; send one as an image_url part", param="messages")
    rng = rng_of("pretraining", seed, request.model, request.seed, scene.model_dump_json())
    return write_caption(perceive(scene, PRETRAINING_CAPTIONERS[request.model], rng), "canonical")


def recaptioner_reply(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """A nearly faultless caption of the request's image, in the students' own style."""
    if scene is None:
        raise ApiError(400, "recaptioner looks at an image; send one as an image_url part", param="messages")
    rng = rng_of("recaptioner", seed, request.seed, scene.model_dump_json())
    return write_caption(perceive(scene, RECAPTION_FAULTS, rng), "canonical")
