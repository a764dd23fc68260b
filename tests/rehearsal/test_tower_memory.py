"""What a vision tower keeps for its backward pass, planned from small images, beside what it keeps of large ones."""

import json
import os
import subprocess
import sys

import pytest

from rubricworks.rehearsal.shapes import published_shape
from rubricworks.rehearsal.tower_memory import tower_activations

VISION = {"depth": 8, "hidden_size": 384, "intermediate_size": 1536, "num_heads": 6, "out_hidden_size": 256}
TEXT = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 1, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 1000, "head_dim": 64}  # fmt: skip
SHAPE = {
    "model_type": "qwen3_vl",
    "text_config": TEXT,
    "vision_config": {**VISION, "deepstack_visual_indexes": [2, 4, 6]},
}
IMAGES, SIDE = 4, 448
REAL_PASS = """
import json, sys
import torch
from transformers import AutoConfig, AutoModel

shape, images, side, checkpointing = json.loads(sys.argv[1])
torch.set_num_threads(1)
config = AutoConfig.for_model(**shape)
tower = AutoModel.from_config(config, dtype=torch.bfloat16).visual.train()
if checkpointing:
    tower.gradient_checkpointing_enable({"use_reentrant": False})
vision, grid = config.vision_config, side // config.vision_config.patch_size
width = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2

def resident():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))

def kept():
    before = resident()
    pixels = torch.ones(images * grid * grid, width, dtype=torch.bfloat16)
    features = tower(pixels, grid_thw=torch.tensor([[1, grid, grid]] * images))
    return resident() - before

kept()  # buffers of the libraries
print(kept())
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of /proc")
@pytest.mark.parametrize("checkpointing", [True, False])
def test_planned_activations_are_within_15_percent_of_a_real_pass(checkpointing):
    planned = tower_activations(SHAPE, images=IMAGES, side=SIDE, checkpointing=checkpointing, autocast=False)
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    command = [sys.executable, "-c", REAL_PASS, json.dumps([SHAPE, IMAGES, SIDE, checkpointing])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert planned == pytest.approx(int(done.stdout.split()[-1]), rel=0.15)


def test_twice_the_images_keep_twice_and_checkpointing_keeps_less():
    single, double, checkpointed = (
        tower_activations(SHAPE, images=images, side=SIDE, checkpointing=checkpointing, autocast=False)
        for images, checkpointing in ((1, False), (2, False), (1, True))
    )
    assert double == pytest.approx(2 * single, rel=1e-6)
    assert checkpointed < single / 4


def test_a_model_without_a_tower_has_no_figure():
    shape = published_shape("Qwen/Qwen3-8B")
    assert tower_activations(shape, images=1, side=1024, checkpointing=True, autocast=False) is None
