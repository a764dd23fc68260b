"""A small mixture of experts that sees: Qwen3-VL-MoE with random weights."""

from typing import Any

import torch
from transformers import Qwen3VLMoeConfig, Qwen3VLMoeForConditionalGeneration

from rubricworks.training.processing import tokenizer_of

EXPERTS = 4


def tiny_experts(
    processor: Any, *, hidden: int, inner: int, head: int, vision: int = 16
) -> Qwen3VLMoeForConditionalGeneration:
    """A model for a processor's tokens.

    Args:
        inner: width of an expert, whose first matrices together have 2 * inner rows of `hidden`.
        head: channels of an attention head.
        vision: width of the vision tower.
    """
    text = {
        "vocab_size": len(tokenizer_of(processor)), "hidden_size": hidden, "intermediate_size": 40,
        "moe_intermediate_size": inner, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": head, "num_experts": EXPERTS, "num_experts_per_tok": 2, "norm_topk_prob": True,
        "rope_parameters": {
            "rope_type": "default", "mrope_section": [head // 4, head // 8, head // 8], "rope_theta": 1e4
        },
    }  # fmt: skip
    tower = {
        "depth": 1, "hidden_size": vision, "intermediate_size": vision, "num_heads": 2, "out_hidden_size": hidden,
        "patch_size": 4, "deepstack_visual_indexes": [0], "num_position_embeddings": 16,
    }  # fmt: skip
    torch.manual_seed(0)
    config = Qwen3VLMoeConfig(text_config=text, vision_config=tower, image_token_id=processor.image_token_id)
    return Qwen3VLMoeForConditionalGeneration(config).eval()
