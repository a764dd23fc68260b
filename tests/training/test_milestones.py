from pathlib import Path

import pytest
from coloured_squares import policy_rows
from safetensors.torch import load_file
from training_configs import grpo_config

from rubricworks.training.checkpoints import milestone_dirs
from rubricworks.training.config import LoraOptions
from rubricworks.training.generate import load_model
from rubricworks.training.policy.grpo import train_policy


async def by_length(prompts, completions, **columns):
    return [float(len(completion[0]["content"])) for completion in completions]


def weights(folder: Path):
    return load_file(folder / "model.safetensors")["model.language_model.embed_tokens.weight"]


def test_every_milestone_is_a_model_of_its_own_and_the_last_is_the_result(student, tmp_path):
    config = grpo_config(
        steps=4,
        group_size=4,
        prompts_per_step=2,
        max_new_tokens=4,
        milestone_every=2,
        save_every=100,
        learning_rate=1e-3,
    )
    result = train_policy(student, policy_rows(), by_length, tmp_path, config)
    folders = milestone_dirs(tmp_path)
    assert list(folders) == [2, 4]
    assert not weights(folders[2]).equal(weights(folders[4]))
    assert weights(folders[4]).equal(weights(result.model_dir))
    load_model(folders[2])


def test_milestones_of_another_run_are_gone(student, tmp_path):
    shape = {"group_size": 4, "prompts_per_step": 2, "max_new_tokens": 4, "save_every": 100}
    train_policy(student, policy_rows(), by_length, tmp_path, grpo_config(steps=1, milestone_every=1, **shape))
    train_policy(student, policy_rows(), by_length, tmp_path, grpo_config(steps=2, milestone_every=2, **shape))
    assert list(milestone_dirs(tmp_path)) == [2]


def test_milestones_with_adapters_are_refused_at_once():
    with pytest.raises(ValueError, match="milestone_every keeps whole models"):
        grpo_config(milestone_every=10, lora=LoraOptions())
