"""A saved mixture of experts under vLLM: the layout of its experts is the Hub's, whatever Transformers keeps."""

import pytest
import torch
from tiny_experts import tiny_experts

from rubricworks.training.generate import load_model
from rubricworks.training.lora import save_plain_model

pytestmark = pytest.mark.vllm
LENGTH = 24


@pytest.mark.parametrize("inner", [96, 64, 128], ids=["2I > H", "2I = H", "I = H"])
def test_a_saved_mixture_of_experts_answers_under_vllm_as_under_transformers(inner, taught, tmp_path, monkeypatch):
    from vllm import LLM, SamplingParams

    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    _, processor = load_model(taught)
    model = tiny_experts(processor, hidden=128, inner=inner, head=32, vision=64)
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
