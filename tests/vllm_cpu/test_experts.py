"""A saved mixture of experts under vLLM: the layout of its experts is the Hub's, whatever Transformers keeps."""

import pytest
import torch
from transformers import Qwen3VLMoeConfig, Qwen3VLMoeForConditionalGeneration

from rubricworks.training.generate import load_model
from rubricworks.training.lora import save_plain_model
from rubricworks.training.processing import tokenizer_of

pytestmark = pytest.mark.vllm
HIDDEN, LENGTH = 128, 24


@pytest.mark.parametrize("inner", [96, 64, 128], ids=["2I > H", "2I = H", "I = H"])
def test_a_saved_mixture_of_experts_answers_under_vllm_as_under_transformers(inner, taught, tmp_path, monkeypatch):
    from vllm import LLM, SamplingParams

    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    _, processor = load_model(taught)
    text = {
        "vocab_size": len(tokenizer_of(processor)), "hidden_size": HIDDEN, "intermediate_size": 160,
        "moe_intermediate_size": inner, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 32, "num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": True,
        "rope_parameters": {"rope_type": "default", "mrope_section": [8, 4, 4], "rope_theta": 1e4},
    }  # fmt: skip
    vision = {
        "depth": 1, "hidden_size": 64, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": HIDDEN,
        "patch_size": 4, "deepstack_visual_indexes": [0], "num_position_embeddings": 16,
    }  # fmt: skip
    torch.manual_seed(0)
    config = Qwen3VLMoeConfig(text_config=text, vision_config=vision, image_token_id=processor.image_token_id)
    model = Qwen3VLMoeForConditionalGeneration(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight *= 3  # answers of small weights are all alike
        prompt = torch.arange(3, 15)[None]
        ids = model.generate(
            input_ids=prompt, max_new_tokens=LENGTH, do_sample=False, eos_token_id=None, pad_token_id=0
        )
    expected = ids[0, prompt.shape[1] :].tolist()
    assert len(set(expected)) > 2
    save_plain_model(model, processor, tmp_path / "model")
    llm = LLM(
        str(tmp_path / "model"), dtype="float32", enforce_eager=True, kv_cache_memory_bytes=64_000_000,
        max_model_len=128, limit_mm_per_prompt={"image": 0, "video": 0},
    )  # fmt: skip
    greedy = SamplingParams(temperature=0, max_tokens=LENGTH, ignore_eos=True)
    (output,) = llm.generate([{"prompt_token_ids": prompt[0].tolist()}], greedy, use_tqdm=False)
    assert list(output.outputs[0].token_ids) == expected
