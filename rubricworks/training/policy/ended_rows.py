"""Judge calls for rollouts that end while others of their batch are still being sampled.

The batch is sampled as before, with the same random numbers: `generate` of Transformers streams its tokens, and a
colocated vLLM returns the rollouts that end in each of its engine's steps. The calls for the rest, and for all rollouts
of a vLLM server, start when the batch is sampled, before the log probabilities of its tokens are computed.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import Tensor
from transformers.generation.streamers import BaseStreamer

Start = Callable[..., Coroutine[Any, Any, None]]
"""`await start(rows, prompts, completions, **columns)`: start the calls for these rows of the batch."""
OnEnded = Callable[[Mapping[int, list[int]]], None]
"""Called with row of the batch → its tokens, the end token included."""


class EarlyCalls:
    """Starts the calls of each rollout of one batch, once, in the loop of the reward functions."""

    def __init__(
        self,
        start: Start,
        loop: asyncio.AbstractEventLoop,
        columns: Mapping[str, Sequence[Any]],
        prompts: Sequence[Any],
        decode: Callable[[list[list[int]]], list[Any]],
    ) -> None:
        """
        Args:
            columns: those that the reward functions get for the batch.
            decode: tokens of rollouts → their completions, as the reward functions get them.
        """
        self._start, self._loop, self._columns, self._prompts, self._decode = start, loop, columns, prompts, decode
        self._waiting = set(range(len(prompts)))

    def start_ended(self, tokens: Mapping[int, list[int]]) -> None:
        """Start the calls for rollouts that have ended."""
        self._start_rows(dict(zip(tokens, self._decode(list(tokens.values())), strict=True)))

    def start_rest(self, completions: Sequence[Any]) -> None:
        """Start the calls for the others; the batch is sampled."""
        self._start_rows({row: completions[row] for row in sorted(self._waiting)})

    def _start_rows(self, completions: Mapping[int, Any]) -> None:
        if not completions:
            return
        self._waiting -= completions.keys()
        columns = {name: [values[row] for row in completions] for name, values in self._columns.items()}
        prompts = [self._prompts[row] for row in completions]
        starting = self._start(list(completions), prompts, list(completions.values()), **columns)
        asyncio.run_coroutine_threadsafe(starting, self._loop)  # what it raises, the reward function raises, too


class _EndStreamer(BaseStreamer):
    """Streamer of `generate` that reports the rows of a batch at their end tokens."""

    def __init__(self, end_ids: Collection[int], on_ended: OnEnded) -> None:
        self._end_ids, self._on_ended = frozenset(end_ids), on_ended
        self._open: dict[int, list[int]] | None = None

    def put(self, value: Tensor) -> None:
        """Take the prompts, at first, and then the next token of each row."""
        if self._open is None:
            self._open = {row: [] for row in range(len(value))}
            return
        ended = {}
        for row, token in enumerate(value.tolist()):
            if row in self._open:
                self._open[row].append(token)
                if token in self._end_ids:
                    ended[row] = self._open.pop(row)
        if ended:
            self._on_ended(ended)

    def end(self) -> None:
        """Do nothing: the rows that have not ended are cut off, and their trainer has them now."""


@contextmanager
def ended_rows_of_generate(model: Any, end_ids: Collection[int], on_ended: OnEnded) -> Iterator[None]:
    """Report the rows of the one call of `model.generate` within the block."""
    with _replaced(model, "generate", partial(model.generate, streamer=_EndStreamer(end_ids, on_ended))):
        yield


@contextmanager
def ended_rows_of_vllm(llm: Any, on_ended: OnEnded) -> Iterator[None]:
    """Report the rows of the one call of vLLM's `LLM.generate` within the block, whose requests it numbers in order."""
    engine, first = llm.llm_engine, llm.request_counter.counter
    step = engine.step

    def step_and_report() -> Any:
        outputs = step()
        finished = (output for output in outputs if output.finished)
        if ended := {int(output.request_id) - first: list(output.outputs[0].token_ids) for output in finished}:
            on_ended(ended)
        return outputs

    with _replaced(engine, "step", step_and_report):
        yield


@contextmanager
def _replaced(owner: Any, name: str, method: Callable[..., Any]) -> Iterator[None]:
    """Temporarily override a method of an object; a previous override, such as FSDP's `generate`, is restored
    afterwards.
    """
    own = vars(owner).get(name)
    setattr(owner, name, method)
    try:
        yield
    finally:
        delattr(owner, name) if own is None else setattr(owner, name, own)
