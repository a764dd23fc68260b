"""Autoregressive generators: image codes sampled after the prompt by a language model, decoded to pixels.

Log-probabilities are over the codes alone, the distribution that is sampled from: over the whole vocabulary they would
differ by the words' share. Classifier-free guidance pushes the logits away from those of an empty prompt:
`uncond + scale * (cond - uncond)`; the paper uses it at inference only (RubricRL, section 4.1).

`CodeGenerator` is what all share. `VocabularyGenerator` is for models whose vocabulary holds the codes behind the words
(SimpleAR, the one for laptops); `janus` and `emu3` are for the models of Transformers. Another model needs the methods
`_forward` and perhaps `_fed_ids`, and a codec.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from rubricworks.errors import UserError
from rubricworks.training.generators.codecs import load_codec, save_codec
from rubricworks.training.generators.image_tokenizer import ImageTokenizer, Pixels, StoredCodec
from rubricworks.training.load_errors import load_errors
from rubricworks.training.progress import quiet_libraries

FIRST_CODE = "first_image_code"
"""Field of the model's config: id of the first image code; the others follow."""
BEGIN_IMAGE = "<image>"


class SampledCodes(NamedTuple):
    """Codes of N images."""

    codes_NL: Tensor
    """0 to codes - 1."""
    logps_NL: Tensor
    """Log-probabilities without guidance, at the sampling temperature."""


class CodeGenerator:
    """Model that writes image codes, its tokenizer, and the codec of the codes."""

    shardable: ClassVar[bool] = True
    """True if it can be sharded over processes; otherwise each trains a whole copy."""

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, codec: ImageTokenizer, first: int
    ) -> None:
        """
        Args:
            first: id of the first code in a training's rows; ids below it are the prompt's.
        """
        self.model, self.tokenizer, self.codec, self.first = model, tokenizer, codec, first

    @contextmanager
    def sharded(self, device: torch.device) -> Iterator[None]:
        """The model is sharded over processes inside the block (FSDP), and its codec whole on each of them."""
        yield

    def prompt_text(self, prompt: str) -> str:
        """Text up to the image's first code."""
        return f"{prompt} {BEGIN_IMAGE}"

    @property
    def max_tokens(self) -> int:
        """Longest sequence of the model."""
        longest: int = self.model.config.get_text_config().max_position_embeddings
        return longest

    def encode_prompts(self, prompts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Ids and mask of prompts up to the image's first code, padded on the left, [N, tokens].

        Raises:
            UserError: a prompt leaves no room for the image.
        """
        batch = self.tokenizer(
            [self.prompt_text(prompt) for prompt in prompts], padding=True, padding_side="left", return_tensors="pt"
        )
        room = self.max_tokens - len(self._image_ids(torch.zeros(1, self.codec.length, dtype=torch.long))[0])
        if (tokens := batch["input_ids"].shape[1]) > room:
            longest = max(prompts, key=len)
            raise UserError(
                f"the prompt {longest[:60]!r}… has {tokens} tokens; at most {room} leave room for the image"
            )
        device = self.model.device
        return batch["input_ids"].to(device), batch["attention_mask"].to(device)

    def _with_empty_prompts(self, prompts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Ids and mask of the prompts, and below them of as many empty ones."""
        return self.encode_prompts([*prompts, *[""] * len(prompts)])

    def _forward(
        self, model: Any, ids: Tensor, mask: Tensor, positions: Tensor, keep: int, cache: Any = None, **more: Any
    ) -> tuple[Tensor, Any]:
        """Logits over the codes at the last `keep` positions, [N, keep, codes], and the cache.

        Args:
            model: the model, perhaps wrapped for training.
            ids: prompts and what `_fed_ids` gave.
        """
        raise NotImplementedError

    def _fed_ids(self, codes_N: Tensor, place: int) -> Tensor:
        """Ids that the model reads for the codes at one place of the image, [N, 1 or more]."""
        return (codes_N + self.first)[:, None]

    def _image_ids(self, codes_NL: Tensor) -> Tensor:
        """Ids that the model reads for whole images."""
        return torch.cat([self._fed_ids(codes_NL[:, place], place) for place in range(codes_NL.shape[1])], dim=1)

    def logps(
        self, model: Any, input_ids: Tensor, attention_mask: Tensor, *, temperature: float = 1.0
    ) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the last `length` ids, which are image codes, and entropies, both [N, length].

        Args:
            model: the model, perhaps wrapped for training.
        """
        length = self.codec.length
        codes_NL = input_ids[:, -length:] - self.first
        fed = [self._fed_ids(codes_NL[:, place], place) for place in range(length)]
        image = torch.cat(fed, dim=1)
        # The logits that choose a code stand before what the model reads for it.
        places = torch.tensor([0, *(ids.shape[1] for ids in fed[:-1])], device=image.device).cumsum(dim=0)
        ids = torch.cat([input_ids[:, :-length], image], dim=1)
        mask = torch.cat([attention_mask[:, :-length], torch.ones_like(image)], dim=1)
        logits, _ = self._forward(model, ids, mask, _positions(mask), image.shape[1] + 1)
        log_probs = (logits[:, places].float() / temperature).log_softmax(dim=-1)
        entropies = -(log_probs.exp() * log_probs).sum(dim=-1)
        return log_probs.gather(-1, codes_NL.unsqueeze(-1)).squeeze(-1), entropies

    @torch.no_grad()
    def sample(
        self, prompts: Sequence[str], *, temperature: float = 1.0, guidance: float = 1.0, generator: torch.Generator
    ) -> SampledCodes:
        """Sample one image per prompt; temperature 0 takes the likeliest code, guidance 1 is none.

        The model's mode is restored.
        """
        count, guided = len(prompts), guidance != 1.0
        was_training = self.model.training
        self.model.eval()
        ids, mask = self._with_empty_prompts(prompts) if guided else self.encode_prompts(prompts)
        positions, cache = _positions(mask), None
        codes, logps = [], []
        try:
            for place in range(self.codec.length):
                logits, cache = self._forward(self.model, ids, mask, positions, 1, cache, use_cache=True)
                logits = logits[:, -1].float()
                plain = logits[:count]
                mixed = logits[count:] + guidance * (plain - logits[count:]) if guided else plain
                code = _draw(mixed, temperature, generator)
                codes.append(code)
                logps.append((plain / (temperature or 1.0)).log_softmax(dim=-1).gather(-1, code[:, None])[:, 0])
                ids = self._fed_ids(code.repeat(2 if guided else 1), place)
                mask = torch.cat([mask, torch.ones_like(ids)], dim=1)
                positions = positions[:, -1:] + 1 + torch.arange(ids.shape[1], device=ids.device)
        finally:
            self.model.train(was_training)
        return SampledCodes(torch.stack(codes, dim=1), torch.stack(logps, dim=1))

    def generate(
        self, prompts: Sequence[str], *, temperature: float = 1.0, guidance: float = 1.0, seed: int = 0,
        batch_size: int = 64,
    ) -> list[Pixels | None]:  # fmt: skip
        """Generate one image per prompt, RGB [height, width, 3] each; None where the decoder fails on its codes."""
        generator = torch.Generator(self.model.device).manual_seed(seed)
        images: list[Pixels | None] = []
        for start in range(0, len(prompts), batch_size):
            chunk = prompts[start : start + batch_size]
            sampled = self.sample(chunk, temperature=temperature, guidance=guidance, generator=generator)
            images += list(self.codec.decode(sampled.codes_NL))
        return images

    def save(self, out: Path, *, dtype: torch.dtype | None = None, state: dict[str, Any] | None = None) -> Path:
        """Write a folder that `loading.load_generator` reads.

        Args:
            dtype: precision of the saved weights; the model's own by default.
            state: the gathered weights of a model sharded over processes; the model's own by default.
        """
        from rubricworks.training.lora import save_plain_model

        return save_plain_model(self.model, self.tokenizer, out, dtype=dtype, state=state)


class VocabularyGenerator(CodeGenerator):
    """Language model with image codes behind the words in its vocabulary."""

    codec: StoredCodec

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, codec: StoredCodec) -> None:
        """
        Raises:
            UserError: the model does not say where its image codes begin, or has too few.
        """
        first = getattr(model.config, FIRST_CODE, None)
        if not isinstance(first, int) or first + codec.codes > model.config.vocab_size:
            raise UserError(
                f"the model's config has no {FIRST_CODE} with {codec.codes} codes behind it; it is no image generator"
            )
        super().__init__(model, tokenizer, codec, first)

    def code_logits(self, logits: Tensor) -> Tensor:
        """Logits of the image codes, of logits over the vocabulary."""
        return logits[..., self.first : self.first + self.codec.codes]

    def _forward(
        self, model: Any, ids: Tensor, mask: Tensor, positions: Tensor, keep: int, cache: Any = None, **more: Any
    ) -> tuple[Tensor, Any]:
        output = model(
            input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, logits_to_keep=keep,
            **more,
        )  # fmt: skip
        return self.code_logits(output.logits), output.past_key_values

    def save(self, out: Path, *, dtype: torch.dtype | None = None, state: dict[str, Any] | None = None) -> Path:
        folder = super().save(out, dtype=dtype, state=state)
        save_codec(self.codec, folder)
        return folder

    @classmethod
    def load(cls, folder: Path, *, dtype: str = "auto") -> "VocabularyGenerator":
        """Read a generator and its codec.

        Raises:
            UserError: the folder holds none.
        """
        with quiet_libraries(), load_errors(f"the generator {folder}"):
            model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
            tokenizer = AutoTokenizer.from_pretrained(folder)
        return cls(model.eval(), tokenizer, load_codec(folder))


def _positions(mask: Tensor) -> Tensor:
    return (mask.cumsum(dim=1) - 1).clamp(min=0)


def _draw(logits: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    if not temperature:
        return logits.argmax(dim=-1)
    return torch.multinomial((logits / temperature).softmax(dim=-1), 1, generator=generator)[:, 0]
