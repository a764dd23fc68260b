"""A model directory served by vLLM itself for benchmarks: several images, a long answer beside others, and its end."""

import asyncio
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from coloured_squares import PROMPT, squares

from rubricworks.errors import UserError
from rubricworks.llm import ChatClient, Endpoint, image_part, text_part
from rubricworks.training.config import EngineOptions
from rubricworks.training.engine import SERVED_NAME, load_engine
from rubricworks.training.vllm_server import served_by_vllm
from rubricworks.training.vllm_weights import REPLACE_ROUTE

pytestmark = pytest.mark.vllm
OPTIONS = EngineOptions(kind="vllm", max_model_length=256, gpu_memory=0.2)
IMAGES = [image for image, _, _ in squares()[:2]]


def test_it_answers_as_the_engine_does_and_takes_several_images(taught):
    with served_by_vllm(taught, OPTIONS) as server:

        async def ask():
            async with ChatClient(Endpoint(url=server.url, model=SERVED_NAME, max_tokens=12), attempts=1) as client:
                contents = [[image_part(IMAGES[0])], [image_part(image) for image in IMAGES]]
                messages = [[{"role": "user", "content": [*images, text_part(PROMPT)]}] for images in contents]
                return await asyncio.gather(*(client.chat(message) for message in messages))

        one_image, two_images = asyncio.run(ask())
    engine = load_engine(taught, EngineOptions(), batch_size=1)
    [(expected, _)] = engine(IMAGES[:1], [PROMPT], max_new_tokens=12)
    engine.close()
    assert one_image.raw.strip() == expected.strip()
    assert two_images.usage.prompt_tokens > one_image.usage.prompt_tokens


def test_one_start_serves_checkpoints_in_turn(taught, other_checkpoint):
    urls, answers = [], []
    with served_by_vllm(taught, OPTIONS) as server:
        for folder in (taught, other_checkpoint, taught):
            server.load(folder)
            urls.append(server.url)
            answers.append(asyncio.run(captions(server.url)))
        route = server.url.removesuffix("/v1") + REPLACE_ROUTE
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(urllib.request.Request(route, b"{}"))
    assert len(set(urls)) == 1
    expected = {folder: expected_captions(folder) for folder in (taught, other_checkpoint)}
    assert expected[taught] != expected[other_checkpoint]
    assert answers == [expected[taught], expected[other_checkpoint], expected[taught]]


async def captions(url):
    async with ChatClient(Endpoint(url=url, model=SERVED_NAME, max_tokens=13), attempts=1) as client:
        messages = [[{"role": "user", "content": [image_part(image), text_part(PROMPT)]}] for image in IMAGES]
        return [reply.raw.strip() for reply in await asyncio.gather(*(client.chat(message) for message in messages))]


def expected_captions(folder):
    engine = load_engine(folder, EngineOptions(), batch_size=2)
    texts = engine(IMAGES, [PROMPT] * 2, max_new_tokens=13)
    engine.close()
    return [text.strip() for text, _ in texts]


def test_a_killed_evaluation_leaves_no_server_behind(taught, tmp_path):
    program = (
        "import sys, time\n"
        "from rubricworks.training.config import EngineOptions\n"
        "from rubricworks.training.vllm_server import served_by_vllm\n"
        "options = EngineOptions.model_validate_json(sys.argv[2])\n"
        "with served_by_vllm(sys.argv[1], options) as server:\n"
        "    print(server.url, flush=True)\n"
        "    time.sleep(10_000)\n"
    )
    command = [sys.executable, "-c", program, str(taught), OPTIONS.model_dump_json()]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    url = process.stdout.readline().strip()
    process.kill()
    assert process.wait() == -signal.SIGKILL
    while answers(f"{url}/models"):
        time.sleep(0.1)


def answers(url):
    try:
        return urllib.request.urlopen(url).status == 200
    except (urllib.error.URLError, ConnectionError):
        return False


def test_a_model_that_it_cannot_serve_is_one_line(taught):
    options = OPTIONS.model_copy(update={"max_model_length": 10**9})
    with (
        pytest.raises(UserError, match=r"vLLM cannot serve .*see engine\.\*") as error,
        served_by_vllm(taught, options),
    ):
        pass
    assert "\n" not in str(error.value)
