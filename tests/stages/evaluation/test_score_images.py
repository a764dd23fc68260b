"""Responses of image generators: which are in memory, and in which precision."""

import weakref

import numpy as np
import pytest
import torch
from diffusers import DiffusionPipeline
from tiny_pipelines import save_flux
from tiny_vq_models import save_emu3, save_janus

from rubricworks.data.tables import Sample
from rubricworks.evaluation.models import EvaluatedModel, ModelSource
from rubricworks.runtime.job import Job
from rubricworks.stages.evaluation.responses import Batch, write_responses
from rubricworks.stages.evaluation.score_config import ImageEvaluation
from rubricworks.training.generators import image_generators
from rubricworks.training.generators.image_generators import load_image_generator


class Grey:
    def generate(self, prompts, **_):
        return [np.full((8, 8, 3), 128, np.uint8) for _ in prompts]


def test_base_leaves_memory_before_the_policy_is_loaded(tmp_path, monkeypatch):
    alive_at_load, loaded, precisions = [], [], []

    def load(folder, sampling, *, dtype):
        precisions.append(dtype)
        alive_at_load.append([generator() is not None for generator in loaded])
        generator = Grey()
        generator.itself = generator  # as modules that refer to each other
        loaded.append(weakref.ref(generator))
        return generator

    monkeypatch.setattr(image_generators, "load_image_generator", load)
    monkeypatch.setattr(image_generators, "is_image_generator", lambda folder: True)
    sample = Sample(sample_id="s", split="held_out", source="p", prompt="a red circle", image=b"", references=())
    models = [EvaluatedModel(name=name, source=ModelSource(folder=name), decoding="sampled") for name in "ab"]
    job = Job(stage="score", run=tmp_path, out=tmp_path / "score", inputs={}, made_by={})
    judge = {"url": "http://127.0.0.1:9/v1", "model": "unasked"}
    config = ImageEvaluation(scorers={"rubric": {"judge": judge}}, decodings=("sampled",), precision="bfloat16")
    write_responses(config, job, lambda: (Batch(model, 0, [sample], []) for model in models), 2)
    assert alive_at_load == [[], [False]]
    assert precisions == ["bfloat16"] * 2
    assert loaded[1]() is None


@pytest.mark.slow
def test_pipeline_is_loaded_in_the_precision_of_its_transformer(tmp_path):
    pipe = DiffusionPipeline.from_pretrained(save_flux(tmp_path / "float32"))
    pipe.to(torch.bfloat16).save_pretrained(tmp_path / "bfloat16")
    for name in ("float32", "bfloat16"):
        parts = load_image_generator(tmp_path / name).pipe.components
        dtypes = {part: model.dtype for part, model in parts.items() if isinstance(model, torch.nn.Module)}
        assert dtypes == dict.fromkeys(("transformer", "vae", "text_encoder", "text_encoder_2"), getattr(torch, name))
    assert load_image_generator(tmp_path / "float32", dtype="bfloat16").transformer.dtype == torch.bfloat16


@pytest.mark.slow
@pytest.mark.parametrize("build", [save_janus, save_emu3])
def test_autoregressive_generator_is_loaded_in_the_precision_it_was_saved_in(build, tmp_path):
    generator = load_image_generator(build(tmp_path / "float32"))
    assert generator.model.dtype == torch.float32
    generator.save(tmp_path / "bfloat16", dtype=torch.bfloat16)
    assert load_image_generator(tmp_path / "bfloat16").model.dtype == torch.bfloat16
