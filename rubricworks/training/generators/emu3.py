"""Emu3 (Transformers' `Emu3ForConditionalGeneration`) as an autoregressive image generator.

Codes are tokens of its vocabulary, `<|visual token 000000|>` and on, and the model brings its VQ decoder. An image
follows its size, `boi_token HEIGHT*WIDTH image_wrapper_token`, and each row of codes ends with `<|extra_200|>`, which
is never chosen: the model reads it, and it has no part in the log-probabilities.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoTokenizer, Emu3ForConditionalGeneration, PreTrainedTokenizerBase

from rubricworks.errors import UserError
from rubricworks.training.generators.autoregressive import CodeGenerator
from rubricworks.training.generators.image_tokenizer import Pixels, pixels_of
from rubricworks.training.load_errors import load_errors
from rubricworks.training.progress import quiet_libraries

IMAGE_ROWS = "image_rows"
"""Optional field of the model's config: rows, and columns, of codes of an image."""
_ROWS = 90
"""Rows of codes by default: Emu3's processor scales images to 518,400 pixels, in codes of 8 x 8."""


class Emu3Codec:
    """Codes of Emu3's own VQ model, in square images."""

    def __init__(self, model: Emu3ForConditionalGeneration, rows: int) -> None:
        self.vq: Any = model.model.vqmodel
        self.codes: int = model.model.vqmodel.config.codebook_size
        self.rows = rows
        self.length = rows * rows

    @property
    def _vq(self) -> Any:
        """The VQ model, which a training would put into its own mode with the rest."""
        return self.vq.eval()

    @torch.no_grad()
    def encode(self, images: Pixels) -> Tensor:
        """Codes [N, length] of RGB images [N, height, width, 3]."""
        weight = self._vq.quantize.embedding.weight
        values = torch.from_numpy(np.ascontiguousarray(images)).to(weight.device, weight.dtype) / 127.5 - 1
        sizes = torch.tensor([images.shape[1:3]] * len(images))
        tokens = self._vq.encode(values.permute(0, 3, 1, 2), sizes).image_tokens
        return torch.stack([token.flatten() for token in tokens]).cpu()

    @torch.no_grad()
    def decode(self, codes_NL: Tensor) -> list[Pixels | None]:
        """RGB image [height, width, 3] of each row of codes; None where the decoder's values are not finite."""
        codes = codes_NL.view(len(codes_NL), self.rows, self.rows).to(self._vq.quantize.embedding.weight.device)
        return pixels_of(self._vq.decode(codes).permute(0, 2, 3, 1))


class Emu3Generator(CodeGenerator):
    """Emu3, its tokenizer and its VQ model."""

    model: Emu3ForConditionalGeneration
    codec: Emu3Codec

    def __init__(self, model: Emu3ForConditionalGeneration, tokenizer: PreTrainedTokenizerBase) -> None:
        """
        Raises:
            UserError: the vocabulary lacks the codes or the end of a row, or the tokenizer the marks of an image.
        """
        rows = getattr(model.config, IMAGE_ROWS, None) or _ROWS
        super().__init__(model, tokenizer, Emu3Codec(model, rows), model.config.get_text_config().vocab_size)
        vocabulary = model.model.vocabulary_mapping
        if vocabulary.eol_token_id is None or len(vocabulary.img2bpe) < self.codec.codes:
            raise UserError(
                f"the vocabulary_map of this Emu3 has {len(vocabulary.img2bpe)} of {self.codec.codes} visual tokens, "
                "or no <|extra_200|>; it is no image generator"
            )
        marks = [getattr(tokenizer, name, None) for name in ("boi_token", "image_wrapper_token")]
        if None in marks:
            raise UserError("the tokenizer of this Emu3 has no boi_token or no image_wrapper_token")
        self._begin = f"{marks[0]}{rows}*{rows}{marks[1]}"
        self._code_ids = torch.tensor([vocabulary.img2bpe[code] for code in range(self.codec.codes)])
        self._row_end: int = vocabulary.eol_token_id
        model.model.vqmodel.requires_grad_(False)
        for module in model.modules():  # so that the trainer's log-probabilities are the sampler's
            if isinstance(getattr(module, "attention_dropout", None), float):
                module.attention_dropout = 0.0  # type: ignore[assignment]
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0

    @contextmanager
    def sharded(self, device: torch.device) -> Iterator[None]:
        vq = self.codec.vq.to(device)
        self.model.model.vqmodel = torch.nn.Identity()
        present = {type(module).__name__ for module in self.model.modules()}
        # Accelerate refuses layers to shard that the model lacks.
        self.model._no_split_modules = [name for name in self.model._no_split_modules or () if name in present]
        for tensor in vq.state_dict().values():  # only the first process may have read them
            torch.distributed.broadcast(tensor, src=0)
        try:
            yield
        finally:
            self.model.model.vqmodel = vq

    def prompt_text(self, prompt: str) -> str:
        return f"{self.tokenizer.bos_token or ''}{prompt}{self._begin}"

    def _fed_ids(self, codes_N: Tensor, place: int) -> Tensor:
        ids = self._code_ids.to(codes_N.device)[codes_N][:, None]
        if (place + 1) % self.codec.rows or place + 1 == self.codec.length:
            return ids
        return torch.cat([ids, torch.full_like(ids, self._row_end)], dim=1)

    def _forward(
        self, model: Any, ids: Tensor, mask: Tensor, positions: Tensor, keep: int, cache: Any = None, **more: Any
    ) -> tuple[Tensor, Any]:
        output = model(
            input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, logits_to_keep=keep,
            **more,
        )  # fmt: skip
        return output.logits[..., self._code_ids.to(ids.device)], output.past_key_values

    @classmethod
    def load(cls, folder: Path, *, dtype: str = "auto") -> "Emu3Generator":
        """Read a model folder.

        Raises:
            UserError: it holds no Emu3 that writes images, or one without a tokenizer.
        """
        with quiet_libraries(), load_errors(f"the generator {folder}"):
            model = Emu3ForConditionalGeneration.from_pretrained(folder, dtype=dtype)
            tokenizer = AutoTokenizer.from_pretrained(folder)
        return cls(model.eval(), tokenizer)
