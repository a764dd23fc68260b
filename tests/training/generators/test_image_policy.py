"""GRPO of an image generator: it learns what is rewarded, hands out its images, and resumes exactly."""

import io

import numpy as np
import pytest
from PIL import Image
from pydantic import ValidationError
from safetensors.torch import load_file
from tiny_generator import TINY, captioned_pictures
from training_configs import code_grpo_config

from rubricworks.errors import UserError
from rubricworks.rubrics import Response
from rubricworks.training.config import LoraOptions, RefillOptions, SelectionOptions
from rubricworks.training.generators.autoregressive import VocabularyGenerator
from rubricworks.training.generators.config import TinyArConfig
from rubricworks.training.generators.image_statistics import IMAGE_STATISTICS
from rubricworks.training.generators.policy import train_image_policy
from rubricworks.training.generators.tiny_ar import pretrain_tiny_ar
from rubricworks.world.pictures.drawing import BACKGROUND

pytestmark = pytest.mark.slow

ROWS = [{"sample_id": f"s{at}", "prompt": "a circle", "rubric": "{}"} for at in range(4)]
FEW = {"group_size": 8, "prompts_per_step": 2, "learning_rate": 2e-3, "log_every": 1, "save_every": 1000}


def pixels(response: Response) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(response.image)).convert("RGB"))


def is_on_the_left(image: np.ndarray) -> bool:
    """A third of the pretraining's pictures show their circle there."""
    drawn = (image != BACKGROUND).any(axis=2)
    return bool(drawn[:, :12].any() and not drawn[:, 12:].any())


async def likes_the_left(prompts, completions, **columns):
    return [float(is_on_the_left(pixels(completion))) for completion in completions]


def train(model, out, config, reward=likes_the_left, **more):
    return train_image_policy(model, ROWS, [reward], out, config, statistics=IMAGE_STATISTICS, **more)


def test_generator_learns_what_the_reward_pays_for_and_is_a_generator_again(pretrained, tmp_path):
    steps = []
    result = train(pretrained, tmp_path, code_grpo_config(steps=25, **FEW), on_step=steps.append)
    assert result.history[0].reward < 0.6
    assert sum(item.reward for item in result.history[-5:]) / 5 > 0.85
    images = VocabularyGenerator.load(result.model_dir).generate(["a circle"] * 20, seed=1)
    assert sum(map(is_on_the_left, images)) >= 14
    assert all(response.is_image and response.image for response in steps[0].responses)
    assert set(result.history[0].values) == {statistic.name for statistic in IMAGE_STATISTICS}


def test_probe_draws_the_same_prompts_and_leaves_the_training_unchanged(pretrained, tmp_path):
    calls = []

    def probe(step, draw):
        images = draw(["a circle", "a circle"])
        calls.append((step, images, draw(["a circle", "a circle"])))
        return [0.25 + step]

    plain = train(pretrained, tmp_path / "plain", code_grpo_config(steps=3, **FEW))
    probe.every = 2
    probed = train(pretrained, tmp_path / "probed", code_grpo_config(steps=3, **FEW), probe=probe)
    assert [step for step, *_ in calls] == [0, 2]
    assert all(images == again and images[0].is_image for _, images, again in calls)
    assert [stats.held_out for stats in probed.history] == [(0.25,), (), (2.25,)]
    weights = [load_file(result.model_dir / "model.safetensors") for result in (plain, probed)]
    assert all((weights[0][name] == weights[1][name]).all() for name in weights[0])


def test_selection_trains_on_some_and_logs_all(pretrained, tmp_path):
    steps = []
    config = code_grpo_config(steps=2, selection=SelectionOptions(keep=2), **FEW)
    train(pretrained, tmp_path, config, on_step=steps.append)
    for step in steps:
        assert len(step.responses) == 16
        assert sum(advantage is not None for advantage in step.advantages) == 4


def test_prompts_without_a_signal_give_way_and_their_images_are_logged_too(pretrained, tmp_path):
    async def likes_the_left_of_two(prompts, completions, sample_id, **columns):
        drawn = await likes_the_left(prompts, completions)
        return [reward if name in ("s0", "s1") else 1.0 for name, reward in zip(sample_id, drawn, strict=True)]

    steps = []
    config = code_grpo_config(steps=2, refill=RefillOptions(rounds=2), **FEW)
    train(pretrained, tmp_path, config, likes_the_left_of_two, on_step=steps.append)
    names = set()
    for step in steps:
        names |= {
            name for name, advantage in zip(step.sample_ids, step.advantages, strict=True) if advantage is not None
        }
        assert all(response.is_image and response.image for response in step.responses)
    assert names
    assert names <= {"s0", "s1"}


def test_every_optimizer_step_counts_where_rollouts_serve_two(pretrained, tmp_path):
    result = train(pretrained, tmp_path, code_grpo_config(steps=4, num_iterations=2, **FEW))
    assert (result.steps, len(result.history)) == (4, 2)


def test_training_that_is_killed_ends_with_the_same_weights(pretrained, tmp_path):
    config = code_grpo_config(steps=6, **{**FEW, "save_every": 2})
    whole = train(pretrained, tmp_path / "whole", config)

    class Killed(Exception):
        pass

    def kill(step):
        if step.step == 5:
            raise Killed

    with pytest.raises(Killed):
        train(pretrained, tmp_path / "killed", config, on_step=kill)
    resumed = train(pretrained, tmp_path / "killed", config)
    first, second = (load_file(item.model_dir / "model.safetensors") for item in (whole, resumed))
    assert all(first[name].equal(second[name]) for name in first)
    assert [item.reward for item in resumed.history] == [item.reward for item in whole.history]


@pytest.mark.slow
def test_pretraining_that_is_killed_ends_with_the_same_weights(tmp_path):
    captions, images = captioned_pictures(128)

    class Killed(Exception):
        pass

    def kill(line):
        if line.step >= 50:
            raise Killed

    whole = pretrain_tiny_ar(captions, images, tmp_path / "whole", TINY, seed=1)
    with pytest.raises(Killed):
        pretrain_tiny_ar(captions, images, tmp_path / "killed", TINY, seed=1, on_log=kill)
    resumed = pretrain_tiny_ar(captions, images, tmp_path / "killed", TINY, seed=1)
    first, second = (load_file(path / "model.safetensors") for path in (whole, resumed))
    assert all(first[name].equal(second[name]) for name in first)
    other = TinyArConfig(**{**TINY.model_dump(), "steps": 1})
    anew = pretrain_tiny_ar(captions, images, tmp_path / "killed", other, seed=1)
    assert not load_file(anew / "model.safetensors")["lm_head.weight"].equal(first["lm_head.weight"])


def test_too_few_prompts_are_reported_before_the_first_step(pretrained, tmp_path):
    with pytest.raises(UserError, match="4 prompts with a rubric"):
        train(pretrained, tmp_path, code_grpo_config(steps=1, group_size=2, prompts_per_step=5))


@pytest.mark.parametrize("option", [{"lora": LoraOptions()}, {"milestone_every": 1}, {"vllm": {"mode": "colocate"}}])
def test_options_of_models_that_write_text_do_not_exist(option):
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        code_grpo_config(**option)


def test_held_out_probe_of_a_sharded_generator_is_refused_before_the_first_step(pretrained, tmp_path, monkeypatch):
    for name, value in {"WORLD_SIZE": "2", "ACCELERATE_USE_FSDP": "true"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match="the held-out probe needs the policy whole"):
        train(pretrained, tmp_path, code_grpo_config(steps=1), probe=lambda step, draw: None)
