"""Every image becomes upright RGB of a bounded size, and keeps its bytes where nothing had to change."""

import io

import numpy as np
import pytest
from PIL import Image, features

from rubricworks.data.images import NO_PIXELS, BadImage, check_image, image_digest, normalise_image


def encoded(image: Image.Image, format: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def decode(content: bytes) -> Image.Image:
    return Image.open(io.BytesIO(content))


def quarters(width=40, height=20) -> Image.Image:
    """Left half red, right half blue."""
    image = Image.new("RGB", (width, height), (255, 0, 0))
    image.paste((0, 0, 255), (width // 2, 0, width, height))
    return image


@pytest.mark.parametrize("format", ["PNG", "JPEG"])
def test_plain_image_keeps_its_bytes(format):
    content = encoded(quarters(), format)
    assert normalise_image(content, max_side=40) == content


def test_alpha_is_laid_on_white():
    image = Image.new("RGBA", (4, 4), (255, 0, 0, 0))
    image.putpixel((0, 0), (0, 0, 0, 128))
    result = decode(normalise_image(encoded(image, "PNG")))
    assert (result.mode, result.format) == ("RGB", "PNG")
    assert result.getpixel((3, 3)) == (255, 255, 255)
    assert result.getpixel((0, 0)) == (127, 127, 127)


def test_palette_with_a_transparent_colour_is_laid_on_white():
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putpixel((1, 0), 1)
    result = decode(normalise_image(encoded(image, "PNG", transparency=0)))
    assert [result.getpixel((x, 0)) for x in (0, 1)] == [(255, 255, 255), (40, 50, 60)]


# What each orientation tag asks of a viewer (EXIF 2.3, tag 0x0112), as operations on the stored pixels.
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    6: Image.Transpose.ROTATE_270,
    8: Image.Transpose.ROTATE_90,
}


@pytest.mark.parametrize("orientation", TURNS)
def test_exif_orientation_is_applied_and_forgotten(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    result = decode(normalise_image(encoded(quarters(), "JPEG", exif=exif, quality=95)))
    expected = quarters().transpose(TURNS[orientation])
    assert result.size == expected.size
    assert result.getexif().get(0x0112) is None
    assert np.abs(np.asarray(result, dtype=int) - np.asarray(expected, dtype=int)).mean() < 12


def test_greyscale_becomes_rgb_of_the_same_format():
    for format in ("PNG", "JPEG"):
        result = decode(normalise_image(encoded(Image.new("L", (8, 8), 100), format)))
        assert (result.mode, result.format) == ("RGB", format)
        assert result.getpixel((4, 4)) == (100, 100, 100)


def test_sixteen_bit_grey_is_scaled_not_clipped():
    image = Image.fromarray(np.full((4, 4), 0x4000, dtype=np.uint16))
    assert decode(normalise_image(encoded(image, "PNG"))).getpixel((0, 0)) == (0x40, 0x40, 0x40)


def test_cmyk_jpeg_becomes_rgb():
    result = decode(normalise_image(encoded(quarters().convert("CMYK"), "JPEG")))
    assert (result.mode, result.format) == ("RGB", "JPEG")


def test_4000_pixels_are_scaled_to_the_longer_side():
    result = decode(normalise_image(encoded(quarters(4_000, 3_000), "JPEG"), max_side=1_024))
    assert result.size == (1_024, 768)
    left, right = result.getpixel((100, 400)), result.getpixel((900, 400))
    assert left[0] > 200 > 60 > left[2]
    assert right[2] > 200 > 60 > right[0]


def test_lossless_formats_stay_lossless_and_others_become_jpeg():
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8))
    for format, options in (("BMP", {}), ("TIFF", {}), ("WEBP", {"lossless": True})):
        result = decode(normalise_image(encoded(noise, format, **options)))
        assert result.format == "PNG"
        assert result.tobytes() == noise.tobytes()
    assert decode(normalise_image(encoded(noise, "WEBP"))).format == "JPEG"


def test_metadata_of_a_reencoded_image_is_dropped():
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "MakerOfCameras"
    assert b"MakerOfCameras" not in normalise_image(encoded(quarters(), "JPEG", exif=exif))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"hello, I am a text", "not an image"),
        (encoded(quarters(400, 400), "JPEG")[:1_500], "damaged image"),
        (encoded(quarters(400, 400), "PNG")[:-40], "damaged image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image"),
    ],
)
def test_what_is_no_image_is_refused_with_the_reason(content, message):
    with pytest.raises(BadImage, match=message):
        normalise_image(content)


def test_decompression_bomb_is_refused_before_it_is_unpacked():
    bomb = encoded(Image.new("1", (60_000, 2_000)), "PNG")
    assert len(bomb) < 100_000
    with pytest.raises(BadImage, match="too large"):
        normalise_image(bomb)


def test_digest_is_of_the_pixels_not_of_the_encoding():
    assert image_digest(encoded(quarters(), "PNG")) == image_digest(encoded(quarters(), "BMP"))
    assert image_digest(encoded(quarters(), "PNG")) != image_digest(encoded(quarters(20, 40), "PNG"))
    # The same bytes in another shape.
    assert image_digest(encoded(Image.new("RGB", (2, 8)), "PNG")) != image_digest(
        encoded(Image.new("RGB", (4, 4)), "PNG")
    )


@pytest.mark.skipif(not features.check("avif"), reason="this Pillow reads no AVIF")
def test_damaged_avif_is_refused_too():
    with pytest.raises(BadImage, match="damaged image"):
        normalise_image(encoded(quarters(), "AVIF").replace(b"iloc", b"free"))


def test_an_image_without_pixels_says_so():
    with pytest.raises(BadImage, match=r"^the decoder returned pixels that are no numbers$"):
        check_image(NO_PIXELS, "image/png")
