"""A text model small enough for two CPU cores: a Qwen3 of well under a million parameters, for a GenRM on a laptop.

The model copies criteria word for word and writes JSON, so its tokenizer is lossless: text splits into words, each with
the space before it, and the punctuation between them. Each piece of the corpus is one token, so that a JSON object
takes few tokens; other text is encoded byte by byte.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from rubricworks.errors import UserError
from rubricworks.training.lora import save_plain_model
from rubricworks.training.processing import ASSISTANT, CHAT_TEMPLATE, END, PAD, USER
from rubricworks.training.tiny.text_config import TinyTextConfig

_WORD = Regex(r" ?\w+(?:-\w+)*")
"""A word with its hyphens and the space before it; the text between two words is a piece, too."""
_SPECIALS = (PAD, END, USER, ASSISTANT)
_BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))


def build_text_student(texts: Iterable[str], out: Path, *, config: TinyTextConfig | None = None, seed: int = 0) -> Path:
    """Write an untrained causal language model as a Hugging Face model directory and return the directory.

    Args:
        texts: texts that the model must read or write; their pieces become its vocabulary.
    Raises:
        UserError: the texts are empty.
    """
    config = config or TinyTextConfig()
    tokenizer = piece_tokenizer(texts)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(_model_config(config, tokenizer))
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, do_sample=False
    )
    return save_plain_model(model, tokenizer, Path(out))


def piece_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Build a tokenizer with `decode(encode(text)) == text`; its tokens are the pieces of the texts and all bytes."""
    split = pre_tokenizers.Split(_WORD, behavior="isolated")
    counts = Counter(piece for text in texts for piece, _ in split.pre_tokenize_str(text))
    if not counts:
        raise UserError("the student's vocabulary is empty: give texts to build it from")
    pieces = sorted(counts.keys() - {*_SPECIALS, *_BYTES}, key=lambda piece: (-counts[piece], piece))
    vocabulary = {token: index for index, token in enumerate([*_SPECIALS, *_BYTES, *pieces])}
    # Without merges, a piece is one token if the vocabulary contains it, and otherwise its characters or bytes.
    tokenizer = Tokenizer(models.BPE(vocabulary, merges=[], ignore_merges=True, byte_fallback=True))
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[USER, ASSISTANT],
        padding_side="left",
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )


def _model_config(config: TinyTextConfig, tokenizer: PreTrainedTokenizerFast) -> Qwen3Config:
    return Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=config.hidden,
        intermediate_size=config.intermediate,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.heads,
        head_dim=config.hidden // config.heads,
        max_position_embeddings=config.max_tokens,
        rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
        initializer_range=config.initializer_range,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        tie_word_embeddings=True,
    )
