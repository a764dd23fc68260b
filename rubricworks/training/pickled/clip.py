"""CLIP's published weights, such as SPECS', as a folder that transformers loads: from a torch pickle to safetensors.

The names are those of OpenAI's code and of Long-CLIP, whose text encoder has 248 positions: the first 20 are CLIP's
own, the others `positional_embedding_res`. Sizes follow from the tensors' shapes; heads have 64 channels, as in every
CLIP. Tokenizer and image processor come from a CLIP folder or the Hub.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rubricworks.errors import UserError

_READER = Path(__file__).parent / "sandboxed_reader.py"
_KEPT_POSITIONS = 20
"""Positions that Long-CLIP keeps of CLIP."""
_HEAD = 64
_SECONDS = 1800
_BLOCK = {
    "attn.out_proj": "self_attn.out_proj",
    "ln_1": "layer_norm1",
    "ln_2": "layer_norm2",
    "mlp.c_fc": "mlp.fc1",
    "mlp.c_proj": "mlp.fc2",
}
_PLAIN = {
    "token_embedding.weight": "text_model.embeddings.token_embedding.weight",
    "ln_final.weight": "text_model.final_layer_norm.weight",
    "ln_final.bias": "text_model.final_layer_norm.bias",
    "logit_scale": "logit_scale",
    "visual.class_embedding": "vision_model.embeddings.class_embedding",
    "visual.positional_embedding": "vision_model.embeddings.position_embedding.weight",
    "visual.conv1.weight": "vision_model.embeddings.patch_embedding.weight",
    "visual.ln_pre.weight": "vision_model.pre_layrnorm.weight",
    "visual.ln_pre.bias": "vision_model.pre_layrnorm.bias",
    "visual.ln_post.weight": "vision_model.post_layernorm.weight",
    "visual.ln_post.bias": "vision_model.post_layernorm.bias",
}
_TRANSPOSED = {"text_projection": "text_projection.weight", "visual.proj": "visual_projection.weight"}
_NO_WEIGHTS = ("input_resolution", "context_length", "vocab_size", "positional_embedding", "positional_embedding_res")
_IN_BLOCK = re.compile(r"(visual\.)?transformer\.resblocks\.(\d+)\.(.+)")


def read_pickle(source: Path) -> dict[str, Any]:
    """Name → tensor of a torch pickle, which is read in a sandboxed process.

    Raises:
        UserError: there is no such file, there is no sandbox here, or the file holds something else than tensors.
    """
    from safetensors.torch import load_file

    if not source.is_file():
        raise UserError(f"{source}: there is no such file")
    with tempfile.TemporaryDirectory(prefix="rubricworks-") as folder:
        command = [sys.executable, "-I", str(_READER), str(source.absolute()), folder]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                env={"TMPDIR": folder},
                cwd=folder,
                timeout=_SECONDS,
                check=False,
            )
            answer = json.loads(done.stdout.strip().splitlines()[-1])
        except subprocess.TimeoutExpired:
            raise UserError(f"{source}: reading it took more than {_SECONDS // 60} minutes, and was ended") from None
        except (ValueError, IndexError):
            said = done.stderr.strip().splitlines()
            raise UserError(f"{source}: its reader ended with {done.returncode}: {said[-1] if said else ''}") from None
        if reason := answer.get("reason"):
            raise UserError(f"{source}: not read as weights: {reason}")
        return dict(load_file(Path(folder) / "model.safetensors"))


def clip_weights(tensors: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Weights and configuration of transformers' CLIP from those of OpenAI's code or Long-CLIP's.

    Raises:
        ValueError: a weight is missing, or is none of CLIP's.
    """
    import torch

    weights: dict[str, Any] = {}
    positions = tensors.get("positional_embedding")
    if positions is None or "visual.conv1.weight" not in tensors:
        raise ValueError("it has no positional_embedding and visual.conv1.weight; a CLIP with a vision transformer has")
    longer = tensors.get("positional_embedding_res")
    if longer is not None:
        positions = torch.cat([positions[:_KEPT_POSITIONS], longer[_KEPT_POSITIONS:]])
    weights["text_model.embeddings.position_embedding.weight"] = positions
    for name, tensor in tensors.items():
        if name in _PLAIN:
            weights[_PLAIN[name]] = tensor
        elif name in _TRANSPOSED:
            weights[_TRANSPOSED[name]] = tensor.T.contiguous()
        elif match := _IN_BLOCK.fullmatch(name):
            weights |= _block_weights("vision_model" if match[1] else "text_model", match[2], match[3], tensor)
        elif name not in _NO_WEIGHTS:
            raise ValueError(f"{name} is no weight of CLIP")
    if missing := [name for name in (*_PLAIN, *_TRANSPOSED) if name not in tensors]:
        raise ValueError(f"it lacks {missing[0]}")
    return weights, _config(weights)


def _block_weights(model: str, layer: str, name: str, tensor: Any) -> dict[str, Any]:
    place = f"{model}.encoder.layers.{layer}"
    if name in ("attn.in_proj_weight", "attn.in_proj_bias"):
        kind = name.rpartition("_")[2]
        return {
            f"{place}.self_attn.{part}_proj.{kind}": third.contiguous()
            for part, third in zip("qkv", tensor.chunk(3), strict=True)
        }
    part, _, kind = name.rpartition(".")
    if part not in _BLOCK:
        raise ValueError(f"resblocks.{layer}.{name} is no weight of CLIP")
    return {f"{place}.{_BLOCK[part]}.{kind}": tensor}


def _config(weights: dict[str, Any]) -> dict[str, Any]:
    def sizes(model: str, width: int) -> dict[str, int]:
        layers = [int(name.split(".")[3]) for name in weights if name.startswith(f"{model}.encoder.layers.")]
        inner = weights[f"{model}.encoder.layers.0.mlp.fc1.weight"].shape[0]
        heads = max(1, width // _HEAD)
        count = max(layers) + 1
        return {
            "hidden_size": width,
            "intermediate_size": inner,
            "num_hidden_layers": count,
            "num_attention_heads": heads,
        }

    vocabulary, text_width = weights["text_model.embeddings.token_embedding.weight"].shape
    length = weights["text_model.embeddings.position_embedding.weight"].shape[0]
    vision_width, _, patch, _ = weights["vision_model.embeddings.patch_embedding.weight"].shape
    grid = round((weights["vision_model.embeddings.position_embedding.weight"].shape[0] - 1) ** 0.5)
    text = {**sizes("text_model", text_width), "vocab_size": vocabulary, "max_position_embeddings": length}
    ends = {"bos_token_id": vocabulary - 2, "eos_token_id": vocabulary - 1, "pad_token_id": vocabulary - 1}
    vision = {**sizes("vision_model", vision_width), "image_size": grid * patch, "patch_size": patch}
    projection = weights["text_projection.weight"].shape[0]
    return {"text_config": text | ends, "vision_config": vision, "projection_dim": projection}


def convert_clip(source: Path, processor: str, out: Path) -> None:
    """Write the CLIP of a torch pickle as a folder that transformers loads.

    Args:
        processor: CLIP folder, or its name on the Hub, whose tokenizer and image processor it takes.
    Raises:
        UserError: the file is no CLIP, or the processor cannot be loaded or reads images of another size.
    """
    from transformers import CLIPConfig, CLIPModel, CLIPProcessor

    from rubricworks.data.hub import model_place

    if out.exists():
        raise UserError(f"{out} is there already; name another folder")
    try:
        weights, config = clip_weights(read_pickle(source))
        model = CLIPModel(CLIPConfig(**config))
        loaded = model.load_state_dict({name: tensor.float() for name, tensor in weights.items()}, strict=False)
    except (ValueError, RuntimeError, KeyError) as error:
        raise UserError(f"{source}: no CLIP by OpenAI's or Long-CLIP's names: {str(error).splitlines()[0]}") from error
    if lacking := [name for name in loaded.missing_keys if not name.endswith("position_ids")]:
        raise UserError(f"{source}: it lacks the weights of {lacking[0]}")
    try:
        reads: Any = CLIPProcessor.from_pretrained(model_place(processor))
    except (OSError, ValueError) as error:
        raise UserError(f"cannot load the processor {processor}: {str(error).splitlines()[0]}") from error
    side = config["vision_config"]["image_size"]
    reads.tokenizer.model_max_length = config["text_config"]["max_position_embeddings"]
    reads.image_processor.size = {"shortest_edge": side}
    reads.image_processor.crop_size = {"height": side, "width": side}
    model.save_pretrained(out)
    reads.save_pretrained(out)
