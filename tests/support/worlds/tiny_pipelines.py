"""FLUX and Qwen-Image pipelines with random weights, as small as diffusers builds them."""

from pathlib import Path

import torch
from diffusers import (
    AutoencoderKL,
    AutoencoderKLQwenImage,
    FlowMatchEulerDiscreteScheduler,
    FluxPipeline,
    FluxTransformer2DModel,
    QwenImagePipeline,
    QwenImageTransformer2DModel,
)
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    CLIPTextConfig,
    CLIPTextModel,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    T5Config,
    T5EncoderModel,
)

_SHIFTED = {"use_dynamic_shifting": True, "base_shift": 0.5, "max_shift": 1.15}


def _tokenizer(length: int) -> PreTrainedTokenizerFast:
    words = ["<pad>", "<unk>", "a", "red", "blue", "circle", "square", "and", "two", "the", "picture", "of"]
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>", eos_token="<pad>", model_max_length=length
    )


def save_flux(folder: Path) -> Path:
    torch.manual_seed(0)
    transformer = FluxTransformer2DModel(
        patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=32, pooled_projection_dim=32, axes_dims_rope=(4, 4, 8), guidance_embeds=True,
    )  # fmt: skip
    vae = AutoencoderKL(
        sample_size=32, in_channels=3, out_channels=3, block_out_channels=(4,), layers_per_block=1, latent_channels=1,
        norm_num_groups=1, use_quant_conv=False, use_post_quant_conv=False, shift_factor=0.06, scaling_factor=1.5,
    )  # fmt: skip
    clip = CLIPTextConfig(
        vocab_size=64, hidden_size=32, intermediate_size=37, num_hidden_layers=1, num_attention_heads=4,
        projection_dim=32, max_position_embeddings=77, bos_token_id=0, eos_token_id=2, pad_token_id=1,
    )  # fmt: skip
    t5 = T5Config(vocab_size=64, d_model=32, d_ff=37, d_kv=8, num_layers=1, num_heads=4)
    pipe = FluxPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(**_SHIFTED),
        vae=vae.eval(),
        text_encoder=CLIPTextModel(clip).eval(),
        tokenizer=_tokenizer(77),
        text_encoder_2=T5EncoderModel(t5).eval(),
        tokenizer_2=_tokenizer(32),
        transformer=transformer.eval(),
    )
    pipe.save_pretrained(folder)
    return folder


def save_qwen_image(folder: Path) -> Path:
    torch.manual_seed(0)
    transformer = QwenImageTransformer2DModel(
        patch_size=2, in_channels=16, out_channels=4, num_layers=2, attention_head_dim=16, num_attention_heads=3,
        joint_attention_dim=16, axes_dims_rope=(8, 4, 4),
    )  # fmt: skip
    z_dim = 4
    vae = AutoencoderKLQwenImage(
        base_dim=z_dim * 6, z_dim=z_dim, dim_mult=[1, 2, 4], num_res_blocks=1, temperal_downsample=[False, True],
        latents_mean=[0.1] * z_dim, latents_std=[1.5] * z_dim,
    )  # fmt: skip
    config = Qwen2_5_VLConfig(
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
    pipe = QwenImagePipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(**_SHIFTED),
        vae=vae.eval(),
        text_encoder=Qwen2_5_VLForConditionalGeneration(config).eval(),
        tokenizer=_tokenizer(512),
        transformer=transformer.eval(),
    )
    pipe.save_pretrained(folder)
    return folder
