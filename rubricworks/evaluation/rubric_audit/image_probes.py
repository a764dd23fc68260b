"""Probes of one rubric whose responses are images: of its prompt, and changed ones that deserve less.

The changes are those of `probes` for texts: the half of an image, an empty one, another prompt's, several side by side,
and the criteria written out in place of a picture. All have the size of the first image, as a generator has one.
"""

import io
import textwrap
from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

from rubricworks.evaluation.rubric_audit.probes import IMPOSSIBLE, Probe, is_negated, statements
from rubricworks.rubrics import Response, Rubric

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
