"""Tiny Janus and Emu3 of random weights, saved as their checkpoints are: model, tokenizer, marks of an image."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    Emu3Config,
    Emu3ForConditionalGeneration,
    JanusConfig,
    JanusForConditionalGeneration,
    PreTrainedTokenizerFast,
)

WORDS = ("<pad>", "<s>", "<unk>", "<image>", "a", "red", "blue", "circle", "*", "2")
TEXT = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
}
VQ = {
    "base_channels": 32,
    "channel_multiplier": [1, 1],
    "num_res_blocks": 1,
    "latent_channels": 32,
}


def tokenizer(folder: Path, *extra: str, **marks: str) -> int:
    vocabulary = {token: at for at, token in enumerate([*WORDS, *marks.values(), *extra])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", bos_token="<s>", unk_token="<unk>", extra_special_tokens=marks
    )
    fast.save_pretrained(folder)
    return len(vocabulary)


def save_janus(folder: Path) -> Path:
    """4 x 4 codes out of 12, images of 8 x 8 pixels."""
    count = tokenizer(folder, boi_token="<begin_of_image>")
    config = JanusConfig(
        text_config={"model_type": "llama", "vocab_size": count, **TEXT},
        vision_config={
            **{"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "projection_dim": 32},
            **{"image_size": 8, "patch_size": 2, "num_image_tokens": 16, "depth": 1},
        },
        vq_config={
            **{"embed_dim": 4, "num_embeddings": 12, "projection_dim": 32, "image_token_embed_dim": 32},
            **VQ,
        },
    )
    return _save(JanusForConditionalGeneration, config, folder)


def save_emu3(folder: Path) -> Path:
    """2 x 2 codes out of 16, images of 4 x 4 pixels; the codes' tokens lie in reverse order."""
    visual = [f"<|visual token {code:06d}|>" for code in reversed(range(16))]
    marks = {"boi_token": "<|image start|>", "image_wrapper_token": "<|image token|>"}
    count = tokenizer(folder, "<|extra_200|>", *visual, **marks)
    vocabulary = PreTrainedTokenizerFast.from_pretrained(folder).get_vocab()
    config = Emu3Config(
        text_config={"vocab_size": count, **TEXT, "attention_dropout": 0.1, "eos_token_id": 0},
        vq_config={
            **{"codebook_size": 16, "embed_dim": 4, "hidden_size": 32, "attn_resolutions": [], "in_channels": 3},
            **{**VQ, "latent_channels": 4},
            "temporal_downsample_factor": 1,
        },
        vocabulary_map=vocabulary,
        image_rows=2,
    )
    return _save(Emu3ForConditionalGeneration, config, folder)


def _save(kind, config, folder: Path) -> Path:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = kind(config)
        with torch.no_grad():  # so that probabilities differ
            for name, weight in model.named_parameters():
                if "vqmodel" not in name and weight.ndim > 1:
                    weight.normal_(0, 0.2)
    model.save_pretrained(folder)
    return folder
