"""Autoregressive generators: image codes sampled after the prompt by a language model, decoded to pixels.

`VocabularyGenerator` is for models whose vocabulary holds the image codes beside the words (Emu3, SimpleAR, the one for
laptops). Log-probabilities are over the codes alone, the distribution that is sampled from: over the whole vocabulary
they would differ by the words' share. Classifier-free guidance pushes the logits away from those of an empty prompt:
`uncond + scale * (cond - uncond)`; the paper uses it at inference only (RubricRL, section 4.1).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from rubricworks.errors import UserError
from rubricworks.training.generators.codebook import PatchCodebook
from rubricworks.training.progress import quiet_libraries

FIRST_CODE = "first_image_code"
"""Field of the model's config: id of the first image code; the others follow."""
BEGIN_IMAGE = "<image>"


class ImageTokenizer(Protocol):
    """Codec between pixels and codes."""

    @property
    def codes(self) -> int:
        """Number of codes."""
        ...

    @property
    def length(self) -> int:
        """Codes of one image."""
        ...

    def encode(self, images: NDArray[np.uint8]) -> Tensor:
        """Codes [N, length] of RGB images [N, height, width, 3]."""
        ...

    def decode(self, codes_NL: Tensor) -> NDArray[np.uint8]:
        """RGB images [N, height, width, 3] of codes."""
        ...


class SampledCodes(NamedTuple):
    """Codes of N images."""

    codes_NL: Tensor
    """0 to codes - 1."""
    logps_NL: Tensor
    """Log-probabilities without guidance, at the sampling temperature."""


class VocabularyGenerator:
    """Language model with image codes in its vocabulary, its tokenizer, and the codec of the codes."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, codec: ImageTokenizer) -> None:
        """
        Raises:
            UserError: the model does not say where its image codes begin, or has too few.
        """
        first = getattr(model.config, FIRST_CODE, None)
        if not isinstance(first, int) or first + codec.codes > model.config.vocab_size:
            raise UserError(
                f"the model's config has no {FIRST_CODE} with {codec.codes} codes behind it; it is no image generator"
            )
        self.model, self.tokenizer, self.codec, self.first = model, tokenizer, codec, first

    def encode_prompts(self, prompts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Ids and mask of prompts up to the image's first code, padded on the left, [N, tokens].

        Raises:
            UserError: a prompt leaves no room for the image.
        """
        batch = self.tokenizer([f"{prompt} {BEGIN_IMAGE}" for prompt in prompts], padding=True, return_tensors="pt")
        room = self.model.config.max_position_embeddings - self.codec.length
        if (tokens := batch["input_ids"].shape[1]) > room:
            longest = max(prompts, key=len)
            raise UserError(
                f"the prompt {longest[:60]!r}… has {tokens} tokens; at most {room} leave room for the image"
            )
        device = self.model.device
        return batch["input_ids"].to(device), batch["attention_mask"].to(device)

    def code_logits(self, logits: Tensor) -> Tensor:
        """Logits of the image codes, of logits over the vocabulary."""
        return logits[..., self.first : self.first + self.codec.codes]

    def logps(
        self, model: Any, input_ids: Tensor, attention_mask: Tensor, *, temperature: float = 1.0
    ) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the last `length` ids, which are image codes, and entropies, both [N, length].

        Args:
            model: the model, perhaps wrapped for training.
        """
        length = self.codec.length
        positions = _positions(attention_mask)
        output = model(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=positions, logits_to_keep=length + 1
        )
        logits = self.code_logits(output.logits[:, :-1]).float() / temperature
        log_probs = logits.log_softmax(dim=-1)
        codes = input_ids[:, -length:] - self.first
        entropies = -(log_probs.exp() * log_probs).sum(dim=-1)
        return log_probs.gather(-1, codes.unsqueeze(-1)).squeeze(-1), entropies

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
        ids, mask = self.encode_prompts([*prompts, *[""] * count] if guided else prompts)
        positions, cache = _positions(mask), None
        codes, logps = [], []
        try:
            for _ in range(self.codec.length):
                output = self.model(
                    input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache,
                    use_cache=True, logits_to_keep=1,
                )  # fmt: skip
                logits = self.code_logits(output.logits[:, -1]).float()
                plain = logits[:count]
                mixed = logits[count:] + guidance * (plain - logits[count:]) if guided else plain
                code = _draw(mixed, temperature, generator)
                codes.append(code)
                logps.append((plain / (temperature or 1.0)).log_softmax(dim=-1).gather(-1, code[:, None])[:, 0])
                cache = output.past_key_values
                ids = (code + self.first).repeat(2 if guided else 1)[:, None]
                mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
                positions = positions[:, -1:] + 1
        finally:
            self.model.train(was_training)
        return SampledCodes(torch.stack(codes, dim=1), torch.stack(logps, dim=1))

    def generate(
        self, prompts: Sequence[str], *, temperature: float = 1.0, guidance: float = 1.0, seed: int = 0,
        batch_size: int = 64,
    ) -> list[NDArray[np.uint8]]:  # fmt: skip
        """Generate one image per prompt, RGB [height, width, 3] each."""
        generator = torch.Generator(self.model.device).manual_seed(seed)
        images: list[NDArray[np.uint8]] = []
        for start in range(0, len(prompts), batch_size):
            chunk = prompts[start : start + batch_size]
            sampled = self.sample(chunk, temperature=temperature, guidance=guidance, generator=generator)
            images += list(self.codec.decode(sampled.codes_NL))
        return images

    def save(self, out: Path) -> Path:
        """Write a folder that `load` reads: a plain model directory and the codec."""
        from rubricworks.training.lora import save_plain_model

        folder = save_plain_model(self.model, self.tokenizer, out)
        if isinstance(self.codec, PatchCodebook):
            self.codec.save(folder)
        return folder

    @classmethod
    def load(cls, folder: Path) -> "VocabularyGenerator":
        """Read a generator with a patch codebook.

        Raises:
            UserError: the folder holds none.
        """
        try:
            with quiet_libraries():
                model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
                tokenizer = AutoTokenizer.from_pretrained(folder)
        except (OSError, ValueError) as error:
            raise UserError(f"cannot load the generator {folder}: {str(error).splitlines()[0]}") from error
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return cls(model.to(device).eval(), tokenizer, PatchCodebook.load(folder))


def is_vocabulary_generator(folder: Path) -> bool:
    """Return True if the folder's model has image codes in its vocabulary."""
    try:
        return getattr(AutoConfig.from_pretrained(folder), FIRST_CODE, None) is not None
    except (OSError, ValueError):
        return False


def _positions(mask: Tensor) -> Tensor:
    return (mask.cumsum(dim=1) - 1).clamp(min=0)


def _draw(logits: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    if not temperature:
        return logits.argmax(dim=-1)
    return torch.multinomial((logits / temperature).softmax(dim=-1), 1, generator=generator)[:, 0]
