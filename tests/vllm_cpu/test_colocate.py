"""Rollouts by vLLM in the training's own process: what it samples from is the policy."""

import pytest
from coloured_squares import policy_rows
from training_configs import grpo_config
from vllm_on_cpu import make_vllm_fit_cpu

from rubricworks.errors import UserError
from rubricworks.training.config import PolicyConfig
from rubricworks.training.generate import load_model
from rubricworks.training.lora import save_plain_model
from rubricworks.training.policy import grpo, vllm_rollouts

pytestmark = pytest.mark.vllm
STEPS = 20
DIFFERENCE = "sampling/sampling_logp_difference/mean"
RATIO = "sampling/importance_sampling_ratio/mean"


@pytest.fixture
def colocated(monkeypatch):
    make_vllm_fit_cpu(monkeypatch)
    monkeypatch.setattr(grpo, "check_vllm", lambda options: None)  # it wants a GPU


def config(*, steps=STEPS, **vllm) -> PolicyConfig:
    return grpo_config(
        steps=steps, prompts_per_step=4, group_size=4, max_new_tokens=10, learning_rate=2e-3, log_every=1,
        save_every=100, vllm={"mode": "colocate", "max_model_length": 128, **vllm},
    )  # fmt: skip


async def pays_for_blue(completions, **columns):
    return [float("blue" in completion[0]["content"]) for completion in completions]


def test_twenty_steps_sample_from_the_policy_that_is_trained(colocated, taught, tmp_path):
    logs = []
    result = grpo.train_policy(taught, policy_rows(), pays_for_blue, tmp_path, config(), on_log=logs.append)
    differences = [log.metrics[DIFFERENCE] for log in logs]
    assert len(differences) == STEPS
    assert max(differences) < 0.02
    assert all(0.95 < log.metrics[RATIO] < 1.05 for log in logs)
    assert result.history[-1].reward > result.history[0].reward + 0.3


def test_rollouts_are_reported_as_they_end_with_the_completions_that_are_rewarded(colocated, taught, tmp_path):
    parts, rewarded = [], []

    async def start(rows, prompts, completions, sample_id, **columns):
        parts.append({row: (name, text) for row, name, text in zip(rows, sample_id, completions, strict=True)})

    async def reward(completions, sample_id, **columns):
        rewarded.append(dict(enumerate(zip(sample_id, completions, strict=True))))
        return await pays_for_blue(completions)

    grpo.train_policy(taught, policy_rows(), reward, tmp_path, config(steps=2), start=start)
    assert len(parts) > len(rewarded)
    started = [part for part in parts if part]
    for batch in rewarded:
        rows = {}
        while len(rows) < len(batch):
            rows |= started.pop(0)
        assert rows == batch


def test_image_tokens_are_never_sampled(colocated, taught, tmp_path):
    """A policy that gives the image token a word's probability trains on; without a bias it ends at once."""
    model, processor = load_model(taught)
    rows = model.get_output_embeddings().weight.data
    rows[processor.image_token_id] = rows[processor.tokenizer.convert_tokens_to_ids("square")]
    save_plain_model(model, processor, tmp_path / "model")
    result = grpo.train_policy(tmp_path / "model", policy_rows(), pays_for_blue, tmp_path / "out", config(steps=3))
    assert result.steps == 3


def test_a_training_whose_sampler_sees_images_by_old_weights_is_stopped(colocated, taught, tmp_path, monkeypatch):
    from vllm.v1.engine.llm_engine import LLMEngine

    monkeypatch.setattr(LLMEngine, "reset_encoder_cache", lambda self: None)
    with pytest.raises(UserError, match=r"nats a token in the last 5 steps .*0\.02 \(vllm\.max_logp_difference\)"):
        grpo.train_policy(taught, policy_rows(), pays_for_blue, tmp_path, config(max_logp_difference=0.02, steps=40))


def test_prompts_that_vllm_reads_otherwise_than_the_trainer_are_refused(colocated, taught, tmp_path, monkeypatch):
    monkeypatch.setattr(vllm_rollouts, "collapse_images", lambda token_ids, image_token, images: list(token_ids))
    with pytest.raises(UserError, match="the rollouts would not be the policy's"):
        grpo.train_policy(taught, policy_rows(), pays_for_blue, tmp_path, config())
