"""Policy RL of an autoregressive image generator: GRPO whose rollouts are image codes, rewarded on their pixels.

TRL draws a group through `rollout_func`: the generator samples codes, its codec decodes them, and the images reach the
reward functions as responses. The loss uses the log-probabilities over the codes (`CodeGenerator.logps`), for
which the trainer overrides one method of TRL. Guidance is off in rollouts by default, as in the paper.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from datasets import Dataset
from torch import Tensor
from torch.distributed.tensor import DTensor
from transformers import PrinterCallback

from rubricworks.data.images import NO_PIXELS, png_bytes
from rubricworks.errors import UserError
from rubricworks.rubrics import Response
from rubricworks.training.checkpoints import model_digest, run_digest
from rubricworks.training.config import CodeGrpoConfig
from rubricworks.training.generators.autoregressive import CodeGenerator
from rubricworks.training.generators.image_tokenizer import Pixels
from rubricworks.training.generators.loading import is_shardable, load_generator
from rubricworks.training.machine import (
    check_one_gpu_per_process,
    check_precision,
    check_whole_policy,
    keep_freed_memory,
    rows_per_process,
)
from rubricworks.training.policy.grpo import LINE_METRICS, Reward, dataset_digest, trl_config
from rubricworks.training.policy.response_statistics import Statistic
from rubricworks.training.policy.rollouts import PolicyTrainer, StepRollouts
from rubricworks.training.policy.run import PolicyResult, open_policy_run, schedule
from rubricworks.training.processes import is_sharded, keep_whole
from rubricworks.training.progress import StepLog, quiet_libraries

_IMAGE = "image_response"
"""Field of TRL's rows that carries a rollout's image from `rollout_func` to the rewards."""


class ImageProbe(Protocol):
    """Held-out judge of images, called every so many steps."""

    every: int

    def __call__(self, step: int, draw: Callable[[Sequence[str]], list[Response]]) -> list[float | None]:
        """Scores of the current policy's images, one per prompt; None where the judge failed."""
        ...


@dataclass(frozen=True)
class BoundProbe:
    """`ImageProbe` as `watch.Probe`, by the generator's own draws."""

    probe: ImageProbe
    draw: Callable[[Sequence[str]], list[Response]]

    @property
    def every(self) -> int:
        return self.probe.every

    def __call__(self, step: int, generate: Any) -> list[float | None]:
        return self.probe(step, self.draw)


def train_image_policy(
    model_dir: str | Path,
    samples: Sequence[Mapping[str, Any]],
    rewards: Sequence[Reward],
    out_dir: Path,
    config: CodeGrpoConfig,
    *,
    seed: int = 0,
    statistics: Sequence[Statistic],
    probe: ImageProbe | None = None,
    on_step: Callable[[StepRollouts], None] | None = None,
    on_log: Callable[[StepLog], None] | None = None,
    before_checkpoint: Callable[[], None] | None = None,
) -> PolicyResult:
    """Train an autoregressive generator on the samples' rewards; the result's `model_dir` is a generator's folder.

    Args:
        samples: rows with sample_id, prompt and rubric.
        probe: held-out judge.
        statistics, on_step, on_log, before_checkpoint: as for `training.policy.grpo.train_policy`.
    Raises:
        UserError: invalid samples or options, before the first step; or no rollout can be judged for several steps.
    """
    check_one_gpu_per_process()
    optimizer, rollouts = config.optimizer, config.rollouts
    check_precision(optimizer)
    if is_sharded() and not is_shardable(Path(model_dir)):
        keep_whole()
    check_whole_policy(None, probe)
    if len(samples) < rollouts.prompts_per_step:
        raise UserError(
            f"{len(samples)} prompts with a rubric, but prompts_per_step is {rollouts.prompts_per_step}; add some"
        )
    per_process = rows_per_process(config)
    dataset = Dataset.from_list([dict(row) for row in samples])
    keep_freed_memory()
    digest = run_digest("image policy", model_digest(model_dir), schedule(config), seed, dataset_digest(dataset))
    loaded: list[CodeGenerator] = []

    def draw(prompts: Sequence[str]) -> list[Response]:
        return _draw(loaded[0], seed, rollouts.guidance, prompts)

    run = open_policy_run(
        Path(out_dir),
        digest,
        config,
        generate=_no_captions,
        probe=None if probe is None else BoundProbe(probe, draw),
        before_checkpoint=before_checkpoint,
        statistics=statistics,
        on_step=on_step,
    )
    if not run.is_trained:
        generator = load_generator(Path(model_dir), dtype=optimizer.weights, on_device=False)
        loaded.append(generator)
        args = trl_config(config, out_dir, per_process, generator.tokenizer, seed=seed)
        args.max_completion_length, args.temperature = generator.codec.length, rollouts.temperature
        with quiet_libraries():
            trainer = ImagePolicyTrainer(
                model=generator.model,
                reward_funcs=list(rewards),
                args=args,
                train_dataset=dataset,
                processing_class=generator.tokenizer,
                callbacks=run.callbacks(LINE_METRICS, on_log),
                on_rollouts=run.record,
                times=run.times,
                mean_over_group=config.loss == "group_token_mean",
                selection=config.selection,
                refill=config.refill,
                generator=generator,
                guidance=rollouts.guidance,
            )
            trainer.remove_callback(PrinterCallback)
            with generator.sharded(trainer.accelerator.device) if is_sharded() else nullcontext():
                run.train(trainer)
                state = trainer.accelerator.get_state_dict(trainer.model_wrapped) if is_sharded() else None
        if state is not None:
            state = {name: weight for name, weight in generator.model.state_dict().items() if _is_whole(weight)} | state
        if trainer.is_world_process_zero():
            dtype = torch.bfloat16 if optimizer.saves_bfloat16 else None
            generator.save(run.model_dir, dtype=dtype, state=state)
        trainer.accelerator.wait_for_everyone()
    return run.result()


class ImagePolicyTrainer(PolicyTrainer):
    """GRPO trainer of an autoregressive image generator."""

    def __init__(self, *args: Any, generator: CodeGenerator, guidance: float = 1.0, **kwargs: Any) -> None:
        self.generator, self.guidance = generator, guidance
        with warnings.catch_warnings():
            # tests/training/generators tells when the experimental interface changes.
            warnings.filterwarnings("ignore", message="You are using 'rollout_func'")
            super().__init__(*args, rollout_func=_rollouts, **kwargs)

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> Tensor:
        images = [row.pop(_IMAGE) for row in inputs]
        return super()._calculate_rewards(inputs, prompts, images, completion_ids_list)

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: Tensor,
        attention_mask: Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        **_: Any,
    ) -> tuple[Tensor, Tensor | None, None]:
        parts = [
            self.generator.logps(model, ids, mask, temperature=self.temperature)
            for ids, mask in zip(
                input_ids.split(batch_size or len(input_ids)), attention_mask.split(batch_size or len(input_ids)),
                strict=True,
            )
        ]  # fmt: skip
        logps, entropies = (torch.cat(column) for column in zip(*parts, strict=True))
        return logps, entropies if compute_entropy else None, None


def _rollouts(prompts: list[str], trainer: ImagePolicyTrainer) -> dict[str, Any]:
    """Sample one image per prompt with the current policy (TRL's `rollout_func`)."""
    generator = trainer.generator
    # Drawn from the trainer's random state, so that a resumed training draws the same.
    seed = int(torch.randint(2**62, ()).item()) + trainer.accelerator.process_index
    draw = torch.Generator(generator.model.device).manual_seed(seed)
    sampled = generator.sample(prompts, temperature=trainer.temperature, guidance=trainer.guidance, generator=draw)
    ids, mask = generator.encode_prompts(prompts)
    prompt_ids = [row[keep.bool()].tolist() for row, keep in zip(ids, mask, strict=True)]
    return {
        "prompt_ids": prompt_ids,
        "completion_ids": (sampled.codes_NL + generator.first).tolist(),
        "logprobs": None,
        _IMAGE: image_responses(generator.codec.decode(sampled.codes_NL)),
    }


def _is_whole(weight: Tensor) -> bool:
    """Return True if the weight is not sharded over processes."""
    return not isinstance(weight, DTensor)


def image_responses(images: Iterable[Pixels | None]) -> list[Response]:
    """Responses of RGB images, as PNG. An image that the decoder failed on becomes a response that no grader can read.

    Raises:
        UserError: the images have several sizes.
    """
    images = list(images)
    if len(sizes := {image.shape[:2] for image in images if image is not None}) > 1:
        named = " and ".join(f"{width}x{height}" for height, width in sorted(sizes)[:3])
        raise UserError(f"the generator's images are of {named} pixels; a generator has one size")
    return [Response.of_image(NO_PIXELS if image is None else png_bytes(image)) for image in images]


def _draw(generator: CodeGenerator, seed: int, guidance: float, prompts: Sequence[str]) -> list[Response]:
    """One image per prompt for the probe, by the same draws at every step; the trainer's random state stays."""
    draw = torch.Generator(generator.model.device).manual_seed(seed)
    return image_responses(
        generator.codec.decode(generator.sample(prompts, guidance=guidance, generator=draw).codes_NL)
    )


def _no_captions(*_: Any, **__: Any) -> list[tuple[str, int]]:
    raise RuntimeError("an image generator writes no captions")
