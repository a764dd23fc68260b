"""The laptop's students, taught, for the tests against vLLM itself."""

import importlib.util

import pytest
import torch
from coloured_squares import SMALL, squares
from tokenizers import ByteLevelBPETokenizer
from training_configs import sft_config
from transformers import CLIPVisionConfig, CLIPVisionModel, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from rubricworks.training.config import TinyLlavaConfig
from rubricworks.training.llava.assembly import assemble_llava, build_tiny_llava
from rubricworks.training.sft import train_sft
from rubricworks.training.tiny.student import build_student

if importlib.util.find_spec("vllm") is None or importlib.util.find_spec("httpx") is None:
    collect_ignore_glob = ["test_*.py"]  # `make test-vllm` has an environment of its own

SHAPE = SMALL.model_copy(update={"hidden": 64})
"""Heads of 32 channels, the narrowest that vLLM's attention has on a CPU."""


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def taught(tmp_path_factory):
    """A student that describes the squares, not always rightly: its captions differ from image to image."""
    folder = tmp_path_factory.mktemp("taught")
    texts = [text for _, prompt, caption in squares() for text in (prompt, caption)]
    images = [image for image, _, _ in squares()]
    student = build_student(texts, folder / "student", config=SHAPE, images=images, seed=1)
    return train_sft(student, squares(), folder / "sft", sft_config(steps=60, batch_size=12, learning_rate=1e-2))


@pytest.fixture(scope="session")
def other_checkpoint(tmp_path_factory, taught):
    """The student after a few steps more, towards captions of one square for all."""
    last = squares()[-1][2]
    rows = [(image, prompt, last) for image, prompt, _ in squares()]
    options = sft_config(steps=20, batch_size=12, learning_rate=1e-2)
    return train_sft(taught, rows, tmp_path_factory.mktemp("other"), options)


@pytest.fixture(scope="session")
def pretrained(tmp_path_factory):
    """A LLaVA as VLM pretraining writes it, both towers from nothing, that describes the squares."""
    folder = tmp_path_factory.mktemp("pretrained")
    texts = [text for _, prompt, caption in squares() for text in (prompt, caption)]
    images = [image for image, _, _ in squares()]
    shape = TinyLlavaConfig(
        hidden=64, layers=1, heads=2, intermediate=128, vision_hidden=64, vision_heads=2, patch=8, image_side=32
    )
    student = build_tiny_llava(texts, folder / "student", config=shape, images=images, seed=1)
    return train_sft(student, squares(), folder / "sft", sft_config(steps=150, batch_size=12, learning_rate=5e-3))


@pytest.fixture(scope="session")
def pretrained_with_tiles(tmp_path_factory):
    """A LLaVA-NeXT, assembled from a small CLIP tower and a small Qwen2, that describes the squares."""
    folder = tmp_path_factory.mktemp("pretrained_with_tiles")
    torch.manual_seed(1)
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 2}
    tower = CLIPVisionModel(CLIPVisionConfig(**shape, num_hidden_layers=2, image_size=32, patch_size=8))
    torch.nn.init.normal_(tower.embeddings.position_embedding.weight, std=1.0)
    tower.save_pretrained(folder / "tower")
    # Byte-level like Qwen2's own, as which it is read.
    learned = ByteLevelBPETokenizer()
    texts = [text for _, prompt, caption in squares() for text in (prompt, caption)]
    learned.train_from_iterator([*texts, "system user assistant You are a helpful assistant."], vocab_size=512)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=learned._tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
    )  # fmt: skip
    config = Qwen2Config(
        **shape, vocab_size=len(tokenizer), num_hidden_layers=1, num_key_value_heads=2, tie_word_embeddings=False,
        initializer_range=0.08,
    )  # fmt: skip
    Qwen2ForCausalLM(config).save_pretrained(folder / "language")
    tokenizer.save_pretrained(folder / "language")
    start = assemble_llava(str(folder / "tower"), str(folder / "language"), folder / "student", seed=1)
    return train_sft(start, squares(), folder / "sft", sft_config(steps=150, batch_size=12, learning_rate=5e-3))
