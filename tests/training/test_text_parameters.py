"""Vision-language models that are trained on texts."""

import pytest
from coloured_squares import squares
from safetensors.torch import load_file
from training_configs import grpo_config, sft_config

from rubricworks.training import sft
from rubricworks.training.config import LoraOptions
from rubricworks.training.generate import load_model
from rubricworks.training.lora import add_adapters
from rubricworks.training.policy import grpo
from rubricworks.training.policy.rollouts import PolicyTrainer
from rubricworks.training.text_parameters import freeze_unreached_by_text

TEXTS = [(None, prompt, caption) for _, prompt, caption in squares()]


@pytest.fixture
def optimizers(monkeypatch):
    """Parameters of each optimizer that a trainer makes, and of its model, by name."""
    optimizers = []
    for kind in (sft.Trainer, PolicyTrainer):
        create = kind.create_optimizer

        def remember(self, *args, create=create, **options):
            optimizer = create(self, *args, **options)
            ids = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
            optimizers.append({name for name, parameter in self.model.named_parameters() if id(parameter) in ids})
            return optimizer

        monkeypatch.setattr(kind, "create_optimizer", remember)
    return optimizers


def without_vision(student):
    names = {name for name, _ in load_model(student)[0].named_parameters()}
    vision = {name for name in names if ".visual." in name}
    assert 0 < len(vision) < len(names)
    return names - vision


def test_sft_on_texts_optimizes_the_language_model_only(student, tmp_path, optimizers):
    model = sft.train_sft(student, TEXTS, tmp_path, sft_config(steps=1, batch_size=2))
    assert optimizers[0] == without_vision(student)
    start, end = (load_file(folder / "model.safetensors") for folder in (student, model))
    assert all((start[name] == end[name]).all() for name in start if ".visual." in name)
    assert any((start[name] != end[name]).any() for name in start)


def test_sft_on_images_optimizes_the_whole_model(student, tmp_path, optimizers):
    sft.train_sft(student, squares(), tmp_path, sft_config(steps=1, batch_size=2))
    assert optimizers[0] == {name for name, _ in load_model(student)[0].named_parameters()}


def test_policy_training_on_texts_optimizes_the_language_model_only(student, tmp_path, optimizers):
    async def reward(completions, **columns):
        return [float(at % 2) for at in range(len(completions))]

    rows = [{"sample_id": str(at), "prompt": prompt, "rubric": "{}"} for at, (_, prompt, _) in enumerate(TEXTS)]
    config = grpo_config(steps=1, group_size=2, prompts_per_step=1, max_new_tokens=4)
    grpo.train_policy(student, rows, reward, tmp_path, config)
    assert optimizers[-1] == without_vision(student)


def test_adapters_of_a_vision_tower_are_frozen_too(student):
    model, processor = load_model(student)
    adapted = add_adapters(model, LoraOptions(rank=2, targets="all-linear"), seed=0)
    assert any(".visual." in name for name, parameter in adapted.named_parameters() if parameter.requires_grad)
    freeze_unreached_by_text(adapted, processor)
    trained = [name for name, parameter in adapted.named_parameters() if parameter.requires_grad]
    assert trained
    assert not [name for name in trained if ".visual." in name or "lora_" not in name]
