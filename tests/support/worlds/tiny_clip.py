"""A tiny random CLIP, as a folder that transformers loads."""

import string
from pathlib import Path

import torch
from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPProcessor, CLIPTokenizerFast


def write_tiny_clip(folder: Path) -> Path:
    letters = [*string.printable.strip(), *(f"{letter}</w>" for letter in string.printable.strip())]
    vocabulary = {token: at for at, token in enumerate([*letters, "<|startoftext|>", "<|endoftext|>"])}
    tokenizer = CLIPTokenizerFast(vocab=vocabulary, merges=[])
    size = {"hidden_size": 32, "intermediate_size": 37, "num_hidden_layers": 2, "num_attention_heads": 4}
    torch.manual_seed(0)
    config = CLIPConfig(
        text_config={
            **size, "vocab_size": len(vocabulary), "max_position_embeddings": 24, "projection_dim": 16,
            "bos_token_id": len(vocabulary) - 2, "eos_token_id": len(vocabulary) - 1,
        },
        vision_config={**size, "image_size": 30, "patch_size": 10, "projection_dim": 16},
        projection_dim=16,
    )  # fmt: skip
    model = CLIPModel(config)
    with torch.no_grad():
        model.text_projection.weight.copy_(torch.eye(16, 32))
    model.save_pretrained(folder)
    images = CLIPImageProcessor(size={"shortest_edge": 30}, crop_size={"height": 30, "width": 30})
    CLIPProcessor(image_processor=images, tokenizer=tokenizer).save_pretrained(folder)
    return folder
