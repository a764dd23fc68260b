"""A model directory served by vLLM itself for benchmarks: several images, a long answer beside others, and its end."""

import asyncio

import pytest
from coloured_squares import PROMPT, squares

from rubricworks.errors import UserError
from rubricworks.llm import ChatClient, Endpoint, image_part, text_part
from rubricworks.training.config import EngineOptions
from rubricworks.training.engine import load_engine
from rubricworks.training.vllm_server import served_by_vllm

pytestmark = pytest.mark.vllm
OPTIONS = EngineOptions(kind="vllm", max_model_length=256, gpu_memory=0.2)
IMAGES = [image for image, _, _ in squares()[:2]]


def test_it_answers_as_the_engine_does_and_takes_several_images(taught):
    with served_by_vllm(taught, OPTIONS) as url:

        async def ask():
            async with ChatClient(Endpoint(url=url, model=taught.name, max_tokens=12), attempts=1) as client:
                contents = [[image_part(IMAGES[0])], [image_part(image) for image in IMAGES]]
                messages = [[{"role": "user", "content": [*images, text_part(PROMPT)]}] for images in contents]
                return await asyncio.gather(*(client.chat(message) for message in messages))

        one_image, two_images = asyncio.run(ask())
    engine = load_engine(taught, EngineOptions(), batch_size=1)
    [(expected, _)] = engine(IMAGES[:1], [PROMPT], max_new_tokens=12)
    engine.close()
    assert one_image.raw.strip() == expected.strip()
    assert two_images.usage.prompt_tokens > one_image.usage.prompt_tokens


def test_a_model_that_it_cannot_serve_is_one_line(taught):
    options = OPTIONS.model_copy(update={"max_model_length": 10**9})
    with (
        pytest.raises(UserError, match=r"vLLM cannot serve .*see engine\.\*") as error,
        served_by_vllm(taught, options),
    ):
        pass
    assert "\n" not in str(error.value)
