"""A random LLaVA of a few thousand parameters, which `transformers serve` loads without torchvision."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    CLIPVisionConfig,
    GenerationConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

WORDS = ("a", "the", "dog", "cat", "red", "blue", "on", "and", "with", "of", "tree", "sky", "house", "big", "one")


def build_noise_model(folder: Path) -> Path:
    """A model folder; greedy decoding would repeat itself to the limit, so it samples."""
    words = ["<pad>", "<end>", "<unk>", "<image>", *WORDS]
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    processor = LlavaProcessor(
        CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}),
        PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            pad_token="<pad>",
            eos_token="<end>",
            unk_token="<unk>",
            additional_special_tokens=["<image>"],
        ),
        patch_size=16,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=(
            "{% for message in messages %}{% for part in message['content'] %}"
            "{% if part['type'] == 'image' %}<image> {% else %}{{ part['text'] }} {% endif %}"
            "{% endfor %}{% endfor %}"
        ),
    )
    small = {"hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 2}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = LlavaForConditionalGeneration(
            LlavaConfig(
                vision_config=CLIPVisionConfig(
                    **small, num_hidden_layers=2, image_size=32, patch_size=16, projection_dim=32
                ),
                text_config=LlamaConfig(
                    **small,
                    num_hidden_layers=1,
                    vocab_size=len(words),
                    max_position_embeddings=8192,
                    pad_token_id=0,
                    eos_token_id=1,
                    bos_token_id=None,
                ),
                image_token_index=3,
            )
        )
    model.generation_config = GenerationConfig(do_sample=True, eos_token_id=1, pad_token_id=0)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
