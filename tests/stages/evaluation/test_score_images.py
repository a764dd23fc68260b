"""Responses of image generators: which are in memory, and in which precision."""

import weakref

import numpy as np
import pytest
import torch
from audited import write_stage_table
from diffusers import DiffusionPipeline
from image_judge import COLOUR_RUBRIC, COLOURS, colour_judge, main_colour
from synthetic_run import rubric_row
from tiny_pipelines import save_flux
from tiny_vq_models import save_emu3, save_janus

from rubricworks.data.response_images import IMAGES, ResponseImages, response_of
from rubricworks.data.tables import Sample, read_rows
from rubricworks.evaluation.models import EvaluatedModel, ModelSource
from rubricworks.evaluation.scorers.rubric_reward import best_of
from rubricworks.llm import ChatError
from rubricworks.recipe.estimate import scoring_calls
from rubricworks.rubrics import ErrorClass
from rubricworks.runtime.job import Job
from rubricworks.stages.evaluation.responses import Batch, write_responses
from rubricworks.stages.evaluation.score_config import BEST_OF_N, ImageEvaluation
from rubricworks.stages.evaluation.scored_models import scored_models
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


class Drawer:
    """Draws these colours in turn, whatever is asked."""

    def __init__(self, colours):
        self.colours, self.asked = list(colours), []

    def generate(self, prompts, **options):
        self.asked.append((len(prompts), options["temperature"]))
        return [np.full((8, 8, 3), COLOURS[self.colours.pop(0)], np.uint8) for _ in prompts]


def test_of_all_images_of_a_prompt_the_best_by_its_rubric_count(tmp_path, monkeypatch, serve):
    # Three samples in one batch, two of one prompt: of their four images red and green; the other's are one colour.
    drawer = Drawer(["blue", "green", "blue", "red", "blue", "blue"])
    monkeypatch.setattr(image_generators, "load_image_generator", lambda *_, **__: drawer)
    monkeypatch.setattr(image_generators, "is_image_generator", lambda folder: True)
    rows = [rubric_row(name, COLOUR_RUBRIC) for name in ("a", "b", "c")]
    rubrics = write_stage_table(tmp_path / "rubrics", "rubrics", rows)
    samples = [
        Sample(sample_id=name, split="held_out", source=name, prompt=prompt, image=b"", references=())
        for name, prompt in (("a", "red or green"), ("b", "red or green"), ("c", "blue"))
    ]
    judge = {"url": serve(colour_judge).url, "model": "judge"}
    config = ImageEvaluation(scorers={"rubric": {"judge": judge}}, best_of={"judge": judge, "draws": 2})
    job = Job(stage="score", run=tmp_path, out=tmp_path / "score", inputs={"rubrics": rubrics}, made_by={})
    model = EvaluatedModel(name=BEST_OF_N, source=ModelSource(folder="base"), decoding="sampled")
    write_responses(config, job, lambda: iter([Batch(model, 0, samples, [])]), 1)
    responses = list(read_rows(tmp_path / "score" / "responses"))
    images = ResponseImages(tmp_path / "score" / "responses" / IMAGES)
    assert [main_colour(images.read(response_of(row)).image) for row in responses] == ["red", "green", "blue"]
    assert [row["model"] for row in responses] == ["base_best_of_n"] * 3
    assert drawer.asked == [(6, 1.0)]


def test_images_that_could_not_be_judged_are_never_the_best():
    failed = ChatError(ErrorClass.TRANSPORT, "no answer")
    assert best_of(["p", "p"], [0.1, failed, failed, 0.9], 2) == [3, 0]
    assert best_of(["p", "q"], [0.5, 0.5, failed, failed], 2) == [0, failed]
    assert best_of(["p", "p"], [failed, failed, failed, 0.0], 2) == [3, failed]


def test_the_base_is_scored_once_more_by_the_best_of_its_images_and_planned(tmp_path):
    judge = {"url": "http://127.0.0.1:9/v1", "model": "judge"}
    config = ImageEvaluation(scorers={"rubric": {"judge": judge}}, best_of={"judge": judge, "draws": 3})
    job = Job(
        stage="score", run=tmp_path, out=tmp_path / "score", inputs={"model": tmp_path, "policy": tmp_path},
        made_by={"inputs": {"model": "1", "policy": "2"}},
    )  # fmt: skip
    assert [(model.name, model.decoding) for model in scored_models(config, job)] == [
        ("base", "greedy"), ("base_best_of_n", "sampled"), ("policy", "greedy"),
    ]  # fmt: skip
    plan = [(calls.purpose, calls.count) for calls in scoring_calls(config, 10)]
    assert plan == [("best of n", 30), ("judge", 30)]


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
