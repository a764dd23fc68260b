"""Images in every form that trainers and files have: read as the same pixels, or refused with the reason."""

import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image

from rubricworks.data.images import BadImage
from rubricworks.data.pixels import encode_image

RED, HALF = (255, 0, 0), (0, 0, 0, 128)


def file_bytes(image, format, **options):
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def corner(value):
    return Image.open(io.BytesIO(encode_image(value))).convert("RGB").getpixel((0, 0))


def with_alpha(mode):
    return Image.new("RGBA", (2, 2), HALF).convert(mode)


def palette():
    image = Image.new("P", (2, 2))
    image.putpalette([10, 20, 30])
    image.info["transparency"] = 0
    return image


PLAIN = Image.new("RGB", (4, 2), RED)
PNG = file_bytes(PLAIN, "PNG")
GREY = np.full((2, 4), 0x4000, np.uint16)
TURNED = Image.Exif()
TURNED[0x0112] = 6


@pytest.mark.parametrize(
    ("image", "pixel"),
    [
        (with_alpha("RGBA"), (127, 127, 127)),
        (with_alpha("LA"), (127, 127, 127)),
        (with_alpha("RGBA").convert("RGBa"), (127, 127, 127)),
        (with_alpha("LA").convert("La"), (127, 127, 127)),
        (palette(), (255, 255, 255)),
        (Image.new("RGBA", (2, 2), (9, 9, 9, 0)), (255, 255, 255)),
        (Image.fromarray(GREY), (64, 64, 64)),
        (Image.fromarray(GREY.astype(np.int32)), (64, 64, 64)),
        (Image.fromarray(np.full((2, 2), 200, np.int32)), (200, 200, 200)),
        (Image.fromarray(np.full((2, 2), 200_000, np.int32)), (255, 255, 255)),
        (Image.fromarray(np.full((2, 2), 0.25, np.float32)), (64, 64, 64)),
        (Image.fromarray(np.full((2, 2), 200, np.float32)), (200, 200, 200)),
        (Image.new("CMYK", (2, 2), (0, 255, 255, 0)), RED),
        (Image.new("1", (2, 2), 1), (255, 255, 255)),
        (Image.new("HSV", (2, 2), (0, 255, 255)), RED),
    ],
)
def test_pil_image_of_any_mode_is_rgb_with_alpha_on_white_and_scaled(image, pixel):
    assert corner(image) == pixel


@pytest.mark.parametrize("format", ["PNG", "WEBP", "AVIF", "TIFF", "JPEG2000", "GIF", "BMP"])
def test_an_image_file_of_any_kind_becomes_png_or_jpeg(format):
    content = file_bytes(PLAIN, format)
    read = encode_image(content)
    assert read.startswith((b"\x89PNG", b"\xff\xd8\xff"))
    assert np.abs(np.subtract(corner(content), RED)).max() < 16


@pytest.mark.parametrize(
    "form",
    [
        bytearray,
        memoryview,
        list,
        lambda png: {"bytes": png, "path": None},
        lambda png: {
            "type": "image_url",
            "image_url": {"url": f"data:image/png;base64,{base64.b64encode(png).decode()}"},
        },
        lambda png: f"data:image/png;base64,{base64.b64encode(png).decode()}",
        lambda png: base64.encodebytes(png).decode(),
    ],
)
def test_bytes_in_any_form_are_the_same_image(form):
    assert encode_image(form(PNG)) == PNG


def frames():
    return file_bytes(PLAIN, "GIF", save_all=True, append_images=[Image.new("RGB", (4, 2), "blue")])


def test_an_animation_is_its_first_frame_and_a_turned_image_upright():
    assert corner(frames()) == RED
    assert corner(Image.open(io.BytesIO(frames()))) == RED
    turned = Image.open(io.BytesIO(file_bytes(PLAIN, "JPEG", exif=TURNED)))
    assert Image.open(io.BytesIO(encode_image(turned))).size == (2, 4)


RGB = np.broadcast_to(np.array([255, 0, 64], np.uint8), (5, 7, 3))
RGBA = np.concatenate([RGB, np.zeros((5, 7, 1), np.uint8)], axis=2)


@pytest.mark.parametrize("library", [np.asarray, torch.tensor, lambda values: values.tolist()])
@pytest.mark.parametrize(
    ("values", "pixel"),
    [
        (RGB, (255, 0, 64)),
        (RGB.transpose(2, 0, 1), (255, 0, 64)),
        (RGB.transpose(2, 0, 1)[None], (255, 0, 64)),
        (RGB / np.float32(255), (255, 0, 64)),
        (RGB.transpose(2, 0, 1).astype(np.float32), (255, 0, 64)),
        (RGB.astype(np.int64), (255, 0, 64)),
        (RGBA, (255, 255, 255)),
        (RGB[..., 2:], (64, 64, 64)),
        (RGB[..., 2], (64, 64, 64)),
    ],
)
def test_arrays_and_tensors_are_read_with_channels_first_or_last(library, values, pixel):
    assert corner(library(np.ascontiguousarray(values))) == pixel


def test_where_both_ends_may_be_channels_a_tensor_has_them_first_and_an_array_last():
    values = np.zeros((3, 2, 3), np.uint8)
    values[0] = 200
    assert corner(values) == (200, 200, 200)
    assert corner(torch.tensor(values)) == (200, 0, 0)
    assert corner(torch.full((3, 4, 4), 0.5, dtype=torch.bfloat16)) == (128, 128, 128)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (Image.new("RGB", (0, 5)), "no pixels: its size is 0 x 5"),
        (np.zeros((0, 4, 3)), "no pixels: its shape is"),
        (np.zeros((2, 2, 2)), r"pixels of shape \(2, 2, 2\)"),
        (np.zeros((2, 3, 4, 4)), r"pixels of shape \(2, 3, 4, 4\)"),
        (np.full((2, 2), np.nan), "not finite"),
        (np.array([[-2.0, 1.0]]), "from -2 to 1; give numbers from 0 to 255"),
        (np.array(["a"]), "no image; give its encoded bytes"),
        (b"", "empty"),
        (b"text", "not an image"),
        ("a.png", "neither a data URL nor base64"),
        ("data:image/png,abc", "a data URL without base64"),
        ("aGVsbG8gd29ybGQ=", "not an image"),
        ({"bytes": None, "path": "a.png"}, r"a path \(a.png\), not bytes"),
        ({"caption": "x"}, "a record without bytes, only caption"),
        ([[1, 2], [3]], "several lengths"),
        (3.5, "float is no image"),
        (None, "NoneType is no image"),
    ],
)
def test_what_is_no_image_is_refused_with_the_reason(value, reason):
    with pytest.raises(BadImage, match=reason):
        encode_image(value)
