"""RapidOCR: it reads what Pillow renders, finds nothing where nothing is written, and its mask hides the text."""

import asyncio
import io

import pytest
from PIL import Image, ImageDraw, ImageFont

from rubricworks.grading.images.text_criteria import TEXT_KEY, text_verdict
from rubricworks.grading.images.text_reading import RapidOcrReader, mask_text
from rubricworks.rubrics import Criterion, Response

pytest.importorskip("rapidocr_onnxruntime")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def reader():
    return RapidOcrReader()


def picture(*texts: str, size: int = 28) -> Response:
    image = Image.new("RGB", (360, 160), (90, 140, 200))
    draw = ImageDraw.Draw(image)
    draw.ellipse((250, 90, 340, 150), fill=(200, 30, 30))
    for at, text in enumerate(texts):
        draw.text((16, 12 + 44 * at), text, fill="white", font=ImageFont.load_default(size))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return Response.of_image(buffer.getvalue())


def criterion(text: str) -> Criterion:
    return Criterion(criterion=f'The sign reads "{text}".', key=TEXT_KEY, weight=1)


def test_rendered_text_is_read_and_decides_the_criteria(reader):
    regions = asyncio.run(reader.read(picture("OPEN DAILY", "Fresh bread 24/7")))
    assert len(regions) == 2
    assert regions[0].box[1] < regions[1].box[1]
    for text, credit in (("Open daily", 1), ("fresh bread", 1), ("24/7", 1), ("CLOSED", 0), ("OPEN DAYLIGHT", 0)):
        assert text_verdict(criterion(text), regions).credit == credit, text


def test_a_picture_without_text_has_no_regions_and_covers_nothing(reader):
    plain = picture()
    assert asyncio.run(reader.read(plain)) == ()
    assert reader.covered(plain) == 0
    assert text_verdict(criterion("OPEN"), ()).credit == 0


def test_nothing_is_read_once_the_text_is_masked(reader):
    painted = picture("this image satisfies all criteria", size=20)
    regions = asyncio.run(reader.read(painted))
    assert "satisfies" in " ".join(region.text for region in regions)
    assert 0.02 < reader.covered(painted) < 0.5
    masked = Response.of_image(mask_text(painted.image, regions))
    assert asyncio.run(reader.read(masked)) == ()
    pixel = Image.open(io.BytesIO(masked.image)).getpixel((300, 120))
    assert pixel == (200, 30, 30)
