"""Batches of conversations with any number of images, whose loss is on the assistant's turns only.

A conversation is cut at the borders of the assistant's turns, by its chat template, and the pieces are tokenized apart,
as they are when the model answers. A turn ends with the model's end token, which is learned too.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from PIL import Image
from torch.nn.utils.rnn import pad_sequence

from rubricworks.errors import UserError
from rubricworks.training.examples import Conversation
from rubricworks.training.generate import Processor, decode_image
from rubricworks.training.processing import Messages, tokenizer_of

_NO_LABEL = -100
_IMAGE_ALONE: Messages = [{"role": "user", "content": [{"type": "image"}]}]
_BLANK = Image.new("RGB", (64, 64))


class ConversationCollator:
    """Collator of conversations, padded on the right.

    A batch without images gets an additional row with a blank image and no labels. FSDP needs the vision tower to run
    in every process in every pass; the gradient of the row is zero.
    """

    def __init__(self, processor: Processor) -> None:
        self.processor = processor

    def __call__(self, examples: Sequence[Conversation]) -> dict[str, torch.Tensor]:
        images = [decode_image(image) for example in examples for image in example.images]
        rows = [self._pieces(example.messages) for example in examples]
        if not images:
            images.append(_BLANK)
            rows.append([(self._text(_IMAGE_ALONE, add_generation_prompt=True), False)])
        read: Any = self.processor
        texts = [text for row in rows for text, _ in row]
        options: dict[str, Any] = {"padding": True, "padding_side": "right", "add_special_tokens": False}
        batch = dict(read(images=images, text=texts, return_tensors="pt", **options))
        shape = batch["input_ids"].shape
        lengths = batch["attention_mask"].sum(dim=1).tolist()

        def joined(pieces: torch.Tensor, padding: int) -> torch.Tensor:
            cut = iter([piece[:length] for piece, length in zip(pieces, lengths, strict=True)])
            whole = [torch.cat([next(cut) for _ in row]) for row in rows]
            return pad_sequence(whole, batch_first=True, padding_value=padding)

        learned = torch.tensor([answer for row in rows for _, answer in row])[:, None]
        labels = joined(batch["input_ids"].masked_fill(~learned, _NO_LABEL), _NO_LABEL)
        by_token = {name: tensor for name, tensor in batch.items() if tensor.shape == shape}
        pad = tokenizer_of(self.processor).pad_token_id
        tokens = {name: joined(tensor, pad if name == "input_ids" else 0) for name, tensor in by_token.items()}
        return {**batch, **tokens, "labels": labels}

    def _pieces(self, messages: Messages) -> list[tuple[str, bool]]:
        """Texts in order, and whether each is an answer."""
        end = tokenizer_of(self.processor).eos_token or ""
        pieces: list[tuple[str, bool]] = []
        written = 0
        for number, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            prompt = self._text(messages[:number], add_generation_prompt=True)
            whole = self._text(messages[: number + 1])
            if not whole.startswith(prompt):
                raise UserError(
                    "the model's chat template does not write a conversation turn by turn, so its answers cannot be "
                    "told apart; train on questions, or with another model"
                )
            answer = whole[len(prompt) :]
            answer = answer.split(end)[0] + end if end else answer
            pieces += [(prompt[written:], False), (answer, True)]
            written = len(prompt) + len(answer)
        return pieces

    def _text(self, messages: Messages, **options: Any) -> str:
        template: Any = partial(self.processor.apply_chat_template, tokenize=False)
        text: str = template(messages, **options)
        return text
