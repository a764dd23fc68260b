"""Probes of one rubric: responses of its sample, and changed responses that are known to deserve less.

A good rubric gives less for half a response, another sample's, an empty one, and one with everything thrown in; as much
for a response in another order; and nothing for a text that only claims to have done what the criteria ask for.

Probes of images have the same changes: the half of an image, an empty one, another prompt's, several side by side, and
the criteria written out in place of a picture. All have the size of the first image, as a generator has one.
"""

import io
import re
import textwrap
from collections.abc import Sequence
from typing import Literal, NamedTuple

from PIL import Image, ImageDraw, ImageFont

from rubricworks.data.rubric_sets.entries import NEGATED
from rubricworks.rubrics import Criterion, Response, Rubric

ProbeKind = Literal[
    "response", "half", "padded", "shuffled", "everything", "other", "empty", "parroted", "reversed", "impossible"
]

IMPOSSIBLE = Criterion(
    criterion="Gives the serial number 7Q-31-Z that nothing shows",
    description="No response can know this serial number; one that does not state it does not meet the criterion.",
    evaluation_rule="Passes if the response gives the serial number 7Q-31-Z. Fails if it does not.",
    weight=1,
)
"""Criterion that no response meets: a judge that credits it credits anything."""
_PADDING = (
    "Overall, this is worth noting in every respect.",
    "All things considered, the description is thorough, precise and complete.",
    "In summary, nothing of importance is left out.",
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


class Probe(NamedTuple):
    """One text or image to grade by a rubric."""

    kind: ProbeKind
    text: str
    """Empty for an image."""
    rubric: Rubric
    """The rubric, its criteria in reverse (`reversed`), or with one that no response meets (`impossible`)."""
    image: Response | None = None

    @property
    def response(self) -> str | Response:
        return self.image or self.text


def make_probes(
    rubric: Rubric, responses: Sequence[str], others: Sequence[str], acts: Sequence[bool | None] | None = None
) -> list[Probe]:
    """Probes of a rubric, in a fixed order.

    Args:
        responses: of the sample, the best first, at least one.
        others: responses to other samples; without one, no probe is made of another sample's.
        acts: False for each criterion whose claim states what it asks for. No probe claims it, as its content could
            meet another criterion. By default all are claimed.
    """
    best = responses[0]
    parts = sentences(best)
    turned = Rubric(criteria=rubric.criteria[::-1])
    extended = Rubric(criteria=(*rubric.criteria, IMPOSSIBLE))
    claimed = _claimed(rubric, acts or [None] * len(rubric.criteria))
    claims = " ".join(f"The response meets this: {': '.join(statements(criterion))}." for criterion in claimed)
    claims = claims or "The response meets every criterion."
    of_others: list[tuple[ProbeKind, str]] = []
    if others:
        of_others = [("everything", " ".join([best, *others])), ("other", others[0])]
    return [
        *(Probe("response", text, rubric) for text in responses),
        Probe("half", " ".join(parts[: len(parts) // 2]), rubric),
        Probe("padded", " ".join([*parts, *_PADDING]), rubric),
        Probe("shuffled", " ".join([*parts[1::2], *parts[::2]]), rubric),
        *(Probe(kind, text, rubric) for kind, text in of_others),
        Probe("empty", "", rubric),
        Probe("parroted", claims, rubric),
        Probe("reversed", best, turned),
        Probe("impossible", best, extended),
    ]


def lone_claim(criterion: Criterion) -> str:
    """The claim of one act, without the others, in other words than in `parroted`."""
    return f"This has been done: {': '.join(statements(criterion))}."


def _claimed(rubric: Rubric, acts: Sequence[bool | None]) -> list[Criterion]:
    return [
        criterion
        for criterion, act in zip(rubric.criteria, acts, strict=True)
        if act is not False and criterion.weight > 0 and not is_negated(criterion)
    ]


def statements(criterion: Criterion) -> list[str]:
    """Texts that say what is asked: the title, and the description of a criterion without a rule of its own.

    Rubrics as Rewards, rewardkit and verifiers have a name for the title, and the statement in the description.
    """
    has_rule = criterion.evaluation_rule not in ("", NEGATED)
    return [criterion.criterion, *([criterion.description] if criterion.description and not has_rule else [])]


def is_negated(criterion: Criterion) -> bool:
    """Return True if a criterion is met where its statement does not hold."""
    return criterion.evaluation_rule == NEGATED


def sentences(text: str) -> list[str]:
    """Sentences of a text; its words where it is one sentence."""
    parts = [part for part in _SENTENCE.split(text.strip()) if part]
    return parts if len(parts) > 1 else text.split()


_GREY = (128, 128, 128)
_LINE = 40
"""Characters of a line of a written image."""
_FONT_SIZE = 14


def make_image_probes(
    rubric: Rubric, images: Sequence[bytes], others: Sequence[bytes], acts: Sequence[bool | None] = ()
) -> list[Probe]:
    """Probes of a rubric, in a fixed order.

    Args:
        images: PNG or JPEG of the sample's prompt, at least one; the changed ones are made of the first.
        others: images of other prompts; without one, no probe is made of another prompt's.
        acts: not used; written words are no picture, whatever they claim.
    """
    best = _decoded(images[0])
    half = Image.new("RGB", best.size, _GREY)
    half.paste(best.crop((0, 0, best.width // 2, best.height)), (0, 0))
    claims = [
        "; ".join(statements(criterion))
        for criterion in rubric.criteria
        if criterion.weight > 0 and not is_negated(criterion)
    ]
    turned = Rubric(criteria=rubric.criteria[::-1])
    extended = Rubric(criteria=(*rubric.criteria, IMPOSSIBLE))
    of_others = []
    if others:
        everything = _tiled([best, *map(_decoded, others)]).resize(best.size)
        of_others = [("everything", _encoded(everything)), ("other", others[0])]
    return [
        *(_probe("response", image, rubric) for image in images),
        _probe("half", _encoded(half), rubric),
        *(_probe(kind, image, rubric) for kind, image in of_others),
        _probe("empty", _encoded(Image.new("RGB", best.size, _GREY)), rubric),
        _probe("parroted", _encoded(_written(claims).resize(best.size)), rubric),
        _probe("reversed", images[0], turned),
        _probe("impossible", images[0], extended),
    ]


def _probe(kind: str, image: bytes, rubric: Rubric) -> Probe:
    return Probe(kind, "", rubric, Response.of_image(image))  # type: ignore[arg-type]  # a literal of the list above


def _tiled(images: Sequence[Image.Image]) -> Image.Image:
    """Images side by side, two in a row, each in its own size."""
    width, height = max(image.width for image in images), max(image.height for image in images)
    sheet = Image.new("RGB", (2 * width, height * -(-len(images) // 2)), _GREY)
    for at, image in enumerate(images):
        sheet.paste(image, (at % 2 * width, at // 2 * height))
    return sheet


def _written(lines: Sequence[str]) -> Image.Image:
    """The criteria in black on white."""
    text = "\n".join(row for line in lines for row in textwrap.wrap(line, _LINE))
    font = ImageFont.load_default(_FONT_SIZE)
    left, top, right, bottom = ImageDraw.Draw(Image.new("RGB", (1, 1))).multiline_textbbox((8, 8), text, font)
    sheet = Image.new("RGB", (int(right - left) + 24, int(bottom - top) + 24), "white")
    ImageDraw.Draw(sheet).multiline_text((8, 8), text, "black", font)
    return sheet


def _decoded(image: bytes) -> Image.Image:
    return Image.open(io.BytesIO(image)).convert("RGB")


def _encoded(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()
