"""Janus (Transformers' `JanusForConditionalGeneration`) as an autoregressive image generator.

Codes have their own embeddings and head, separate from the vocabulary, and the model includes its VQ decoder. An image
follows `boi_token`. For guidance Janus replaces the prompt by padding that it attends to, and keeps the first token and
`boi_token`; so do we. What understands images is frozen, and so is the VQ model.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoTokenizer, JanusForConditionalGeneration, PreTrainedTokenizerBase

from rubricworks.errors import UserError
from rubricworks.training.generators.autoregressive import CodeGenerator
from rubricworks.training.generators.image_tokenizer import Pixels, pixels_of
from rubricworks.training.load_errors import load_errors
from rubricworks.training.progress import quiet_libraries


class JanusCodec:
    """Codes of Janus' own VQ model."""

    def __init__(self, model: JanusForConditionalGeneration) -> None:
        self._model = model
        self.codes: int = model.model.vqmodel.config.num_embeddings
        self.length: int = model.model.vqmodel.config.num_patches**2

    @property
    def _vq(self) -> Any:
        """The VQ model, which a training would put into its own mode with the rest."""
        return self._model.model.vqmodel.eval()

    @torch.no_grad()
    def encode(self, images: Pixels) -> Tensor:
        """Codes [N, length] of RGB images [N, height, width, 3]."""
        weight = self._vq.quant_conv.weight
        values = torch.from_numpy(np.ascontiguousarray(images)).to(weight.device, weight.dtype) / 127.5 - 1
        tokens: Tensor = self._vq.encode(values.permute(0, 3, 1, 2)).image_tokens
        return tokens.view(len(images), -1).cpu()

    @torch.no_grad()
    def decode(self, codes_NL: Tensor) -> list[Pixels | None]:
        """RGB image [height, width, 3] of each row of codes; None where the decoder's values are not finite."""
        values = self._vq.decode(codes_NL.to(self._vq.quant_conv.weight.device))
        return pixels_of(values.permute(0, 2, 3, 1))


class JanusGenerator(CodeGenerator):
    """Janus, its tokenizer and its VQ model."""

    model: JanusForConditionalGeneration
    shardable = False  # its parts are called one by one, and FSDP gathers the weights of a whole model's call

    def __init__(self, model: JanusForConditionalGeneration, tokenizer: PreTrainedTokenizerBase) -> None:
        """
        Raises:
            UserError: the tokenizer names no token that begins an image.
        """
        super().__init__(model, tokenizer, JanusCodec(model), model.config.get_text_config().vocab_size)
        boi = getattr(tokenizer, "boi_token", None)
        if boi is None:
            raise UserError("the tokenizer of this Janus has no boi_token, after which an image begins")
        self.boi: str = boi
        inner = model.model
        for part in (inner.vqmodel, inner.vision_model, inner.aligner):
            part.requires_grad_(False)

    def prompt_text(self, prompt: str) -> str:
        if self.tokenizer.chat_template is None:
            return prompt + self.boi
        turn: Any = {"role": "user", "content": [{"type": "text", "text": prompt}]}
        text = self.tokenizer.apply_chat_template([turn], add_generation_prompt=True, tokenize=False)
        return f"{text}{self.boi}"

    def _with_empty_prompts(self, prompts: Any) -> tuple[Tensor, Tensor]:
        ids, mask = self.encode_prompts(prompts)
        marks = torch.tensor(
            [self.tokenizer.convert_tokens_to_ids(self.boi), self.tokenizer.bos_token_id or -1], device=ids.device
        )
        padding = torch.full_like(ids, int(self.tokenizer.pad_token_id or 0))
        return torch.cat([ids, torch.where(torch.isin(ids, marks), ids, padding)]), mask.repeat(2, 1)

    def _forward(
        self, model: Any, ids: Tensor, mask: Tensor, positions: Tensor, keep: int, cache: Any = None, **more: Any
    ) -> tuple[Tensor, Any]:
        inner = self.model.model
        words = self.model.get_input_embeddings()(ids.clamp(max=self.first - 1))
        codes = self.model.prepare_embeddings_for_image_generation((ids - self.first).clamp(min=0))
        output = model(
            inputs_embeds=torch.where((ids >= self.first)[..., None], codes, words),
            attention_mask=mask, position_ids=positions, past_key_values=cache,
            # The head of the vocabulary is not needed; hidden states end with those of the last layer, normalised.
            logits_to_keep=1, output_hidden_states=True, **more,
        )  # fmt: skip
        return inner.generation_head(output.hidden_states[-1][:, -keep:]), output.past_key_values

    @classmethod
    def load(cls, folder: Path, *, dtype: str = "auto") -> "JanusGenerator":
        """Read a model folder.

        Raises:
            UserError: it holds no Janus, or one without a tokenizer.
        """
        with quiet_libraries(), load_errors(f"the generator {folder}"):
            model = JanusForConditionalGeneration.from_pretrained(folder, dtype=dtype)
            tokenizer = AutoTokenizer.from_pretrained(folder)
        return cls(model.eval(), tokenizer)
