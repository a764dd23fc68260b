"""Five captioners, each with a fault of its own and a style of its own.

What a teacher says depends on (world seed, model, image, request seed) alone: the same request gets the same answer,
and one teacher asked with several seeds gives several captions, as a sampled model does. Temperature is ignored.
"""

from typing import NamedTuple

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
"""What every teacher gets wrong now and then, beside its own fault."""


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
    """The caption that the teacher `model` gives to an image."""
    teacher = TEACHERS[model]
    seen = perceive(scene, teacher.faults, rng_of("teacher", world_seed, model, image_digest, request_seed))
    return write_caption(seen, teacher.style)
