"""Options of the supervised peers of either kind of generator: each acts on the training."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny_flow_generator import TINY_FLOW
from tiny_generator import captioned_pictures
from tiny_pipelines import save_flux
from tiny_vq_models import save_janus
from training_configs import nested
from transformers import Trainer

from rubricworks.errors import UserError
from rubricworks.training.generators.config import ImageSampling, ImageSftConfig
from rubricworks.training.generators.flow_matching.tiny_flow import pretrain_tiny_flow
from rubricworks.training.generators.image_generators import load_peer

pytestmark = pytest.mark.slow

PROMPTS = ["a red circle", "a blue circle", "a circle", "a red circle a"]
SHORT = {"steps": 1, "batch_size": 4, "learning_rate": 1e-2}
FLOW_WEIGHTS, CODE_WEIGHTS = "transformer/diffusion_pytorch_model.safetensors", "model.safetensors"


@pytest.fixture(scope="module")
def flow(tmp_path_factory):
    shape = TINY_FLOW.model_copy(update={"steps": 1})
    return pretrain_tiny_flow(*captioned_pictures(32), tmp_path_factory.mktemp("flow"), shape, seed=1)


@pytest.fixture(params=["codes", "flow"])
def folder(request, pretrained, flow):
    return pretrained if request.param == "codes" else flow


def fit(folder, out, watch=None, **options):
    """Train a peer on images of its own; `watch` gets its model before."""
    peer = load_peer(folder, 1.0, ImageSampling(), dtype="float32")
    drawn = peer.draw(PROMPTS, temperature=1.0, draw=torch.Generator().manual_seed(0))
    if watch:
        watch(getattr(peer.generator, "model", None) or peer.generator.transformer)
    config = nested(ImageSftConfig, {**SHORT, **options})
    torch.manual_seed(0)
    peer.train(PROMPTS, drawn.targets, out, config, seed=0, checkpoint=None)


def test_rows_per_pass_splits_a_step_and_leaves_its_gradient(pretrained, tmp_path):
    weights = {}
    for name, rows in (("whole", None), ("split", 2)):
        fit(pretrained, tmp_path / name, rows_per_pass=rows, schedule="constant", warmup=0.0)
        weights[name] = load_file(tmp_path / name / "model" / CODE_WEIGHTS)
    start = load_file(pretrained / CODE_WEIGHTS)
    # AdamW's first step is the gradient's sign: where the gradient is not rounding alone, both agree.
    moved = torch.cat([(weights["whole"][name] - start[name]).flatten() for name in start])
    apart = torch.cat([(weights["whole"][name] - weights["split"][name]).flatten() for name in start])
    assert moved.abs().max() > 5e-3
    assert (apart.abs() > 1e-3).float().mean() < 0.01


def test_no_pass_has_more_rows_than_rows_per_pass(folder, tmp_path, monkeypatch):
    seen, step = [], Trainer.training_step

    def record(trainer, model, inputs, *rest):
        seen.append(len(inputs.get("prompts", inputs.get("input_ids"))))
        return step(trainer, model, inputs, *rest)

    monkeypatch.setattr(Trainer, "training_step", record)
    fit(folder, tmp_path, rows_per_pass=2)
    assert seen == [2, 2]


@pytest.mark.parametrize("asked", [False, True])
def test_gradient_checkpointing_computes_a_layer_twice(folder, tmp_path, asked):
    computed = []

    def watch(model):
        layers = next(part for part in model.modules() if isinstance(part, torch.nn.ModuleList) and len(part))
        linear = next(part for part in layers[0].modules() if isinstance(part, torch.nn.Linear))
        linear.register_forward_hook(lambda *_: computed.append(1))

    fit(folder, tmp_path, watch, gradient_checkpointing=asked)
    assert len(computed) == (2 if asked else 1)


@pytest.mark.parametrize("build", [save_flux, save_janus])
def test_bfloat16_loads_trains_and_saves_bfloat16(build, tmp_path):
    generator = load_peer(build(tmp_path / "base"), 1.0, ImageSampling(), dtype="bfloat16").generator
    model = generator.transformer if build is save_flux else generator.model
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}


def test_arithmetic_in_bfloat16_saves_bfloat16(folder, tmp_path):
    fit(folder, tmp_path, precision="bfloat16")
    name = CODE_WEIGHTS if (tmp_path / "model" / CODE_WEIGHTS).is_file() else FLOW_WEIGHTS
    weights = load_file(tmp_path / "model" / name).values()
    assert {weight.dtype for weight in weights if weight.is_floating_point()} == {torch.bfloat16}


def test_sampling_sets_the_size_of_a_pipelines_images_and_targets(tmp_path):
    sampling = ImageSampling(steps=2, side=16)
    peer = load_peer(save_flux(tmp_path / "flux"), 1.0, sampling, dtype="float32")
    drawn = peer.draw(PROMPTS[:1], temperature=1.0, draw=torch.Generator().manual_seed(0))
    (image,) = drawn.images
    assert image.shape == (16, 16, 3)
    assert peer.encode(np.zeros((1, 16, 16, 3), np.uint8)).shape == drawn.targets.shape


def test_options_that_cannot_act_are_one_line(pretrained):
    with pytest.raises(UserError, match=r"policy\.algorithm\.sampling is for flow-matching generators"):
        load_peer(pretrained, 1.0, ImageSampling(side=16), dtype="float32")
    with pytest.raises(ValueError, match="rows_per_pass 3 does not divide batch_size 4"):
        ImageSftConfig.model_validate_json(json.dumps({"batch_size": 4, "optimizer": {"rows_per_pass": 3}}))
