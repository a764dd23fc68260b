"""Weights of miniatures in files and on their way to vLLM, beside the layout that the Hub's models are published in."""

import json
from types import SimpleNamespace

import pytest
import torch
from coloured_squares import squares
from safetensors.torch import load_file
from tiny_experts import EXPERTS, tiny_experts
from torch import nn
from training_configs import grpo_config
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    Qwen3MoeConfig,
)

from rubricworks.training.config import LoraOptions
from rubricworks.training.generate import load_model
from rubricworks.training.lora import add_adapters, save_plain_model
from rubricworks.training.policy.grpo import train_policy
from rubricworks.training.policy.vllm_rollouts import mend_generation
from rubricworks.training.processing import tokenizer_of

LAYER = "model.language_model.layers.1"
SIDES = pytest.mark.parametrize(
    ("hidden", "inner"), [(32, 24), (32, 16), (32, 32)], ids=["2I > H", "2I = H", "I = H"]
)  # Qwen3-VL-30B-A3B has 2048 and 768


def vision_model(student, hidden, inner):
    """A Qwen3-VL-MoE with random weights and the student's processor."""
    _, processor = load_model(student)
    return tiny_experts(processor, hidden=hidden, inner=inner, head=8), processor


def logits(model):
    with torch.no_grad():
        return model(input_ids=torch.arange(1, 9)[None]).logits


def sent_to_vllm(model, processor):
    """What TRL's engine receives of the model."""

    def named_parameters():
        for name, weight in model.named_parameters():
            if "lora_" not in name:
                yield name.removeprefix("base_model.model.").replace(".base_layer", ""), weight.data

    generation = SimpleNamespace(
        model=model, processing_class=processor, generate=None, sync_weights=None,
        _iter_named_params=named_parameters, accelerator=SimpleNamespace(unwrap_model=lambda wrapped: wrapped),
    )  # fmt: skip
    mend_generation(generation)
    return dict(generation._iter_named_params())


def assert_same_weights(actual, expected):
    assert sorted(actual) == sorted(expected)
    for name, weight in expected.items():
        torch.testing.assert_close(actual[name], weight, rtol=0, atol=0, msg=name)


@SIDES
@pytest.mark.parametrize("gathered", [False, True], ids=["own weights", "weights gathered of shards"])
def test_saved_experts_have_the_layout_of_the_hubs_files(student, tmp_path, hidden, inner, gathered):
    model, processor = vision_model(student, hidden, inner)
    state = {name: weight.clone() for name, weight in model.state_dict().items()} if gathered else None
    files = load_file(save_plain_model(model, processor, tmp_path / "model", state=state) / "model.safetensors")
    experts = model.model.language_model.layers[1].mlp.experts
    up, down = files[f"{LAYER}.mlp.experts.gate_up_proj"], files[f"{LAYER}.mlp.experts.down_proj"]
    assert tuple(up.shape) == (EXPERTS, hidden, 2 * inner)
    assert tuple(down.shape) == (EXPERTS, inner, hidden)
    token = torch.randn(hidden)
    gate, value = (token @ up[2]).chunk(2)  # the product as the Hub's first modelling code wrote it
    expected_gate, expected_value = (experts.gate_up_proj[2] @ token).chunk(2)
    torch.testing.assert_close((gate, value), (expected_gate, expected_value))
    assert files[f"{LAYER}.mlp.gate.weight"].shape == (EXPERTS, hidden)
    assert files["model.visual.blocks.0.attn.qkv.weight"].shape == (48, 16)
    assert {name.split(".")[0] for name in files} == {"model", "lm_head"}


@SIDES
def test_saved_experts_load_to_the_same_logits_and_are_saved_alike_again(student, tmp_path, hidden, inner):
    model, processor = vision_model(student, hidden, inner)
    first = save_plain_model(model, processor, tmp_path / "first")
    loaded, _ = load_model(first)
    torch.testing.assert_close(logits(loaded), logits(model), rtol=0, atol=0)
    second = save_plain_model(loaded, processor, tmp_path / "second")
    assert_same_weights(load_file(second / "model.safetensors"), load_file(first / "model.safetensors"))


@SIDES
def test_vllm_is_sent_the_weights_that_are_saved(student, tmp_path, hidden, inner):
    built, processor = vision_model(student, hidden, inner)
    loaded, _ = load_model(save_plain_model(built, processor, tmp_path / "model"))
    for model in (built, loaded):
        files = load_file(tmp_path / "model" / "model.safetensors")
        assert_same_weights(sent_to_vllm(model, processor), files)


def test_adapters_are_merged_into_what_vllm_is_sent(student, tmp_path):
    model, processor = vision_model(student, 32, 24)
    adapted = add_adapters(model, LoraOptions(rank=2, targets=("q_proj",)), seed=0)
    for name, weight in adapted.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(weight)
    adapted.merge_adapter()
    sent = {name: weight.clone() for name, weight in sent_to_vllm(adapted, processor).items()}
    adapted.unmerge_adapter()
    files = load_file(save_plain_model(adapted, processor, tmp_path / "model") / "model.safetensors")
    assert sorted(sent) == sorted(files)
    for name, weight in files.items():
        torch.testing.assert_close(sent[name], weight, msg=name)


def text_model(student):
    """A Qwen3-MoE with random weights and the student's tokenizer."""
    _, processor = load_model(student)
    tokenizer = tokenizer_of(processor)
    config = Qwen3MoeConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=40, moe_intermediate_size=24, num_experts=EXPERTS,
        num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, head_dim=8, num_experts_per_tok=2,
    )  # fmt: skip
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config), tokenizer


def test_experts_fused_in_memory_are_sent_one_by_one_as_they_are_saved(student, tmp_path):
    model, tokenizer = text_model(student)
    files = load_file(save_plain_model(model, tokenizer, tmp_path / "model") / "model.safetensors")
    assert files["model.layers.0.mlp.experts.3.up_proj.weight"].shape == (24, 32)
    assert not [name for name in files if "gate_up" in name]
    assert_same_weights(sent_to_vllm(model, tokenizer), files)


def test_policy_with_fused_experts_resumes_with_the_weights_of_its_checkpoint(student, tmp_path):
    """Its files name each expert, and the Trainer reads a checkpoint by the names in memory."""
    model, tokenizer = text_model(student)
    start = save_plain_model(model, tokenizer, tmp_path / "start")
    rows = [{"sample_id": str(at), "prompt": prompt, "rubric": "{}"} for at, (_, prompt, _) in enumerate(squares())]
    config = grpo_config(
        steps=2, group_size=2, prompts_per_step=2, max_new_tokens=4, learning_rate=1e-2, log_every=1, save_every=1
    )

    async def pays_by_length(completions, **columns):
        return [float(len(set(completion[0]["content"]))) for completion in completions]

    def kill(step):
        if step.step == 2:
            raise KeyboardInterrupt

    whole = train_policy(start, rows, pays_by_length, tmp_path / "whole", config).model_dir
    with pytest.raises(KeyboardInterrupt):
        train_policy(start, rows, pays_by_length, tmp_path / "cut", config, on_step=kill)
    resumed = train_policy(start, rows, pays_by_length, tmp_path / "cut", config).model_dir
    expected = load_file(whole / "model.safetensors")
    assert any((weight != load_file(start / "model.safetensors")[name]).any() for name, weight in expected.items())
    assert_same_weights(load_file(resumed / "model.safetensors"), expected)


def test_names_and_shapes_of_a_miniature_are_those_of_the_published_index(student, tmp_path):
    """Names of one layer of Qwen/Qwen3-VL-30B-A3B-Instruct, from its model.safetensors.index.json."""
    model, processor = vision_model(student, 32, 24)
    out = save_plain_model(model, processor, tmp_path / "model")
    published = [
        "input_layernorm.weight", "mlp.experts.down_proj", "mlp.experts.gate_up_proj", "mlp.gate.weight",
        "post_attention_layernorm.weight", "self_attn.k_norm.weight", "self_attn.k_proj.weight",
        "self_attn.o_proj.weight", "self_attn.q_norm.weight", "self_attn.q_proj.weight", "self_attn.v_proj.weight",
    ]  # fmt: skip
    names = load_file(out / "model.safetensors").keys()
    assert sorted(name.removeprefix(LAYER + ".") for name in names if name.startswith(LAYER)) == published
    assert json.loads((out / "config.json").read_text())["model_type"] == "qwen3_vl_moe"
    assert AutoConfig.from_pretrained(out).text_config.num_experts == EXPERTS
