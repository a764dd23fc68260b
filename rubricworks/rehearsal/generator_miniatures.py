"""Miniatures of image generators: autoregressive ones of Transformers, and pipelines of diffusers."""

import importlib
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from rubricworks.errors import UserError
from rubricworks.rehearsal.shapes import Shape, cut_shape
from rubricworks.training.progress import quiet_libraries

_WORDS = (
    "<pad>",
    "<s>",
    "<unk>",
    "<image>",
    "a",
    "red",
    "blue",
    "circle",
    "square",
    "and",
    "two",
    "the",
    "picture",
    "of",
)
_CODES = 16
_SHIFTED = {"use_dynamic_shifting": True, "base_shift": 0.5, "max_shift": 1.15}


def is_image_generator(shape: Shape) -> bool:
    """Return True for the shape of a generator: a pipeline's, or a model's with a codebook of images."""
    return "pipeline" in shape or "_class_name" in shape or "vq_config" in shape


def save_image_generator(shape: Shape, folder: Path) -> str:
    """Write a generator with random weights; return its class.

    Raises:
        UserError: generators of this class are not known.
    """
    kind = shape.get("pipeline") or shape.get("_class_name") or shape["model_type"]
    builders = {
        "FluxPipeline": _save_flux,
        "QwenImagePipeline": _save_qwen_image,
        "emu3": _save_emu3,
        "janus": _save_janus,
    }
    if kind not in builders:
        raise UserError(f"{kind}: there is no miniature of such a generator; there are {', '.join(builders)}")
    with quiet_libraries():
        return builders[kind](shape, folder)


def _save_flux(shape: Shape, folder: Path) -> str:
    diffusers: Any = importlib.import_module("diffusers")
    from transformers import CLIPTextConfig, CLIPTextModel, T5Config, T5EncoderModel

    published = shape.get("transformer", {})
    transformer = diffusers.FluxTransformer2DModel(
        patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=32, pooled_projection_dim=32, axes_dims_rope=(4, 4, 8),
        guidance_embeds=published.get("guidance_embeds", True),
    )  # fmt: skip
    vae = diffusers.AutoencoderKL(
        sample_size=32, in_channels=3, out_channels=3, block_out_channels=(4,), layers_per_block=1, latent_channels=1,
        norm_num_groups=1, use_quant_conv=False, use_post_quant_conv=False, shift_factor=0.06, scaling_factor=1.5,
    )  # fmt: skip
    clip = CLIPTextConfig(
        vocab_size=64, hidden_size=32, intermediate_size=37, num_hidden_layers=1, num_attention_heads=4,
        projection_dim=32, max_position_embeddings=77, bos_token_id=0, eos_token_id=2, pad_token_id=1,
    )  # fmt: skip
    t5 = T5Config(vocab_size=64, d_model=32, d_ff=37, d_kv=8, num_layers=1, num_heads=4)
    pipeline = diffusers.FluxPipeline(
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(**_SHIFTED),
        vae=vae.eval(),
        text_encoder=CLIPTextModel(clip).eval(),
        tokenizer=_words(77),
        text_encoder_2=T5EncoderModel(t5).eval(),
        tokenizer_2=_words(32),
        transformer=transformer.eval(),
    )
    pipeline.save_pretrained(folder)
    return "FluxPipeline"


def _save_qwen_image(shape: Shape, folder: Path) -> str:
    diffusers: Any = importlib.import_module("diffusers")
    transformers: Any = importlib.import_module("transformers")

    transformer = diffusers.QwenImageTransformer2DModel(
        patch_size=2, in_channels=16, out_channels=4, num_layers=2, attention_head_dim=16, num_attention_heads=3,
        joint_attention_dim=16, axes_dims_rope=(8, 4, 4),
    )  # fmt: skip
    latents = 4
    vae = diffusers.AutoencoderKLQwenImage(
        base_dim=latents * 6, z_dim=latents, dim_mult=[1, 2, 4], num_res_blocks=1, temperal_downsample=[False, True],
        latents_mean=[0.1] * latents, latents_std=[1.5] * latents,
    )  # fmt: skip
    config = transformers.Qwen2_5_VLConfig(
        text_config={
            "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
            "num_key_value_heads": 2, "vocab_size": 64,
            "rope_parameters": {"mrope_section": [1, 1, 2], "rope_type": "default", "rope_theta": 1000000.0},
        },
        vision_config={
            "depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 16,
        },
        vocab_size=64, vision_end_token_id=61, vision_start_token_id=60, vision_token_id=62,
    )  # fmt: skip
    pipeline = diffusers.QwenImagePipeline(
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(**_SHIFTED),
        vae=vae.eval(),
        text_encoder=transformers.Qwen2_5_VLForConditionalGeneration(config).eval(),
        tokenizer=_words(512),
        transformer=transformer.eval(),
    )
    pipeline.save_pretrained(folder)
    return "QwenImagePipeline"


def _save_emu3(shape: Shape, folder: Path) -> str:
    """2 x 2 codes out of 16, images of 4 x 4 pixels."""
    transformers: Any = importlib.import_module("transformers")

    visual = [f"<|visual token {code:06d}|>" for code in range(_CODES)]
    marks = {"boi_token": "<|image start|>", "image_wrapper_token": "<|image token|>"}
    vocabulary = _save_words(folder, ("<|extra_200|>", *visual), marks)
    text = cut_shape(shape, vocabulary=len(vocabulary))["text_config"]
    config = transformers.Emu3Config(
        text_config=text | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 0},
        vq_config={
            "codebook_size": _CODES, "embed_dim": 4, "latent_channels": 4, "hidden_size": 32, "base_channels": 32,
            "channel_multiplier": [1, 1], "num_res_blocks": 1, "attn_resolutions": [], "in_channels": 3,
            "temporal_downsample_factor": 1,
        },
        vocabulary_map=vocabulary,
        image_rows=2,
    )  # fmt: skip
    return _save(transformers.Emu3ForConditionalGeneration(config), folder)


def _save_janus(shape: Shape, folder: Path) -> str:
    """4 x 4 codes out of 16, images of 8 x 8 pixels."""
    from transformers import JanusConfig, JanusForConditionalGeneration

    vocabulary = _save_words(folder, (), {"boi_token": "<begin_of_image>"})
    text = cut_shape(shape, vocabulary=len(vocabulary))["text_config"]
    width = text["hidden_size"]
    config = JanusConfig(
        text_config={"model_type": "llama", **text, "pad_token_id": 0, "bos_token_id": 1},
        vision_config={
            "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "projection_dim": width,
            "image_size": 8, "patch_size": 2, "num_image_tokens": 16, "depth": 1,
        },
        vq_config={
            "embed_dim": 4, "num_embeddings": _CODES, "projection_dim": width, "image_token_embed_dim": width,
            "base_channels": 32, "channel_multiplier": [1, 1], "num_res_blocks": 1, "latent_channels": 32,
        },
    )  # fmt: skip
    return _save(JanusForConditionalGeneration(config), folder)


def _save(model: Any, folder: Path) -> str:
    model.to(torch.bfloat16).save_pretrained(folder)
    return type(model).__name__


def _words(length: int) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(_WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>", eos_token="<pad>", model_max_length=length
    )


def _save_words(folder: Path, extra: tuple[str, ...], marks: dict[str, str]) -> dict[str, int]:
    """Write a tokenizer of words with these tokens too, and return its vocabulary."""
    vocabulary = {token: at for at, token in enumerate([*_WORDS, *marks.values(), *extra])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", bos_token="<s>", unk_token="<unk>", extra_special_tokens=marks
    ).save_pretrained(folder)
    return vocabulary
