"""The example that puts GenEval's detector behind an endpoint, as its own process, with tiny random models."""

import asyncio
import json
import os
import subprocess
import sys
import urllib.request
from base64 import b64encode
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.error import HTTPError

import pytest
import torch
from image_judge import plain_image
from tiny_clip import write_tiny_clip
from transformers import Mask2FormerConfig, Mask2FormerForUniversalSegmentation, SwinConfig
from transformers.models.mask2former.image_processing_pil_mask2former import Mask2FormerImageProcessorPil

from rubricworks.data.tables import Sample
from rubricworks.evaluation.scorers.images.geneval import GenevalScorer
from rubricworks.evaluation.scorers.scorer import Item, ScoringContext
from rubricworks.metrics.geneval import COLORS
from rubricworks.rubrics import Response

pytestmark = pytest.mark.slow

SERVER = Path(__file__).parents[2] / "examples" / "geneval_detector.py"
WIDTH = 48
IMAGE = plain_image("red", size=WIDTH)


@pytest.fixture(scope="module")
def detector(tmp_path_factory) -> Path:
    """A random Mask2Former that sees a mouse in every query, with a confidence between 0.3 and 0.9."""
    folder = tmp_path_factory.mktemp("mask2former")
    backbone = SwinConfig(
        image_size=32, patch_size=4, embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2], window_size=2,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )  # fmt: skip
    torch.manual_seed(0)
    config = Mask2FormerConfig(
        backbone_config=backbone, feature_size=32, mask_feature_size=32, hidden_dim=32, encoder_feedforward_dim=16,
        encoder_layers=1, decoder_layers=2, num_attention_heads=2, dim_feedforward=16, num_queries=6,
        id2label={0: "mouse"}, label2id={"mouse": 0},
    )  # fmt: skip
    model = Mask2FormerForUniversalSegmentation(config)
    with torch.no_grad():
        model.class_predictor.weight.zero_()
        model.class_predictor.bias.copy_(torch.tensor([2.0, 0.0]))
    model.save_pretrained(folder)
    Mask2FormerImageProcessorPil(size={"height": 64, "width": 64}).save_pretrained(folder)
    return folder


def post(url: str, body: object) -> dict:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def test_objects_come_with_confidences_that_the_scorer_reads_by_task(detector, tmp_path):
    command = [sys.executable, str(SERVER), str(detector), str(write_tiny_clip(tmp_path)), "0"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            url = server.stdout.readline().strip()
            detections = post(url, {"image": f"data:image/png;base64,{b64encode(IMAGE).decode()}"})["detections"]
            with pytest.raises(HTTPError, match="400"):
                post(url, {"picture": "none"})

            async def score(tag: str):
                metadata = {"tag": tag, "include": [{"class": "computer mouse", "count": 1}]}
                sample = Sample(sample_id="s1", prompt="a photo of a computer mouse", answer=json.dumps(metadata))
                async with AsyncExitStack() as stack:
                    context = ScoringContext(stack=stack, make_client=None, gather=None, on_failure=None)
                    function = await GenevalScorer(url=url).open(context)
                    return (await function(Item(sample, Response.of_image(IMAGE))))[0].value

            values = [asyncio.run(score(tag)) for tag in ("single_object", "counting")]
        finally:
            server.terminate()
    assert set(detections) == {"computer mouse"}
    objects = detections["computer mouse"]
    confidences = [detection["box"][4] for detection in objects]
    assert confidences == sorted(confidences, reverse=True)
    assert all(0.3 < confidence < 0.9 for confidence in confidences)
    for detection in objects:
        left, top, right, bottom, _ = detection["box"]
        assert 0 <= left < right <= WIDTH, detection
        assert 0 <= top < bottom <= WIDTH, detection
        assert detection["color"] in COLORS
    assert values == [1.0, 0.0]
