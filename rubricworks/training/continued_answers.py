"""Greedy answers of a batch that makes room: an answer that is long does not keep others waiting.

`generate` ends a batch with its longest answer. Here each answer is given when it ends, and the batch is interrupted
once half of the places are free and others wait; the rest is continued in the next batch, from its tokens so far.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel, StoppingCriteria, StoppingCriteriaList

from rubricworks.training.generate import Processor, check_reads_images, decode_image, end_ids
from rubricworks.training.processing import Messages, encode_prompts, images_of, tokenizer_of

_FEWEST_TOKENS = 16
"""Tokens of a batch before it is interrupted: the prompts of its other answers are read again."""


class Asked(NamedTuple):
    """A prompt with the tokens of its answer so far."""

    image: bytes | None
    prompt: str | Messages
    limit: int
    """Most tokens of the whole answer."""
    tokens: tuple[int, ...] = ()


def continue_answers(
    model: PreTrainedModel,
    processor: Processor,
    batch: Sequence[Asked],
    *,
    places: int,
    others_wait: Callable[[], bool],
    on_answer: Callable[[int, str, int], None],
) -> list[tuple[int, ...] | None]:
    """Answer until all have ended, or until half of the places are free while others wait.

    Args:
        places: prompts that a batch has room for.
        others_wait: whether there are prompts for the next batch; called after every token.
        on_answer: called with the number of a prompt, its whole answer, and the answer's tokens, end token included.
    Returns:
        Tokens so far of each answer that has not ended, else None.
    """
    check_reads_images(processor, any(asked.image is not None or images_of(asked.prompt) for asked in batch))
    images = [None if asked.image is None else decode_image(asked.image) for asked in batch]
    encoded = encode_prompts(processor, images, [asked.prompt for asked in batch])
    tokenizer = tokenizer_of(processor)
    inputs = _with_begun(encoded, [asked.tokens for asked in batch], int(tokenizer.pad_token_id))
    ends = end_ids(model.generation_config.eos_token_id, tokenizer)
    image_token = getattr(model.config, "image_token_id", None)
    left = torch.tensor([asked.limit - len(asked.tokens) for asked in batch], device=model.device)
    start = inputs["input_ids"].shape[1]
    generate: Any = model.generate

    def give(number: int, new: list[int]) -> None:
        tokens = [*batch[number].tokens, *new]
        on_answer(number, str(tokenizer.decode(tokens, skip_special_tokens=True)), len(tokens))

    watch = _Places(start, ends, left, places, others_wait, give)
    with torch.no_grad():
        output = generate(
            **{name: tensor.to(model.device) for name, tensor in inputs.items()},
            do_sample=False,
            max_new_tokens=int(left.max()),
            stopping_criteria=StoppingCriteriaList([watch]),
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=ends,
            suppress_tokens=None if image_token is None else [image_token],
            disable_compile=True,
        )
    begun = output[:, start:].tolist()
    return [
        None if ended else (*asked.tokens, *new)
        for asked, new, ended in zip(batch, begun, watch.ended.tolist(), strict=True)
    ]


class _Places(StoppingCriteria):
    """Ends rows at their own limits, and the batch when it has room for those that wait."""

    def __init__(
        self,
        start: int,
        ends: Sequence[int],
        left: Tensor,
        places: int,
        others_wait: Callable[[], bool],
        give: Callable[[int, list[int]], None],
    ) -> None:
        self._start, self._left, self._places, self._others_wait, self._give = start, left, places, others_wait, give
        self._ends = torch.tensor(list(ends), device=left.device)
        self.ended = torch.zeros_like(left, dtype=torch.bool)

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        new = input_ids.shape[1] - self._start
        ending = (torch.isin(input_ids[:, -1], self._ends) | (self._left <= new)) & ~self.ended
        for number in ending.nonzero().flatten().tolist():
            self._give(number, input_ids[number, self._start :].tolist())
        self.ended |= ending
        at_work = int((~self.ended).sum())
        if new >= _FEWEST_TOKENS and at_work <= self._places // 2 and self._others_wait():
            return torch.ones_like(self.ended)
        return self.ended.clone()


def _with_begun(encoded: dict[str, Tensor], begun: Sequence[Sequence[int]], pad: int) -> dict[str, Tensor]:
    """Left-padded inputs with the begun answers behind their prompts."""
    if not any(begun):
        return encoded
    mask = encoded["attention_mask"].bool()
    shape = mask.shape
    fills = {"input_ids": (pad, None), "attention_mask": (0, 1)}
    inputs = {}
    for name, tensor in encoded.items():
        if tensor.shape != shape:
            inputs[name] = tensor
            continue
        padding, filling = fills.get(name, (0, 0))
        rows = [
            torch.cat([row[keep], row.new_tensor(answer if filling is None else [filling] * len(answer))])
            for row, keep, answer in zip(tensor, mask, begun, strict=True)
        ]
        width = max(len(row) for row in rows)
        inputs[name] = torch.stack([torch.nn.functional.pad(row, (width - len(row), 0), value=padding) for row in rows])
    return inputs
