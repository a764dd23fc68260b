"""Oracle scores of a caption against the scene itself. Training never sees them.

Strict: a mention is right when cell, size, colour and shape all are. Each object can be matched once, so a repeated
mention lowers precision like any other wrong one. The word is reported separately; counts and relations do not enter.
"""

from collections import Counter

from pydantic import BaseModel

from rubricworks.world.scene.parsing import Mention, mentions
from rubricworks.world.scene.scene import Scene


class OracleScore(BaseModel, extra="forbid", frozen=True):
    """The fit of one caption to its scene."""

    precision: float
    recall: float
    f1: float
    objects_named: int
    objects_right: int
    objects_present: int
    word_right: bool | None
    """True if the caption reads exactly the scene's word; None if the scene has no word and the caption reads none."""


def score_caption(scene: Scene, caption: str) -> OracleScore:
    """Precision, recall and F1 of the caption's object mentions; all 0 for a caption that names nothing right."""
    stated = mentions(caption)
    truth = Counter(Mention(item.cell, item.size, item.colour, item.shape) for item in scene.objects)
    right = (Counter(stated.objects) & truth).total()
    mentioned, present = len(stated.objects), len(scene.objects)
    word_right = None
    if scene.word is not None or stated.words:
        word_right = set(stated.words) == {scene.word}
    return OracleScore(
        precision=right / mentioned if mentioned else 0.0,
        recall=right / present,
        f1=2 * right / (mentioned + present),
        objects_named=mentioned,
        objects_right=right,
        objects_present=present,
        word_right=word_right,
    )
