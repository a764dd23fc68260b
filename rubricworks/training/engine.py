"""Texts of one model by the engine that a stage's configuration names."""

import gc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from transformers import PreTrainedModel

from rubricworks.training.config import EngineOptions
from rubricworks.training.continued_answers import Asked, continue_answers
from rubricworks.training.generate import Processor, generate_captions, load_model
from rubricworks.training.processing import Messages
from rubricworks.training.vllm_engine import VllmEngine, check_vllm_installed

SERVED_NAME = "model"
"""Name in requests of the models that one server serves in turn."""


class Engine(Protocol):
    """Model in memory that answers prompts; `close` frees the memory."""

    processor: Processor

    def __call__(
        self,
        images: Sequence[bytes | None],
        prompts: Sequence[str | Messages],
        *,
        max_new_tokens: int,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> list[tuple[str, int]]:
        """Return one text per prompt, with its token count, end token included. Temperature 0 is greedy."""
        ...

    def load(self, model: str | Path) -> None:
        """Answer as another model: vLLM replaces the weights where nothing else differs.

        Raises:
            UserError: the model cannot be loaded.
        """
        ...

    def close(self) -> None: ...


class ServedEngine(Protocol):
    """Engine behind OpenAI's protocol."""

    @property
    def url(self) -> str:
        """Base URL."""
        ...

    def load(self, folder: str | Path) -> None:
        """Switch to another model. `url` changes if the server has to restart."""
        ...


def check_engine(options: EngineOptions) -> None:
    """Raise UserError if the engine is not installed, for a stage that uses it after hours of other work."""
    if options.kind == "vllm":
        check_vllm_installed()


def load_engine(model: str | Path, options: EngineOptions, *, batch_size: int) -> Engine:
    """Load a model directory or a Hub name into the engine.

    Args:
        batch_size: prompts per batch of `generate`; vLLM chooses its own batches.
    Raises:
        UserError: the model cannot be loaded, or the engine is not installed.
    """
    return VllmEngine(model, options) if options.kind == "vllm" else GenerateEngine(model, batch_size)


class GenerateEngine:
    """Engine that writes texts with the method `generate` of Transformers."""

    def __init__(self, model: str | Path, batch_size: int) -> None:
        self._model: PreTrainedModel | None = None
        self._batch_size = batch_size
        self.load(model)

    def __call__(
        self,
        images: Sequence[bytes | None],
        prompts: Sequence[str | Messages],
        *,
        max_new_tokens: int,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> list[tuple[str, int]]:
        assert self._model is not None, "the engine is closed"
        return generate_captions(
            self._model,
            self.processor,
            images,
            prompts,
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            batch_size=self._batch_size,
            seed=seed,
        )

    def continue_answers(
        self, batch: Sequence[Asked], others_wait: Callable[[], bool], on_answer: Callable[[int, str, int], None]
    ) -> list[tuple[int, ...] | None]:
        """Answer greedily, and leave the long answers of a batch for the next one when others wait."""
        assert self._model is not None, "the engine is closed"
        options: dict[str, Any] = {"places": self._batch_size, "others_wait": others_wait, "on_answer": on_answer}
        return continue_answers(self._model, self.processor, batch, **options)

    def load(self, model: str | Path) -> None:
        if self._model is not None:
            self.close()  # one at a time in memory
        self._model, self.processor = load_model(model)

    def close(self) -> None:
        self._model = None
        gc.collect()
