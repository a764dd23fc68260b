"""Supervised training of an image generator: on pictures, or on the best of its own images (RubricRL, Table 7)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from rubricworks.data.alarm import Alarm, write_alarm
from rubricworks.data.captioned_pictures import read_pictures
from rubricworks.errors import UserError
from rubricworks.llm import Endpoint
from rubricworks.llm.usage import PlannedCalls
from rubricworks.policy.algorithms.algorithm import Algorithm, PolicyStage
from rubricworks.policy.rewards.reward import Reward, Training, TrainingSize
from rubricworks.policy.step_tables import DeadLetters, StepTables
from rubricworks.policy.training import prompt_rows
from rubricworks.runtime.job import Job, model_dir
from rubricworks.runtime.store.source_files import local_source
from rubricworks.stages.training.step_listener import step_listener
from rubricworks.tracking import RunLog, stage_run
from rubricworks.training.config import CodeRollouts
from rubricworks.training.generators.config import ImageSftConfig
from rubricworks.training.model_card import Usage, write_card
from rubricworks.training.processes import process_count

if TYPE_CHECKING:
    from torch import Tensor

    from rubricworks.training.generators.peers import SupervisedPeer

_BATCH = 128
"""Number of images sampled at once; `rows_per_pass` overrides it."""


class PictureSft(ImageSftConfig, Algorithm):
    """Supervised training on captioned pictures."""

    rewards: ClassVar[Sequence[str]] = ()

    type: Literal["sft"]
    pictures: str
    """Captioned pictures: Parquet with `image` and `caption`."""
    guidance: float = Field(default=1.0, ge=0)
    """Scale that a guidance-distilled transformer reads in training; others ignore it."""

    def train(self, stage: PolicyStage) -> None:
        captions, images, digest = read_pictures(local_source(self.pictures))
        with _training(stage, self, self.type) as (log, _):
            generator = _load(stage, self, self.guidance)
            _train(stage, generator, captions, generator.encode(images), self, log, {"pictures": digest})

    def estimate(
        self, reward: Reward | None, size: TrainingSize, captioners: Sequence[Endpoint] = ()
    ) -> Iterator[PlannedCalls]:
        return iter(())

    def describe(self) -> str:
        return "The generator was trained on captioned pictures (SFT), without any reward."


class BestOfN(ImageSftConfig, Algorithm):
    """Supervised training on the best of some images of each prompt."""

    type: Literal["best_of_n"]
    images: int = Field(default=8, ge=2)
    """Images drawn of each prompt."""
    keep: int = Field(default=4, ge=1)
    """Best images of each prompt to train on."""
    temperature: float = Field(default=1.0, gt=0)
    """Sampling temperature of an autoregressive generator."""
    guidance: float = Field(default=1.0, ge=0)
    """Scale of the guidance while images are drawn; 1 is none."""

    @model_validator(mode="after")
    def _keeps_some(self) -> Self:
        if self.keep > self.images:
            raise ValueError(f"keep is {self.keep}; of {self.images} images at most all")
        return self

    def train(self, stage: PolicyStage) -> None:
        """Draw the images, and train on the best.

        The images are the table `rollouts`, as of a first step. The judge's answers are cached, so that a training that
        was killed draws and grades the same.

        Raises:
            UserError: no image could be judged.
        """
        import torch

        from rubricworks.training.generators.policy import image_responses
        from rubricworks.training.policy.rollouts import StepRollouts

        assert stage.reward is not None
        job, seed, letters = stage.job, stage.config.seed, DeadLetters(stage.job)
        rollouts = CodeRollouts(group_size=self.images, temperature=self.temperature, guidance=self.guidance)
        reward = stage.reward.build(Training(job, rollouts, None, seed, letters))
        samples = prompt_rows(job, reward)
        with _training(stage, self, self.type) as (log, tables):
            generator = _load(stage, self, self.guidance)
            rows = [row for row in samples for _ in range(self.images)]
            prompts = [row["prompt"] for row in rows]
            draw = torch.Generator(generator.random_device).manual_seed(seed)
            at_once = self.optimizer.rows_per_pass or _BATCH
            drawn = [
                generator.draw(prompts[start : start + at_once], temperature=self.temperature, draw=draw)
                for start in range(0, len(prompts), at_once)
            ]
            targets = torch.cat([part.targets for part in drawn])
            responses = image_responses(image for part in drawn for image in part.images)
            columns = {name: [row[name] for row in rows] for name in ("sample_id", reward.column)}
            rewards = asyncio.run(_reward(reward.functions[0], prompts, responses, columns, job))
            best = [
                start + at
                for start in range(0, len(rows), self.images)
                for at in _best(rewards[start : start + self.images], self.keep)
            ]
            if not best:
                raise UserError("no image could be judged, so none is the best; check the judge")
            tokens = [_tokens(targets)] * len(rows)
            step = StepRollouts(1, columns["sample_id"], responses, tokens, rewards, [None] * len(rows))
            gradings, _ = reward.gradings.drain(step)
            tables.add(step, gradings, letters.drain())
            job.figures.update(images=len(rows), best=len(best))
            _train(stage, generator, [prompts[at] for at in best], targets[best], self, log, {})

    def estimate(
        self, reward: Reward | None, size: TrainingSize, captioners: Sequence[Endpoint] = ()
    ) -> Iterator[PlannedCalls]:
        assert reward is not None
        yield from reward.estimate(replace(size, rollouts=size.samples * self.images))

    def describe(self) -> str:
        return f"The generator was trained on the {self.keep} best of {self.images} images of each prompt (SFT)."


def _tokens(targets: "Tensor") -> int:
    """Tokens of an image: its codes; a flow's latents are none, as in RL."""
    return 0 if targets.is_floating_point() else targets.shape[1]


async def _reward(
    reward: Callable[..., Awaitable[Sequence[float | None]]],
    prompts: Sequence[str],
    responses: Sequence[Any],
    columns: Mapping[str, list[Any]],
    job: Job,
) -> list[float | None]:
    try:
        return list(await reward(prompts=prompts, completions=responses, **columns))
    finally:
        for client in job.calls.clients:
            await client.close()


def _best(rewards_G: Sequence[float | None], keep: int) -> list[int]:
    """The `keep` highest rewards of a prompt, fewer if fewer were judged."""
    from rubricworks.rl import select_rollouts

    return [at for at in select_rollouts(rewards_G, keep, top=keep) if rewards_G[at] is not None]


@contextmanager
def _training(stage: PolicyStage, sft: ImageSftConfig, algorithm: str) -> Iterator[tuple[RunLog, StepTables]]:
    from rubricworks.training.machine import check_one_gpu_per_process, check_precision, keep_freed_memory

    if process_count() > 1:
        raise UserError(f"policy.algorithm {algorithm} of an image generator trains on one process; start one")
    check_one_gpu_per_process()
    check_precision(sft.optimizer)
    keep_freed_memory()
    with stage_run(stage.job.run, stage.job.stage) as log, StepTables(stage.job, every=1) as tables:
        log.log_params(stage.config.model_dump(mode="json"))
        yield log, tables


def _load(stage: PolicyStage, sft: ImageSftConfig, guidance: float) -> "SupervisedPeer":
    from rubricworks.training.generators.image_generators import load_peer

    return load_peer(model_dir(stage.job.inputs["model"]), guidance, sft.sampling, dtype=sft.optimizer.weights)


def _train(
    stage: PolicyStage,
    generator: "SupervisedPeer",
    prompts: Sequence[str],
    targets: "Tensor",
    sft: ImageSftConfig,
    log: RunLog,
    data: Mapping[str, str],
) -> None:
    """Train, and write the result into the job's folder.

    Args:
        data: further data of the training beside the job's inputs → digest.
    """
    from rubricworks.training.checkpoints import model_digest, open_run, run_digest

    job, settings = stage.job, stage.config.model_dump(mode="json")
    identity = run_digest("supervised", model_digest(model_dir(job.inputs["model"])), settings, *data.values())
    checkpoint = open_run(job.out, identity)
    if not (job.out / "model").is_dir():
        generator.train(
            prompts,
            targets,
            job.out,
            sft,
            seed=stage.config.seed,
            checkpoint=checkpoint,
            on_log=step_listener(job, log),
        )
    made_by = job.made_by["inputs"] | data
    write_card(model_dir(job.out), Usage(), trained_by=job.stage, data=made_by, config=settings)
    write_alarm(job.out, Alarm(state="no_reward"))
    job.figures.update(examples=len(prompts), steps=sft.steps, alarm=None)
