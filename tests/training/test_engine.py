"""The engine of Transformers; tests/vllm_cpu/test_real_engine.py compares vLLM's with it."""

import importlib.util

import pytest
from coloured_squares import PROMPT, squares

from rubricworks.errors import UserError
from rubricworks.training.config import EngineOptions
from rubricworks.training.engine import load_engine
from rubricworks.training.generate import decode_image, generate_captions, load_model
from rubricworks.training.processing import encode_prompts, prompt_token_ids

IMAGES = [image for image, _, _ in squares()[:4]]


def test_default_engine_writes_what_generate_does(student):
    engine = load_engine(student, EngineOptions(), batch_size=3)
    expected = generate_captions(*load_model(student), IMAGES, [PROMPT] * 4, max_new_tokens=5, batch_size=3)
    assert engine(IMAGES, [PROMPT] * 4, max_new_tokens=5) == expected
    engine.close()


def test_texts_are_batched_by_length_and_returned_in_their_order(student):
    """A batch is as long as its longest prompt: the cache of keys and values holds the padding too."""
    engine = load_engine(student, EngineOptions(), batch_size=2)
    prompts = [" ".join(["describe"] * count) for count in (3, 40, 5, 41, 4, 42)]
    alone = [engine([None], [prompt], max_new_tokens=5)[0] for prompt in prompts]
    shapes: list[tuple[int, int]] = []
    generate = engine._model.generate

    def note(input_ids, **options):
        shapes.append(tuple(input_ids.shape))
        return generate(input_ids=input_ids, **options)

    engine._model.generate = note
    assert engine([None] * 6, prompts, max_new_tokens=5) == alone
    longest = shapes[0][1]
    assert shapes == [(2, longest), (2, longest - 2), (2, longest - 38)]
    engine.close()


def test_vllm_that_is_not_installed_is_one_clear_error(student, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"engine\.kind is vllm, but vllm is not installed: pip install"):
        load_engine(student, EngineOptions(kind="vllm"), batch_size=3)


def test_prompt_for_an_engine_is_that_of_training_with_one_token_for_the_image(student):
    import PIL.Image

    _, processor = load_model(student)
    image = PIL.Image.new("RGB", (32, 32))
    expanded = encode_prompts(processor, [image], [PROMPT])["input_ids"][0].tolist()
    count = expanded.count(processor.image_token_id)
    first = expanded.index(processor.image_token_id)
    assert count > 1
    assert prompt_token_ids(processor, image, PROMPT) == expanded[: first + 1] + expanded[first + count :]
    assert (
        prompt_token_ids(processor, None, PROMPT)
        == encode_prompts(processor, [None], [PROMPT])["input_ids"][0].tolist()
    )


def test_prompts_with_several_images_are_read_in_order_beside_others(student):
    """Two images as parts are two places in the prompt; a prompt with one of them as parts is that with it as image."""
    model, processor = load_model(student)
    red, blue = (decode_image(image) for image in IMAGES[:2])

    def parts(*images):
        places = [{"type": "image", "image": image} for image in images]
        return [{"role": "user", "content": [*places, {"type": "text", "text": PROMPT}]}]

    mixed = encode_prompts(processor, [None, red], [parts(red, blue), PROMPT])
    alone = [encode_prompts(processor, [None], [parts(image)]) for image in (red, blue)]
    count = [int((encoded["input_ids"] == processor.image_token_id).sum()) for encoded in (mixed, *alone)]
    assert count[0] == 2 * count[1] + count[2]
    expected = [alone[0]["pixel_values"], alone[1]["pixel_values"], alone[0]["pixel_values"]]
    assert mixed["pixel_values"].tolist() == [patch for patches in expected for patch in patches.tolist()]
    options = {"max_new_tokens": 5, "batch_size": 3}
    texts = generate_captions(
        model, processor, [None, None, IMAGES[0]], [parts(red, blue), parts(red), PROMPT], **options
    )
    assert texts[1] == texts[2]
    assert len(texts) == 3
