"""Supervised peers of RubricRL: training on captioned pictures (SFT), or on the best of its own images (Best-of-N)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from rubricworks.data.alarm import write_alarm
from rubricworks.errors import UserError
from rubricworks.methods.rubricrl.stages.pretrain_generator import read_pictures
from rubricworks.rl import select_rollouts
from rubricworks.rubrics import Scorecard
from rubricworks.runtime.job import Job, model_dir
from rubricworks.runtime.store.source_files import local_source
from rubricworks.stages.training.policy_training import DeadLetters
from rubricworks.stages.training.step_listener import step_listener
from rubricworks.stages.training.step_tables import GradingTable, StepTables
from rubricworks.tracking import RunLog, stage_run
from rubricworks.training.allocator import keep_freed_memory
from rubricworks.training.checkpoints import model_digest, open_run, run_digest
from rubricworks.training.config import PolicyConfig, SftConfig
from rubricworks.training.generators.image_generators import load_peer
from rubricworks.training.generators.peers import SupervisedPeer
from rubricworks.training.generators.policy import image_responses
from rubricworks.training.model_card import Usage, write_card
from rubricworks.training.policy.rollouts import StepRollouts
from rubricworks.training.processes import process_count

_BATCH = 128
"""Images that are sampled at once."""


def train_on_pictures(job: Job, pictures: str, sft: SftConfig, settings: Mapping[str, Any], guidance: float) -> None:
    """Train the generator on captioned pictures.

    Args:
        pictures: Parquet with `image` and `caption`.
        settings: of the stage, for tracking and for the digest of the training.
    """
    captions, images, digest = read_pictures(local_source(pictures))
    with _training(job, settings) as (log, _):
        generator = load_peer(model_dir(job.inputs["model"]), guidance)
        _train(job, generator, captions, generator.encode(images), sft, log, settings, {"pictures": digest})


def train_on_best(
    job: Job,
    samples: Sequence[Mapping[str, Any]],
    reward: Callable[..., Awaitable[Sequence[float | None]]],
    options: PolicyConfig,
    sft: SftConfig,
    settings: Mapping[str, Any],
    guidance: float,
    scorecards: GradingTable[Scorecard],
    letters: DeadLetters,
) -> None:
    """Draw `group_size` images of each prompt, and train on the `selection.keep` best of them.

    The images are the table `rollouts`, as of a first step. The judge's answers are cached, so that a training that was
    killed draws and grades the same.

    Raises:
        UserError: no image could be judged.
    """
    assert options.selection is not None
    with _training(job, settings) as (log, tables):
        generator = load_peer(model_dir(job.inputs["model"]), guidance)
        rows = [row for row in samples for _ in range(options.group_size)]
        prompts = [row["prompt"] for row in rows]
        draw = torch.Generator(generator.random_device).manual_seed(options.seed)
        drawn = [
            generator.draw(prompts[start : start + _BATCH], temperature=options.temperature, draw=draw)
            for start in range(0, len(prompts), _BATCH)
        ]
        targets = torch.cat([part.targets for part in drawn])
        responses = image_responses(image for part in drawn for image in part.images)
        columns = {name: [row[name] for row in rows] for name in ("sample_id", "rubric")}
        rewards = asyncio.run(_reward(reward, prompts, responses, columns, job))
        best = [
            start + at
            for start in range(0, len(rows), options.group_size)
            for at in _best(rewards[start : start + options.group_size], options.selection.keep)
        ]
        if not best:
            raise UserError("no image could be judged, so none is the best; check the judge")
        tokens = [_tokens(targets)] * len(rows)
        step = StepRollouts(1, columns["sample_id"], responses, tokens, rewards, [None] * len(rows))
        gradings, _ = scorecards.drain(step)
        tables.add(step, gradings, letters.drain())
        job.figures.update(images=len(rows), best=len(best))
        _train(job, generator, [prompts[at] for at in best], targets[best], sft, log, settings, {})


def _tokens(targets: torch.Tensor) -> int:
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
    return [at for at in select_rollouts(rewards_G, keep, top=keep) if rewards_G[at] is not None]


@contextmanager
def _training(job: Job, settings: Mapping[str, Any]) -> Iterator[tuple[RunLog, StepTables]]:
    if process_count() > 1:
        raise UserError(f"policy.method {settings['method']} trains on one process; start one, or train with method rl")
    keep_freed_memory()
    with stage_run(job.run, job.stage) as log, StepTables(job, every=1) as tables:
        log.log_params(dict(settings))
        yield log, tables


def _train(
    job: Job,
    generator: SupervisedPeer,
    prompts: Sequence[str],
    targets: torch.Tensor,
    sft: SftConfig,
    log: RunLog,
    settings: Mapping[str, Any],
    data: Mapping[str, str],
) -> None:
    """Train, and write the result into the job's folder.

    Args:
        data: further data of the training beside the job's inputs → digest.
    """
    identity = run_digest("supervised", model_digest(model_dir(job.inputs["model"])), settings, *data.values())
    checkpoint = open_run(job.out, identity)
    if not (job.out / "model").is_dir():
        generator.train(
            prompts,
            targets,
            job.out,
            sft,
            checkpoint=checkpoint,
            on_log=step_listener(job, log),
        )
    made_by = job.made_by["inputs"] | data
    write_card(model_dir(job.out), Usage(), trained_by=job.stage, data=made_by, config=settings)
    write_alarm(job.out, None)
    job.figures.update(examples=len(prompts), steps=sft.steps, alarm=None)
