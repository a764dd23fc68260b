"""The example that puts CLIP behind an endpoint, as its own process, with a tiny random CLIP built from a config."""

import asyncio
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from image_judge import plain_image
from PIL import Image
from tiny_clip import write_tiny_clip
from transformers import CLIPModel, CLIPProcessor

from rubricworks.adapters.image_scores import ImageScoreReward
from rubricworks.llm import ChatClient, Endpoint, check_endpoint
from rubricworks.rubrics import Response

pytestmark = pytest.mark.slow

SERVER = Path(__file__).parents[2] / "examples" / "clip_score_server.py"
PROMPT = "a red circle < left of > a blue square"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_tiny_clip(tmp_path_factory.mktemp("clip"))


def expected(folder: Path, image: bytes) -> float:
    """CLIPScore from the two towers apart."""
    model, processor = CLIPModel.from_pretrained(folder).eval(), CLIPProcessor.from_pretrained(folder)
    text = processor.tokenizer([PROMPT], return_tensors="pt", truncation=True, max_length=24)
    pixels = processor.image_processor([Image.open(io.BytesIO(image))], return_tensors="pt")
    with torch.inference_mode():
        towers = [
            model.text_projection(model.text_model(**text).pooler_output),
            model.visual_projection(model.vision_model(**pixels).pooler_output),
        ]
    a, b = (tower[0] / tower[0].norm() for tower in towers)
    return 2.5 * max(float(a @ b), 0.0)


def test_clip_endpoint_gives_clipscore_and_refuses_malformed_requests(folder):
    command = [sys.executable, str(SERVER), str(folder), "0"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    images = [plain_image(colour, size=40) for colour in ("red", "green", "blue")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            url = server.stdout.readline().strip()

            async def run():
                await check_endpoint(Endpoint(url=url, model="clip"))
                async with ChatClient(Endpoint(url=url, model="clip"), attempts=1) as client:
                    reward = ImageScoreReward([(client, 1.0)])
                    responses = [*map(Response.of_image, images), Response.of_image(b"\x89PNG\r\n\x1a\nbroken")]
                    return await reward([PROMPT] * 4, responses)

            *scores, broken = asyncio.run(run())
        finally:
            server.terminate()
    assert scores == pytest.approx([expected(folder, image) for image in images], abs=1e-4)
    assert len(set(scores)) > 1
    assert broken is None
