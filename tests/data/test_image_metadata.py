"""What a photograph says of its place, its camera and its owner stays here; its pixels go out as they are."""

import base64
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from rubricworks.data.image_metadata import strip_metadata
from rubricworks.data.images import image_digest, normalise_image
from rubricworks.llm.messages import image_part

NOISE = np.random.default_rng(0).integers(0, 255, (40, 60, 3), dtype=np.uint8)
GPS = {1: "N", 2: (48.0, 51.0, 29.6), 3: "E", 4: (2.0, 17.0, 40.2)}
OWNER = "Jean Valjean, 24601"
XMP = b"<x:xmpmeta xmlns:x='adobe:ns:meta/'><owner>Jean Valjean, 24601</owner></x:xmpmeta>"


def exif(orientation: int = 1) -> Image.Exif:
    fields = Image.Exif()
    fields[0x0112], fields[0x010E], fields[0x010F] = orientation, OWNER, "Camera No. 24601"
    fields.get_ifd(0x8825).update(GPS)
    return fields


def jpeg(**options) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(NOISE).save(buffer, "JPEG", quality=90, **options)
    return buffer.getvalue()


def png(**options) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(NOISE).save(buffer, "PNG", **options)
    return buffer.getvalue()


def text_chunk() -> PngInfo:
    info = PngInfo()
    info.add_text("Author", OWNER)
    info.add_itxt("XML:com.adobe.xmp", XMP.decode())
    return info


FILM = b"\0\0\0\x18ftypmp42" + OWNER.encode() * 20
PHOTOGRAPHS = {
    "exif": jpeg(exif=exif()),
    "progressive": jpeg(exif=exif(), progressive=True, xmp=XMP),
    "comment": jpeg(comment=OWNER.encode()),
    "film behind it": jpeg(exif=exif()) + FILM,
    "photograph behind it": jpeg() + jpeg(exif=exif()),
    "restart markers": jpeg(exif=exif(), restart_marker_blocks=2),
    "colour profile": jpeg(exif=exif(), icc_profile=b"profile" * 20),
    "png": png(exif=exif(), pnginfo=text_chunk()),
    "png and more": png() + FILM,
}


def pixels(content: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_metadata_is_cut_out_and_every_pixel_and_the_digest_stay(name):
    content = PHOTOGRAPHS[name]
    stripped = normalise_image(content)
    assert len(stripped) < len(content)
    for private in (OWNER.encode(), b"24601", b"Exif", b"xmpmeta"):
        assert private not in stripped
    result = Image.open(io.BytesIO(stripped))
    assert not result.getexif()
    assert (pixels(stripped) == pixels(content)).all()
    assert image_digest(stripped) == image_digest(content)
    assert result.info.get("icc_profile") == Image.open(io.BytesIO(content)).info.get("icc_profile")
    assert normalise_image(stripped) is stripped


@pytest.mark.parametrize("content", [jpeg(), jpeg(progressive=True), png(), jpeg(icc_profile=b"profile" * 20)])
def test_an_image_without_metadata_keeps_its_bytes(content):
    assert normalise_image(content) is content
    assert strip_metadata(content) is content


def test_a_turned_photograph_becomes_upright_and_says_nothing_more():
    stripped = normalise_image(jpeg(exif=exif(orientation=6)))
    assert Image.open(io.BytesIO(stripped)).size == (40, 60)
    assert b"24601" not in stripped
    assert not Image.open(io.BytesIO(stripped)).getexif()


@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_an_image_that_did_not_come_from_a_source_is_stripped_before_it_is_sent(name):
    sent = base64.b64decode(image_part(PHOTOGRAPHS[name])["image_url"]["url"].partition("base64,")[2])
    assert b"24601" not in sent
    assert (pixels(sent) == pixels(PHOTOGRAPHS[name])).all()


@given(st.sampled_from([jpeg(exif=exif()), png(exif=exif())]), st.data())
def test_damaged_files_are_followed_to_an_end(content, data):
    position = data.draw(st.integers(2, len(content) - 1))
    changed = bytearray(content)
    changed[position] = data.draw(st.integers(0, 255))
    for damaged in (bytes(changed), content[:position]):
        stripped = strip_metadata(damaged)
        assert stripped is None or len(stripped) <= len(damaged)
