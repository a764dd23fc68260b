"""Policy RL of a flow-matching generator: DiffusionNFT (arXiv 2509.16117), as RubricRL uses it (appendix 0.A.4).

A step draws a group of images per prompt with the sampling form of the transformer, has them rewarded, and fits the
trained form to the images at some noise levels: towards those with a reward above their prompt's mean, away from those
below (`rl.diffusion_nft_loss`). Afterwards the sampling form follows the trained one by a moving average. Checkpoints
hold both forms, the average that is saved, and the optimizer; on a CPU a resumed training ends with the same weights.

Each process keeps a copy of the model, draws its share of a step's groups and fits its share of their images. The drawn
samples depend only on the seed and the step, so several processes take the same step as one.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.utils.data import Sampler
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from rubricworks.errors import UserError
from rubricworks.rl import diffusion_nft_loss, optimality_probability
from rubricworks.rubrics import Response
from rubricworks.training.checkpoints import model_digest, run_digest
from rubricworks.training.generators.config import DiffusionNftConfig
from rubricworks.training.generators.files import ADAPTER, INDEX_FILE
from rubricworks.training.generators.flow_matching.generator import FlowGenerator, noisy_latents, rows_of
from rubricworks.training.generators.flow_matching.rewarded_groups import GroupDraws, RewardedGroups, group_advantages
from rubricworks.training.generators.flow_matching.velocity_forms import VelocityForms
from rubricworks.training.generators.image_generators import load_flow_generator
from rubricworks.training.generators.image_tokenizer import pixels_of
from rubricworks.training.generators.policy import BoundProbe, ImageProbe, image_responses
from rubricworks.training.machine import check_one_gpu_per_process, check_precision, keep_freed_memory
from rubricworks.training.optimizer import optimizer_arguments
from rubricworks.training.policy.grpo import Reward
from rubricworks.training.policy.response_statistics import Statistic
from rubricworks.training.policy.rollouts import StepRollouts, UnjudgedSteps
from rubricworks.training.policy.run import PolicyResult, open_policy_run, schedule
from rubricworks.training.processes import gather, is_main, is_sharded, keep_whole, process_count, process_index
from rubricworks.training.progress import StepLog, StepTimes, quiet_libraries

_WEIGHTS = "forms.safetensors"
_LINE_METRICS = {"reward": "reward", "loss": "loss", "drift": "drift", "learning_rate": "lr"}


def train_diffusion_policy(
    model_dir: str | Path,
    samples: Sequence[Mapping[str, Any]],
    rewards: Sequence[Reward],
    out_dir: Path,
    config: DiffusionNftConfig,
    *,
    seed: int = 0,
    statistics: Sequence[Statistic],
    probe: ImageProbe | None = None,
    on_step: Callable[[StepRollouts], None] | None = None,
    on_log: Callable[[StepLog], None] | None = None,
    before_checkpoint: Callable[[], None] | None = None,
) -> PolicyResult:
    """Train a flow-matching generator on the samples' rewards; the result's `model_dir` is a generator's folder.

    Args:
        samples: rows with sample_id, prompt and rubric.
        probe: held-out judge of the sampling policy's images.
        statistics, on_step, on_log, before_checkpoint: as for `training.policy.grpo.train_policy`.
    Raises:
        UserError: invalid samples or options, before the first step; or no rollout can be judged for several steps.
    """
    out_dir, optimizer = Path(out_dir), config.optimizer
    check_one_gpu_per_process()
    check_precision(optimizer)
    if is_sharded():
        keep_whole()
    prompts = config.rollouts.prompts_per_step
    if prompts * config.steps_per_generation % process_count():
        raise UserError(
            f"prompts_per_step {prompts} does not divide over {process_count()} processes; make it a multiple of their "
            "number"
        )
    if len(samples) < prompts * config.steps_per_generation:
        raise UserError(f"{len(samples)} prompts with a rubric, but prompts_per_step is {prompts}; add some")
    rows = [dict(sample) for sample in samples]
    keep_freed_memory()
    base = model_digest(model_dir)
    digest = run_digest("diffusion policy", base, schedule(config), seed, rows)
    trainers: list[DiffusionPolicyTrainer] = []

    def draw(prompts: Sequence[str]) -> list[Response]:
        return trainers[0].draw_for_probe(prompts)

    run = open_policy_run(
        out_dir,
        digest,
        config,
        generate=_no_captions,
        probe=None if probe is None else BoundProbe(probe, draw),
        before_checkpoint=before_checkpoint,
        statistics=statistics,
        on_step=on_step,
    )
    if not run.is_trained:
        generator = load_flow_generator(Path(model_dir), config.rollouts.sampling, dtype=optimizer.weights)
        with quiet_libraries():
            trainer = DiffusionPolicyTrainer(
                generator,
                rewards,
                rows,
                config,
                seed=seed,
                out_dir=out_dir,
                on_rollouts=run.record,
                times=run.times,
                callbacks=run.callbacks(_LINE_METRICS, on_log),
            )
            trainers.append(trainer)
            with trainer:
                run.train(trainer)
        trainer.forms.use_average()
        if is_main():
            if optimizer.lora and (Path(model_dir) / INDEX_FILE).is_file():
                trainer.forms.save_adapter(out_dir / ADAPTER, Path(model_dir), base)
            trainer.forms.merge()
            generator.save(run.model_dir, dtype=torch.bfloat16 if optimizer.saves_bfloat16 else None)
        trainer.accelerator.wait_for_everyone()
    return run.result()


class _Generation(NamedTuple):
    """Images of a generation that the loss takes."""

    latents: Tensor
    levels: Tensor
    """Noise levels of the sampling."""
    conditions: Mapping[str, Tensor]
    """One row per prompt."""
    prompt_N: Tensor
    """Row of an image's prompt."""
    r_N: Tensor
    """Optimality probability."""


class DiffusionPolicyTrainer(Trainer):
    """Transformers' trainer whose step is DiffusionNFT's; a context manager around its training.

    Its step calls parts of the model, not the model, so that DDP's gradients do not meet; it adds them up itself.
    """

    def __init__(
        self,
        generator: FlowGenerator,
        rewards: Sequence[Reward],
        samples: Sequence[Mapping[str, Any]],
        config: DiffusionNftConfig,
        *,
        seed: int,
        out_dir: Path,
        on_rollouts: Callable[[StepRollouts], None],
        callbacks: Sequence[TrainerCallback] = (),
        times: StepTimes | None = None,
    ) -> None:
        self.generator, self.config, self.seed, self.on_rollouts = generator, config, seed, on_rollouts
        self.guidance = config.rollouts.guidance
        self.forms = VelocityForms(
            generator,
            config.optimizer.lora,
            keep_initial=config.kl_weight > 0,
            ema_decay=config.ema_decay,
            seed=seed,
        )
        if config.optimizer.gradient_checkpointing:
            self.forms.transformer.enable_gradient_checkpointing()
        times = times or StepTimes()
        self._draws = GroupDraws(
            generator, self.forms, rewards, config, seed=seed, autocast=self._autocast, times=times
        )
        self._unjudged = UnjudgedSteps()
        self._generation: list[_Generation] = []
        self._metrics: dict[str, list[float]] = {}
        self._order = _PromptOrder(len(samples), config, seed)
        super().__init__(
            model=self.forms,
            args=_arguments(config, out_dir, len(samples), seed),
            train_dataset=list(samples),
            data_collator=_rows,
            callbacks=[*callbacks, _Follow(self.forms, config)],
        )
        self.remove_callback(PrinterCallback)

    def __enter__(self) -> "DiffusionPolicyTrainer":
        return self

    def __exit__(self, *error: object) -> None:
        self._draws.__exit__(*error)

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        return self._order

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """One optimizer step's gradients; the first step of a generation draws and rewards its images."""
        place = self.state.global_step % self.config.generation_every
        if place == 0:
            self._generation = self._draw(gather(list(inputs)))
        return self._backward(self._generation[place % self.config.steps_per_generation])

    def draw_for_probe(self, prompts: Sequence[str]) -> list[Response]:
        """One image per prompt, by the same draws at every step; the trainer's random state stays."""
        draw = torch.Generator().manual_seed(self.seed)
        with self.forms.sampling(), self._autocast():
            sampled = self.generator.sample(prompts, guidance=self.guidance, generator=draw)
            return image_responses(pixels_of(self.generator.decode(sampled.latents)))

    def _draw(self, samples: Sequence[Mapping[str, Any]]) -> list[_Generation]:
        """Draw groups of images and have them rewarded; one part per optimizer step.

        Args:
            samples: those of all processes.
        """
        group, step = self.config.rollouts.group_size, self.state.global_step + 1
        dice = self._dice("images")
        drawn = self._draws.draw(samples, dice)
        trained = list(range(len(samples)))
        if self.config.refill is not None:
            dataset: Any = self.train_dataset
            drawn, trained = self._draws.refill(drawn, dataset, self.config.refill, step, dice)
            self._note("refill/drawn", len(drawn.samples))
            self._note("refill/missing", len(samples) - len(trained))
        rows_trained = [row for at in trained for row in range(at * group, (at + 1) * group)]
        advantages = group_advantages(drawn.rewards, rows_trained, self.config, step, seed=self.seed)
        if is_main():
            self.on_rollouts(_by_process(drawn, advantages, step, group))
        judged = [reward for reward in drawn.rewards if reward is not None]
        self._note("reward", sum(judged) / len(judged) if judged else None)
        self._unjudged.update(step, bool(judged), self._order.generations)
        with self.forms.sampling(), self._autocast():
            conditions = self.generator.encode_prompts([sample["prompt"] for sample in drawn.samples])
        per_step = self.config.rollouts.prompts_per_step * group
        parts = []
        for start in range(0, self.config.steps_per_generation * per_step, per_step):
            rows = [
                row
                for row in rows_trained[start : start + per_step]
                if advantages[row] is not None and drawn.rewards[row] is not None
            ]
            values = torch.tensor([advantages[row] for row in rows], dtype=torch.float32)
            parts.append(
                _Generation(
                    drawn.latents[rows],
                    drawn.levels,
                    conditions,
                    torch.tensor([row // group for row in rows], dtype=torch.long),
                    optimality_probability(values, self.config.clip),
                )
            )
        return parts

    def _backward(self, part: _Generation) -> Tensor:
        """Accumulate the gradients of the mean loss over images and noise levels, of all processes."""
        count, device = len(part.latents), self.accelerator.device
        total = torch.zeros((), device=device)
        if not count:
            return total
        draw = torch.Generator().manual_seed(self._dice("noise").getrandbits(62))
        levels_NK = self._levels(part.levels, count, draw)
        own = torch.arange(count).tensor_split(process_count())[process_index()]
        self.forms.train()
        for levels_N in levels_NK.T:
            noise = torch.randn(part.latents.shape, generator=draw)
            for rows in own.split(self.config.optimizer.rows_per_pass or count):
                if not len(rows):
                    continue
                x_0, r, t = part.latents[rows].to(device), part.r_N[rows].to(device), levels_N[rows].to(device)
                conditions = rows_of(part.conditions, part.prompt_N[rows].to(device))
                loss = self._loss(x_0, noise[rows].to(device), t, r, conditions)
                share = len(rows) / count / levels_NK.shape[1]
                self.accelerator.backward(loss * share)
                total += loss.detach() * share
        return self._sum_over_processes(total)

    def _sum_over_processes(self, loss: Tensor) -> Tensor:
        """Sum of the loss, and of the gradients in their places."""
        if process_count() == 1:
            return loss
        for parameter in self.forms.parameters():
            if parameter.requires_grad:
                gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                parameter.grad = self.accelerator.reduce(gradient, "sum")
        summed: Tensor = self.accelerator.reduce(loss, "sum")
        return summed

    def _dice(self, purpose: str) -> random.Random:
        """Random numbers of this step, the same in each process and after a resume."""
        return random.Random(f"{self.seed}/{self.state.global_step}/{purpose}")

    def _loss(self, x_0: Tensor, noise: Tensor, t_N: Tensor, r_N: Tensor, conditions: Mapping[str, Tensor]) -> Tensor:
        x_t = noisy_latents(x_0, noise, t_N)

        def velocity() -> Tensor:
            with self._autocast():
                return self.generator.velocity(x_t, t_N, conditions, guidance=self.guidance)

        with self.forms.sampling():
            v_old = velocity()
        v_ref = v_old
        if self.config.kl_weight:
            with self.forms.initial():
                v_ref = velocity()
        v_theta = velocity()
        self._note("drift", (v_theta.detach() - v_old).float().square().mean().item())
        return diffusion_nft_loss(
            v_theta=v_theta,
            v_old=v_old,
            v_ref=v_ref,
            x_t=x_t,
            x_0=x_0,
            t=t_N,
            r=r_N,
            beta=self.config.beta,
            kl_weight=self.config.kl_weight,
            scale=self.config.clip,
            form=self.config.form,
        )

    def _levels(self, sampled_T: Tensor, count: int, draw: torch.Generator) -> Tensor:
        """Noise levels to train each image at, [count, levels]."""
        levels = self.config.levels_per_image or len(sampled_T)
        if self.config.levels == "sampled":
            return sampled_T[torch.rand(count, len(sampled_T), generator=draw).argsort(dim=1)[:, :levels]]
        strata = (torch.arange(levels) + torch.rand(count, levels, generator=draw)) / levels
        return strata.sqrt()

    def _autocast(self) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = self.accelerator.autocast()
        return context

    def _note(self, name: str, value: float | None) -> None:
        if value is not None:
            self._metrics.setdefault(name, []).append(value)

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        means = _mean_metrics(gather([dict(self._metrics)]))
        self._metrics.clear()
        super().log({**logs, **means}, *args, **kwargs)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        folder = Path(str(output_dir))
        folder.mkdir(parents=True, exist_ok=True)
        save_file(self.forms.tensors(), folder / _WEIGHTS)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        self.forms.restore(load_file(Path(resume_from_checkpoint) / _WEIGHTS))


def _mean_metrics(of_processes: Sequence[Mapping[str, list[float]]]) -> dict[str, float]:
    """Mean of each metric over the values that the processes noted."""
    values: dict[str, list[float]] = {}
    for metrics in of_processes:
        for name, noted in metrics.items():
            values.setdefault(name, []).extend(noted)
    return {name: sum(noted) / len(noted) for name, noted in values.items()}


def _by_process(drawn: RewardedGroups, advantages: Sequence[float | None], step: int, group: int) -> StepRollouts:
    """Rollouts of a step, those of the main process first, whose gradings alone are stored."""
    groups = sorted(range(len(drawn.samples)), key=drawn.processes.__getitem__)
    rows = [row for at in groups for row in range(at * group, (at + 1) * group)]
    return StepRollouts(
        step,
        [str(drawn.samples[row // group]["sample_id"]) for row in rows],
        [drawn.responses[row] for row in rows],
        [0] * len(rows),
        [drawn.rewards[row] for row in rows],
        [advantages[row] for row in rows],
        {name: [values[row] for row in rows] for name, values in drawn.components.items()},
    )


class _Follow(TrainerCallback):
    """Callback by which the sampling form and the average follow the trained one after each update."""

    def __init__(self, forms: VelocityForms, config: DiffusionNftConfig) -> None:
        self.forms, self.config = forms, config

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.forms.blend(self.config.decay_at(state.global_step))
        self.forms.update_average(state.global_step)


class _PromptOrder(Sampler[int]):
    """Prompts of all steps; each generation's come once for each of its steps. Depends only on the seed."""

    def __init__(self, count: int, config: DiffusionNftConfig, seed: int) -> None:
        self.count, self.seed, self.repeats = count, seed, config.generation_every
        self.per_generation = config.rollouts.prompts_per_step * config.steps_per_generation
        self.generations = -(-config.steps_on(count) // self.repeats)

    def __len__(self) -> int:
        return self.generations * self.repeats * self.per_generation

    def __iter__(self) -> Iterator[int]:
        order = self._epochs()
        for _ in range(self.generations):
            prompts = list(islice(order, self.per_generation))
            for _ in range(self.repeats):
                yield from prompts

    def _epochs(self) -> Iterator[int]:
        rng = random.Random(self.seed)
        while True:
            yield from rng.sample(range(self.count), self.count)


def _arguments(config: DiffusionNftConfig, out_dir: Path, samples: int, seed: int) -> TrainingArguments:
    # The transformer is no model of Transformers, whose trainer could not switch its checkpointing on.
    arguments = optimizer_arguments(config.optimizer) | {"activation_checkpointing": False}
    return TrainingArguments(
        output_dir=str(out_dir),
        max_steps=config.steps_on(samples),
        per_device_train_batch_size=config.rollouts.prompts_per_step * config.steps_per_generation // process_count(),
        **arguments,
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


def _rows(samples: list[Any]) -> Any:
    """The samples of a batch as they are."""
    return samples


def _no_captions(*_: Any, **__: Any) -> list[tuple[str, int]]:
    raise RuntimeError("an image generator writes no captions")
