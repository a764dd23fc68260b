"""A response is a text or an image; a text stands for its `str`, an image for its digest."""

import dataclasses
import hashlib
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from rubricworks.rubrics import Response

PNG = b"\x89PNG\r\n\x1a\n rest"
JPEG = b"\xff\xd8\xff rest"


class Holder(BaseModel):
    response: Response


@given(st.text())
def test_a_text_response_is_equal_to_its_str_in_both_directions_and_as_a_key(text):
    response = Response(text)
    assert response == text
    assert text == response
    assert response != text + "!"
    assert {text: 1}[response] == 1
    assert {response: 1}[text] == 1
    assert not response.is_image
    assert response.key == text


@given(st.text())
def test_the_json_of_a_text_is_the_string_alone(text):
    holder = Holder(response=text)
    assert holder.model_dump_json() == BaseModelWithText(response=text).model_dump_json()
    assert Holder.model_validate_json(holder.model_dump_json()).response == text
    assert holder.model_dump() == {"response": text}


class BaseModelWithText(BaseModel):
    response: str


def test_of_takes_a_str_or_a_response_as_it_is():
    image = Response.of_image(PNG)
    assert Response.of(image) is image
    assert Response.of("a") == Response("a")
    with pytest.raises(TypeError, match="is a str, not int"):
        Response.of(3)


@pytest.mark.parametrize(("image", "media_type"), [(PNG, "image/png"), (JPEG, "image/jpeg"), (b"??", "image/png")])
def test_an_image_has_the_sha256_of_its_bytes_and_the_type_of_its_signature(image, media_type):
    response = Response.of_image(image)
    assert response.is_image
    assert response.text is None
    assert response.media_type == media_type
    assert response.digest == response.key == hashlib.sha256(image).hexdigest()
    assert response == Response(image=image, media_type=media_type)


def test_neither_repr_nor_json_holds_the_bytes():
    response = Response.of_image(PNG + b"secret-pixels")
    assert "secret" not in repr(response)
    dump = Holder(response=response).model_dump_json()
    assert json.loads(dump) == {"response": {"digest": response.digest, "media_type": "image/png"}}
    reread = Holder.model_validate_json(dump).response
    assert reread == response
    assert reread.image is None
    assert hash(reread) == hash(response)


def test_an_image_that_was_read_from_json_takes_its_own_bytes_and_no_others():
    stripped = Response(digest=Response.of_image(PNG).digest, media_type="image/png")
    assert stripped.with_image(PNG).image == PNG
    with pytest.raises(ValueError, match="the image has digest"):
        stripped.with_image(JPEG)
    with pytest.raises(ValueError, match="either a text or an image"):
        Response("a").with_image(PNG)


def test_an_image_differs_from_every_text_also_from_its_digest():
    response = Response.of_image(PNG)
    assert response != response.digest
    assert response != Response(response.digest)
    assert response != Response(image=PNG, media_type="image/jpeg")
    assert (response == 3) is False


def test_a_response_is_frozen_and_survives_pickling():
    for response in (Response("a"), Response.of_image(PNG)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            response.text = "b"
        copy = pickle.loads(pickle.dumps(response))
        assert copy == response
        assert copy.image == response.image


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"text": "a", "image": PNG, "media_type": "image/png"},
        {"text": "a", "digest": "0" * 64},
        {"image": PNG},
        {"image": PNG, "media_type": "image/gif"},
        {"image": PNG, "media_type": "image/png", "digest": "0" * 64},
        {"digest": "0" * 63, "media_type": "image/png"},
        {"digest": "../" + "0" * 61, "media_type": "image/png"},
    ],
)
def test_what_is_neither_a_text_nor_an_image_is_refused(fields):
    with pytest.raises(ValueError, match=r"response|media type|digest"):
        Response(**fields)


@pytest.mark.parametrize(
    "value",
    [
        *(None, 3, ["a"], {}, {"digest": "0" * 64}, {"digest": 3, "media_type": "image/png"}),
        {"digest": "0" * 64, "media_type": "image/gif"},
        {"digest": "0" * 64, "media_type": "image/png", "image": "x"},
    ],
)
def test_json_that_is_no_response_is_refused(value):
    with pytest.raises(ValidationError):
        Holder.model_validate_json(json.dumps({"response": value}))


def test_the_json_schema_allows_a_text_and_an_image():
    text, image = TypeAdapter(Response).json_schema()["anyOf"]
    assert text == {"type": "string"}
    assert image["required"] == ["digest", "media_type"]
