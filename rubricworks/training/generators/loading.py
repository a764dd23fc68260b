"""Autoregressive generators by their folder: the class that reads a model of its kind."""

from pathlib import Path

import torch
from transformers import AutoConfig

from rubricworks.training.generators.autoregressive import FIRST_CODE, CodeGenerator, VocabularyGenerator
from rubricworks.training.generators.emu3 import Emu3Generator
from rubricworks.training.generators.janus import JanusGenerator


def is_code_generator(folder: Path) -> bool:
    """Return True if the folder's model writes image codes."""
    return _kind(folder) is not None


def load_generator(folder: Path, *, dtype: str = "auto", on_device: bool = True) -> CodeGenerator:
    """Read a generator.

    Args:
        dtype: "auto" for the precision of the saved weights, or a torch name such as "float32".
        on_device: put it on the accelerator, if there is one; a trainer does so by itself.
    Raises:
        UserError: the folder holds none.
    """
    kind = _kind(folder) or VocabularyGenerator
    generator = kind.load(folder, dtype=dtype)
    if on_device and torch.cuda.is_available():
        generator.model.to("cuda")  # type: ignore[arg-type]
    return generator


def is_shardable(folder: Path) -> bool:
    """Return True if the folder's generator can be sharded over processes (FSDP)."""
    return (_kind(folder) or VocabularyGenerator).shardable


def _kind(folder: Path) -> type[VocabularyGenerator] | type[JanusGenerator] | type[Emu3Generator] | None:
    try:
        config = AutoConfig.from_pretrained(folder)
    except (OSError, ValueError):
        return None
    if config.model_type == "janus":
        return JanusGenerator
    if config.model_type == "emu3":
        return Emu3Generator
    return VocabularyGenerator if getattr(config, FIRST_CODE, None) is not None else None
