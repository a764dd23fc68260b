"""Policy RL: GRPO on vision-language and text models, with async reward functions.

The trainer is TRL's, with these additions: each step's rollouts are passed to the caller, rubrics can be refreshed with
the current policy, a held-out probe and an alarm detect reward hacking, and the result is a plain model directory.
Training resumes from its last complete checkpoint; on a CPU it ends with the same weights as without interruption.
"""

import hashlib
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import PrinterCallback
from trl import GRPOConfig

from rubricworks.errors import UserError
from rubricworks.training.checkpoints import model_digest, run_digest
from rubricworks.training.config import ColocatedVllm, GrpoConfig, TextGrpoConfig, TextRollouts, VllmServer
from rubricworks.training.generate import Processor, check_reads_images, decode_image, generate_captions, load_model
from rubricworks.training.lora import add_adapters, save_trained_model
from rubricworks.training.machine import (
    check_one_gpu_per_process,
    check_precision,
    check_sharding,
    check_vllm,
    check_whole_policy,
    keep_freed_memory,
    rows_per_process,
    vllm_url,
)
from rubricworks.training.milestones import Milestones
from rubricworks.training.optimizer import optimizer_arguments
from rubricworks.training.policy.ended_rows import Start
from rubricworks.training.policy.response_statistics import TEXT_STATISTICS, Statistic
from rubricworks.training.policy.rollouts import Penalty, PolicyTrainer, StepRollouts
from rubricworks.training.policy.run import PolicyResult, open_policy_run, schedule
from rubricworks.training.policy.shared_images import encode_images_once
from rubricworks.training.policy.vllm_rollouts import (
    LOGP_DIFFERENCE,
    OUT_OF_BOUNDS,
    RATIO,
    image_token_bias,
    keep_weights_on_cpu,
)
from rubricworks.training.policy.watch import Probe, Refresh
from rubricworks.training.processes import is_rehearsal
from rubricworks.training.processing import template_options, text_messages, tokenizer_of
from rubricworks.training.progress import StepLog, quiet_libraries
from rubricworks.training.text_parameters import freeze_unreached_by_text

Reward = Callable[..., Awaitable[Sequence[float | None]]]
"""`await reward(prompts=…, completions=…, sample_id=[…], rubric=[…], …)`: a number per completion, or None if not
judged.

The keywords are the samples' columns, with `image` decoded and `image_bytes` encoded.
"""


def train_policy(
    model_dir: str | Path,
    samples: Dataset | Iterable[Mapping[str, Any]],
    reward: Reward | Sequence[Reward],
    out_dir: Path,
    config: TextGrpoConfig,
    *,
    seed: int = 0,
    weights: Sequence[float] | None = None,
    reads: str = "rubric",
    penalty: Penalty | None = None,
    start: Start | None = None,
    on_step: Callable[[StepRollouts], None] | None = None,
    on_log: Callable[[StepLog], None] | None = None,
    refresh: Refresh | None = None,
    probe: Probe | None = None,
    before_checkpoint: Callable[[], None] | None = None,
    statistics: Sequence[Statistic] = TEXT_STATISTICS,
) -> PolicyResult:
    """Train the model on the samples' rewards; the result's `model_dir` is a plain Hugging Face directory.

    Args:
        samples: rows with sample_id, prompt, rubric, image (encoded bytes) and the other columns of the reward. Rows
            without the column `image` are text only, and a prompt may be a whole conversation.
        reward: one function, or several, combined by `config.advantages`. A rollout that any of them cannot judge
            counts as not judged.
        weights: one per reward function, 1 by default.
        reads: column that the reward grades by.
        penalty: subtracted from the advantages of judged rollouts.
        start: starts the judge calls of rollouts that end while others of their step are still being sampled; the
            reward functions then take the results.
        on_step: receives each step's rollouts; a step repeated after a kill is passed again under the same number.
        before_checkpoint: called before a checkpoint is written, to commit the tables of its steps.
        statistics: statistics of the responses that the alarm watches.
        refresh, probe: see `rubricworks.training.policy.watch`.
    Raises:
        UserError: invalid samples or options, before the first step; or no rollout can be judged for several steps.
    """
    out_dir = Path(out_dir)
    check_one_gpu_per_process()
    optimizer, vllm = config.optimizer, config.rollouts.vllm
    check_precision(optimizer)
    check_vllm(vllm)
    if isinstance(vllm, ColocatedVllm) and is_rehearsal() and not torch.cuda.is_available():
        keep_weights_on_cpu()
    check_sharding(optimizer.lora)
    check_whole_policy(refresh, probe)
    per_process = rows_per_process(config)
    rewards = list(reward) if isinstance(reward, Sequence) else [reward]
    if weights is not None and len(weights) != len(rewards):
        raise UserError(f"there are {len(weights)} weights for {len(rewards)} reward functions; give one each")
    dataset = _dataset(samples, config, reads)
    keep_freed_memory()
    every = refresh.every if refresh else 0
    settings = (schedule(config), seed, weights, every)
    digest = run_digest("policy", model_digest(model_dir), *settings, dataset_digest(dataset))
    generate = PolicyGenerate(config)
    run = open_policy_run(
        out_dir,
        digest,
        config,
        generate=generate,
        refresh=refresh,
        probe=probe,
        before_checkpoint=before_checkpoint,
        statistics=statistics,
        on_step=on_step,
    )
    if not run.is_trained:
        model, processor = load_model(model_dir, dtype=optimizer.weights, on_device=False)
        check_reads_images(processor, "image" in dataset.column_names)
        encode_images_once(model)
        tokenizer_of(processor).padding_side = "left"
        trained = model if optimizer.lora is None else add_adapters(model, optimizer.lora, seed=seed)
        if "image" not in dataset.column_names:
            freeze_unreached_by_text(trained, processor)
        with quiet_libraries():
            trainer = PolicyTrainer(
                model=trained,
                reward_funcs=rewards,
                args=trl_config(config, out_dir, per_process, processor, seed=seed, weights=weights),
                train_dataset=dataset,
                processing_class=processor,
                callbacks=run.callbacks(LINE_METRICS, on_log),
                on_rollouts=run.record,
                mean_over_group=config.loss == "group_token_mean",
                penalty=penalty,
                start=start,
                times=run.times,
                selection=config.selection,
                refill=config.refill,
                sampler=vllm,
            )
            trainer.remove_callback(PrinterCallback)
            if config.milestone_every:
                trainer.add_callback(
                    Milestones(
                        config.milestone_every,
                        out_dir,
                        partial(save_trained_model, trainer, processor, bf16=optimizer.saves_bfloat16),
                    )
                )
            generate.attach(trainer.accelerator.unwrap_model(trainer.model), processor)
            run.train(trainer)
        save_trained_model(trainer, processor, run.model_dir, bf16=optimizer.saves_bfloat16)
    return run.result()


LINE_METRICS = {
    "reward": "reward",
    "completions/mean_length": "tokens",
    "entropy": "entropy",
    "learning_rate": "lr",
    LOGP_DIFFERENCE: "logp difference",
    RATIO: "ratio",
    OUT_OF_BOUNDS: "out of bounds",
    "refill/drawn": "prompts drawn",
    "refill/missing": "prompts missing",
}


def trl_config(
    config: GrpoConfig,
    out_dir: Path,
    per_process: int,
    processor: Processor,
    *,
    seed: int,
    weights: Sequence[float] | None = None,
) -> GRPOConfig:
    optimizer, rollouts = config.optimizer, config.rollouts
    rows = optimizer.rows_per_pass or per_process
    length = {"max_steps": config.steps} if config.steps is not None else {"num_train_epochs": config.epochs}
    return GRPOConfig(
        output_dir=str(out_dir),
        **length,
        per_device_train_batch_size=rows,
        gradient_accumulation_steps=per_process // rows,
        steps_per_generation=per_process // rows * config.steps_per_generation,
        num_iterations=config.num_iterations,
        num_generations=rollouts.group_size,
        **(_sampling(rollouts, processor) if isinstance(rollouts, TextRollouts) else {}),
        **optimizer_arguments(optimizer),
        loss_type="dr_grpo" if config.loss == "group_token_mean" else config.loss,
        scale_rewards=_SCALES[config.advantages],
        multi_objective_aggregation="normalize_then_sum" if config.advantages == "c-gdpo" else "sum_then_normalize",
        reward_weights=None if weights is None else list(weights),
        beta=config.beta,
        epsilon=config.epsilon,
        epsilon_high=config.epsilon_high,
        delta=config.delta,
        importance_sampling_level=config.importance_level,
        seed=seed,
        save_strategy="steps",
        save_steps=config.checkpoint_every,
        save_total_limit=2,
        logging_steps=config.log_every,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        disable_tqdm=True,
        report_to="none",
    )


def _sampling(rollouts: TextRollouts, processor: Processor) -> dict[str, Any]:
    """Arguments of TRL's trainer for the sampling of texts."""
    return {
        "max_completion_length": rollouts.max_new_tokens,
        "chat_template_kwargs": template_options(processor),
        "temperature": rollouts.temperature,
        "top_p": rollouts.top_p,
        "mask_truncated_completions": rollouts.mask_truncated,
        **(_vllm_sampling(rollouts.vllm, processor) if rollouts.vllm else {}),
    }


def _vllm_sampling(vllm: ColocatedVllm | VllmServer, processor: Processor) -> dict[str, Any]:
    place: dict[str, Any] = (
        {"vllm_server_base_url": vllm_url(vllm)}
        if isinstance(vllm, VllmServer)
        else {
            "vllm_gpu_memory_utilization": vllm.gpu_memory,
            "vllm_tensor_parallel_size": vllm.tensor_parallel,
            "vllm_enable_sleep_mode": vllm.sleep,
        }
    )
    # Without its correction TRL would not measure the difference either, so `none` cuts every ratio to 1; TRL asks for
    # different bounds, and these two are 1 in the tensors' precision.
    none = vllm.correction == "none"
    return {
        "use_vllm": True,
        "vllm_mode": vllm.mode,
        **place,
        "vllm_max_model_length": vllm.max_model_length,
        "vllm_importance_sampling_correction": True,
        "vllm_importance_sampling_mode": "token_truncate" if none else vllm.correction,
        "vllm_importance_sampling_clip_max": 1.0 if none else vllm.correction_max,
        "vllm_importance_sampling_clip_min": math.nextafter(1, 0) if none else vllm.correction_min,
        "generation_kwargs": image_token_bias(processor),
    }


_SCALES = {"group": "group", "batch": "batch", "centred": "none", "c-gdpo": "group"}


def _dataset(samples: Dataset | Iterable[Mapping[str, Any]], config: TextGrpoConfig, reads: str) -> Dataset:
    dataset = samples if isinstance(samples, Dataset) else Dataset.from_list([dict(row) for row in samples])
    prompts = config.rollouts.prompts_per_step
    if len(dataset) < prompts * config.steps_per_generation:
        steps = f" and steps_per_generation {config.steps_per_generation}" if config.steps_per_generation > 1 else ""
        raise UserError(
            f"{len(dataset)} samples with a {reads}, but prompts_per_step is {prompts}{steps}; add samples or lower it"
        )
    if missing := [column for column in ("sample_id", "prompt", reads) if column not in dataset.column_names]:
        raise UserError(f"the training samples have no column {', '.join(missing)}")
    return dataset.with_transform(_as_conversations)


def _as_conversations(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Transform applied when a batch is read: images stay encoded on disk and in memory until then."""
    images = rows.get("image")
    pixels = {"image": [decode_image(image) for image in images], "image_bytes": images} if images is not None else {}
    return {**rows, **pixels, "prompt": [text_messages(prompt) for prompt in rows["prompt"]]}


def dataset_digest(dataset: Dataset) -> str:
    """Digest of a dataset without its images."""
    digest = hashlib.sha256()
    texts = [column for column in dataset.column_names if column != "image"]
    for row in dataset.with_format(None).select_columns(texts):
        digest.update(repr(sorted(row.items())).encode())
    return digest.hexdigest()


class PolicyGenerate:
    """`watch.Generate` with the current policy; usable after `attach`."""

    def __init__(self, config: TextGrpoConfig) -> None:
        self._config = config
        self._policy: tuple[Any, Processor] | None = None

    def attach(self, model: Any, processor: Processor) -> None:
        self._policy = model, processor

    def __call__(
        self, images: Sequence[bytes], prompts: Sequence[str], *, temperature: float = 0.0, seed: int = 0
    ) -> list[tuple[str, int]]:
        assert self._policy is not None, "no model is attached yet"
        return generate_captions(
            *self._policy,
            images,
            prompts,
            max_new_tokens=self._config.rollouts.max_new_tokens,
            temperature=temperature,
            top_p=self._config.rollouts.top_p,
            batch_size=self._config.optimizer.rows_per_pass or 64,
            seed=seed,
        )
