"""Tokenizer of whole words, for generators that are built from their captions."""

from collections.abc import Sequence

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

_PAD, _UNKNOWN = "<pad>", "<unk>"


def word_tokenizer(
    captions: Sequence[str], *, further: Sequence[str] = (), padding_side: str = "left"
) -> PreTrainedTokenizerFast:
    """Build a tokenizer whose tokens are the words of the captions; padding is token 0.

    Args:
        further: tokens beside the words.
    """
    splitter = pre_tokenizers.Split(" ", behavior="removed")
    words = sorted({piece for caption in set(captions) for piece, _ in splitter.pre_tokenize_str(caption)})
    vocabulary = {token: at for at, token in enumerate([_PAD, _UNKNOWN, *further, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=_UNKNOWN))
    tokenizer.pre_tokenizer = splitter
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=_PAD, unk_token=_UNKNOWN, eos_token=_PAD, padding_side=padding_side
    )
