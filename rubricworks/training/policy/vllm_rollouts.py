"""Rollouts by vLLM that are the policy's: prompts with images, the encoder cache, and the alarm for both.

Workarounds for TRL's `VLLMGeneration` until TRL has them (besides `image_token_bias`):

- In colocate mode TRL passes prompts whose image tokens are expanded to vLLM, which expands them again (trl#6294). Each
  image's run is collapsed to the one token that vLLM expands. In server mode TRL sends image features, for which the
  runs stay expanded.
- TRL sends weights as Transformers keeps them in memory; vLLM gets them in the layout of the Hub's files.
- After new weights TRL resets the cache of prefixes, not that of encoded images (trl#7198), so vLLM would attend to
  images as earlier weights of the vision tower saw them.

Whether sampler and trainer agree is measured by TRL each step, as the mean difference of their log probabilities.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from transformers import ProcessorMixin

from rubricworks.errors import UserError
from rubricworks.training.config import VllmOptions
from rubricworks.training.hub_layout import hub_weights

LOGP_DIFFERENCE = "sampling/sampling_logp_difference/mean"
"""TRL's metric: mean absolute difference of a token's log probability between vLLM and the trainer, in nats."""
RATIO = "sampling/importance_sampling_ratio/mean"
"""TRL's metric: mean weight of the loss by the ratio of the trainer's probabilities to vLLM's, after its bounds."""
OUT_OF_BOUNDS = "sampling/importance_sampling_ratio/out_of_bounds"
"""Share of the ratios, of tokens or of responses, that the bounds cut or mask, or with correction `none` would."""
PATIENCE = 5
"""Consecutive steps above the threshold before a training stops."""


@cache
def keep_weights_on_cpu() -> None:
    """Let vLLM on a CPU load new weights. Its kernels use packed copies of the weights, which new weights would not
    reach.

    Linear layers multiply by the weights as they are; experts, of widths divisible by 32, are packed for each call.
    """
    from vllm import _custom_ops
    from vllm.model_executor.layers import utils
    from vllm.model_executor.layers.fused_moe.experts.cpu_moe import CPUUnquantizedExperts as Experts

    def keep_linear(layer: Any, remove_weight: bool = False) -> None:
        layer.cpu_linear = torch.nn.functional.linear

    def keep_experts(experts: Any, layer: Any) -> None:
        experts._use_zentorch = False

    apply = Experts.apply

    def pack_and_apply(experts: Any, *args: Any, **kwargs: Any) -> None:
        packed = {name: _custom_ops.cpu_prepack_moe_weight(kwargs[name], experts.isa) for name in ("w1", "w2")}
        apply(experts, *args, **kwargs | packed)

    utils.dispatch_cpu_unquantized_gemm = keep_linear
    Experts.process_weights_after_loading, Experts.apply = keep_experts, pack_and_apply


def mend_generation(generation: Any) -> None:
    """Wrap `_iter_named_params` of TRL's `VLLMGeneration`, and `generate` and `sync_weights` of models with images."""
    named_parameters = generation._iter_named_params

    def hub_parameters() -> Iterator[tuple[str, Tensor]]:
        return hub_weights(generation.accelerator.unwrap_model(generation.model), named_parameters())

    generation._iter_named_params = hub_parameters
    processor = generation.processing_class
    if not isinstance(processor, ProcessorMixin):
        return
    generate, sync_weights = generation.generate, generation.sync_weights

    def sync_and_forget_images() -> None:
        sync_weights()
        if generation.mode == "colocate":
            generation.llm.llm_engine.reset_encoder_cache()
        elif generation.accelerator.is_main_process:
            _reset_encoder_cache(generation.vllm_client)

    def generate_from_collapsed(
        prompts: list[list[int]], images: list[list[Any] | None] | None, *args: Any, **kwargs: Any
    ) -> tuple[Any, ...]:
        if images is None or generation.mode != "colocate":
            return generate(prompts, images, *args, **kwargs)
        token = _image_token_id(processor)
        collapsed = [
            ids if not of_prompt else collapse_images(ids, token, len(of_prompt))
            for ids, of_prompt in zip(prompts, images, strict=True)
        ]
        read, *rest = generate(collapsed, images, *args, **kwargs)
        check_expansion(prompts, read)
        return read, *rest

    generation.sync_weights, generation.generate = sync_and_forget_images, generate_from_collapsed


def collapse_images(token_ids: Sequence[int], image_token: int, images: int) -> list[int]:
    """Return a prompt with one image token per image.

    Raises:
        UserError: the prompt has not one run of image tokens per image, so no token can be assigned to an image.
    """
    collapsed = [
        token
        for position, token in enumerate(token_ids)
        if token != image_token or position == 0 or token_ids[position - 1] != image_token
    ]
    if (runs := collapsed.count(image_token)) != images:
        raise UserError(
            f"a prompt with {images} images has {runs} runs of image tokens, so vLLM cannot be told which image is "
            "which; set vllm.mode to server, or leave vllm out"
        )
    return collapsed


def check_expansion(prompts: Sequence[Sequence[int]], read: Sequence[Sequence[int]]) -> None:
    """Raise UserError unless vLLM has read the prompts that the trainer computes with."""
    for expected, actual in zip(prompts, read, strict=True):
        if list(expected) != list(actual):
            raise UserError(
                f"vLLM read a prompt with its images as {len(actual)} tokens, and the trainer as {len(expected)}: the "
                "rollouts would not be the policy's; set vllm.mode to server, or leave vllm out"
            )


def count_out_of_bounds(differences_NT: Tensor, mask_NT: Tensor, options: VllmOptions) -> Tensor:
    """Number of ratios out of the correction's bounds and number of ratios, shape [2].

    Args:
        differences_NT: log probabilities of the trainer minus vLLM's; NaN where vLLM has none, which counts as equal.
        mask_NT: tokens of the responses.
    """
    differences_NT = differences_NT.nan_to_num(nan=0.0) * mask_NT
    of_tokens = "sequence" not in options.correction
    ratios = (differences_NT[mask_NT] if of_tokens else differences_NT.sum(dim=1)).exp()
    outside = torch.zeros_like(ratios, dtype=torch.bool)
    if options.correction_max is not None:
        outside |= ratios > options.correction_max
    if options.correction_min is not None:
        outside |= ratios < options.correction_min
    return torch.stack([outside.sum(), outside.new_tensor(ratios.numel(), dtype=torch.int64)])


def image_token_bias(processor: Any) -> dict[str, Any] | None:
    """Sampling options that keep image tokens out of responses: the trainer would look for their images and fail.

    TRL sets the equivalent for Transformers' `generate` only.
    """
    token = getattr(processor, "image_token_id", None)
    return None if token is None else {"logit_bias": {int(token): -100.0}}


class SamplerAgreement:
    """Watch of the difference between vLLM's and the trainer's log probabilities, one value per step."""

    def __init__(self, limit: float | None) -> None:
        """
        Args:
            limit: highest acceptable difference in nats; None accepts every one.
        """
        self._limit = limit
        self._recent: list[float] = []

    def update(self, step: int, difference: float) -> None:
        """Record a step's difference.

        Raises:
            UserError: the difference has exceeded the limit in each of the last steps.
        """
        if self._limit is None or difference <= self._limit:
            self._recent.clear()
            return
        self._recent.append(difference)
        if len(self._recent) < PATIENCE:
            return
        mean = sum(self._recent) / len(self._recent)
        raise UserError(
            f"vLLM's log probabilities differ from the trainer's by {mean:.2g} nats a token in the last {PATIENCE} "
            f"steps (up to step {step}); more than {self._limit:g} (vllm.max_logp_difference) means that the rollouts "
            "are not the policy's. Compare the versions of vllm and trl with the tested ones, leave vllm out, or "
            "raise the limit if the model is known to need it; training continues from its last checkpoint"
        )


def _image_token_id(processor: Any) -> int:
    token = getattr(processor, "image_token_id", None)
    if token is None:
        raise UserError(
            f"{type(processor).__name__} does not name its image token, so its images cannot be passed to vLLM here; "
            "set vllm.mode to server, or leave vllm out"
        )
    return int(token)


def _reset_encoder_cache(client: Any) -> None:
    response = client.session.post(f"{client.base_url}/reset_encoder_cache")
    if response.status_code != 200:
        raise UserError(
            f"{client.base_url}/reset_encoder_cache answers {response.status_code}; start the vLLM server with "
            "VLLM_SERVER_DEV_MODE=1, version 0.22 or newer"
        )
