"""Codecs of generators whose model brings none: LlamaGen's VQ model, Cosmos' tokenizer, or a codebook of patches."""

import json
from pathlib import Path

from rubricworks.errors import UserError
from rubricworks.training.generators import cosmos, llamagen
from rubricworks.training.generators.codebook import PatchCodebook
from rubricworks.training.generators.image_tokenizer import StoredCodec

CODEC = "codec"
"""Folder of the codec in the generator's; a codebook of patches lies in the generator's itself."""


def save_codec(codec: StoredCodec, generator: Path) -> None:
    """Write the codec into the generator's folder."""
    codec.save(generator if isinstance(codec, PatchCodebook) else generator / CODEC)


def load_codec(generator: Path) -> StoredCodec:
    """Read the codec of a generator's folder.

    Raises:
        UserError: there is none, or it is damaged or of another kind.
    """
    folder = generator / CODEC
    if not folder.is_dir():
        return PatchCodebook.load(generator)
    try:
        model_type = json.loads((folder / "config.json").read_bytes()).get("model_type")
    except (OSError, ValueError, AttributeError) as error:
        raise UserError(f"{folder}: no readable config.json of a codec ({type(error).__name__})") from error
    if model_type == llamagen.MODEL_TYPE:
        return llamagen.LlamaGenVq.load(folder)
    if model_type == cosmos.MODEL_TYPE:
        return cosmos.CosmosCodec.load(folder)
    raise UserError(
        f"{folder} is a codec of type {model_type}; give one of LlamaGen ({llamagen.MODEL_TYPE}) or Cosmos "
        f"({cosmos.MODEL_TYPE})"
    )
