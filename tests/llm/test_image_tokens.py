"""Tokens of an image by model family, against the providers' own examples and Qwen's processor."""

import pytest
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

from rubricworks.llm import Endpoint, image_part, text_part
from rubricworks.llm.image_tokens import image_tokens
from rubricworks.llm.request import RequestFrame
from rubricworks.recipe.files import load_recipe, recipe_path


def tokens(model: str, width: int = 1_024, height: int = 1_024) -> int:
    return image_tokens(Endpoint(url="http://host/v1", model=model), width, height)


@pytest.mark.parametrize(
    ("model", "width", "height", "expected"),
    [
        ("gpt-4o-mini", 1_024, 1_024, 25_501),
        ("gpt-4o", 1_024, 1_024, 765),
        ("gpt-4o-2024-08-06", 2_048, 4_096, 1_105),
        ("openai/gpt-4.1", 1_024, 1_024, 765),
        ("gpt-4.1-mini", 1_024, 1_024, 1_659),
        ("o4-mini", 1_800, 2_400, 2_498),
        ("o3", 1_024, 1_024, 675),
        ("gemini-2.5-pro", 960, 540, 1_548),
        ("google/gemini-2.0-flash", 384, 384, 258),
        ("claude-sonnet-4-5", 1_000, 1_000, 1_334),
        ("anthropic/claude-3-5-haiku", 200, 200, 54),
        ("some-other-model", 1_024, 1_024, 1_000),
    ],
)
def test_tokens_of_an_image_are_those_of_the_providers_examples(model, width, height, expected):
    assert tokens(model, width, height) == expected


@pytest.mark.parametrize(("model", "side"), [("Qwen/Qwen2.5-VL-7B-Instruct", 28), ("Qwen/Qwen3-VL-30B-A3B", 32)])
@pytest.mark.parametrize(("width", "height"), [(1_024, 1_024), (640, 427), (1_024, 333)])
def test_tokens_of_qwens_images_are_those_of_its_processor(model, side, width, height):
    resized = smart_resize(height, width, factor=side, min_pixels=side * side, max_pixels=10**8)
    assert tokens(model, width, height) == (resized[0] // side) * (resized[1] // side) + 2


def test_a_plan_counts_the_images_tokens_of_its_own_models():
    recipe = load_recipe(recipe_path("recaption-pretrain"), ())
    captioners = list(recipe.recaption.captioners)
    endpoint = captioners[1].endpoint.model_copy(update={"model": "gpt-4o-mini"})
    captioners[1] = captioners[1].model_copy(update={"endpoint": endpoint})
    section = recipe.recaption.model_copy(update={"captioners": tuple(captioners)})
    planned = recipe.model_copy(update={"recaption": section}).estimate_calls(1_000)
    assert [call.tokens_in for call in planned if call.purpose == "recaption"] == [25_501]


def test_a_budget_reserves_the_tokens_that_the_model_bills_for_an_image():
    message = {"role": "user", "content": [image_part(b"\xff\xd8\xff1"), text_part("?")]}
    named = {
        name: RequestFrame(Endpoint(url="http://host/v1", model=name), None).encode([message], 0).tokens
        for name in ("gpt-4o-mini", "other-model")
    }
    assert named["gpt-4o-mini"] - named["other-model"] == 25_501 - 1_000
