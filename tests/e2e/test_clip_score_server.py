"""The example that puts CLIP behind an endpoint, as its own process, with a tiny random CLIP built from a config."""

import asyncio
import io
import os
import string
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from image_judge import plain_image
from PIL import Image
from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPProcessor, CLIPTokenizerFast

from rubricworks.adapters.image_scores import ImageScoreReward
from rubricworks.llm import ChatClient, Endpoint, check_endpoint
from rubricworks.rubrics import Response

pytestmark = pytest.mark.slow

SERVER = Path(__file__).parents[2] / "examples" / "clip_score_server.py"
PROMPT = "a red circle < left of > a blue square"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("clip")
    letters = [*string.printable.strip(), *(f"{letter}</w>" for letter in string.printable.strip())]
    vocabulary = {token: at for at, token in enumerate([*letters, "<|startoftext|>", "<|endoftext|>"])}
    tokenizer = CLIPTokenizerFast(vocab=vocabulary, merges=[])
    size = {"hidden_size": 32, "intermediate_size": 37, "num_hidden_layers": 2, "num_attention_heads": 4}
    torch.manual_seed(0)
    config = CLIPConfig(
        text_config={
            **size, "vocab_size": len(vocabulary), "max_position_embeddings": 24, "projection_dim": 16,
            "bos_token_id": len(vocabulary) - 2, "eos_token_id": len(vocabulary) - 1,
        },
        vision_config={**size, "image_size": 30, "patch_size": 10, "projection_dim": 16},
        projection_dim=16,
    )  # fmt: skip
    model = CLIPModel(config)
    with torch.no_grad():
        model.text_projection.weight.copy_(torch.eye(16, 32))
    model.save_pretrained(folder)
    images = CLIPImageProcessor(size={"shortest_edge": 30}, crop_size={"height": 30, "width": 30})
    CLIPProcessor(image_processor=images, tokenizer=tokenizer).save_pretrained(folder)
    return folder


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
