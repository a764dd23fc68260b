"""Policy training as a stage: dataset, tables, tracking and dead letters around the trainer.

The output holds the model, the rollouts of every step, their gradings (scorecards, or caption grades), dead letters,
and `alarm.json`: the outcome of the hacking alarm. On several processes, only the main process's
rollouts have gradings.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from rubricworks.data.alarm import write_alarm
from rubricworks.data.tables import read_rows, read_samples
from rubricworks.errors import UserError
from rubricworks.policy.rewards.reward import PreparedReward
from rubricworks.policy.step_tables import DeadLetters, StepTables
from rubricworks.runtime.job import Job, model_dir
from rubricworks.runtime.progress import VerdictProgress
from rubricworks.stages.training.step_listener import step_listener
from rubricworks.tracking import RunLog, stage_run
from rubricworks.training.checkpoints import milestone_dirs
from rubricworks.training.config import PolicyConfig, TextRollouts
from rubricworks.training.generators.files import ADAPTER
from rubricworks.training.model_card import Usage, only_prompt, write_card
from rubricworks.training.processes import is_main, main_process_first

if TYPE_CHECKING:
    from datasets import Dataset

    from rubricworks.training.policy.rollouts import StepRollouts
    from rubricworks.training.policy.run import PolicyResult


STEP_SECONDS = "step_seconds"
"""Figure in a run's ledger: sampler, judge and trainer → seconds that a step waits for it."""
_READS_IMAGES = "the policy reads its image"


def image_dataset(job: Job, reward: PreparedReward) -> "Dataset":
    """Build the data set of the training samples that the reward has a value of, with image and value.

    The data set is Arrow files on disk, mapped into memory.

    Raises:
        UserError: the reward has no value of a training sample, or one of the samples has no image.
    """
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()
    values, trained = reward.values, 0
    for row in read_rows(job.inputs["samples"], columns=["sample_id", "split", "image_digest"]):
        if row["split"] == "train" and row["sample_id"] in values:
            trained += 1
            if row["image_digest"] is None:
                raise UserError(f"sample {row['sample_id']}: {_READS_IMAGES}, and the sample has no image")
    check_trained(job, reward, trained)
    source = {"samples": str(job.inputs["samples"]), "column": reward.column, "values": dict(values)}
    with main_process_first():
        return Dataset.from_generator(
            _training_rows,
            # The digests keep a dataset cached from other tables from being used for this one.
            gen_kwargs={**source, "made_by": job.made_by["inputs"]},
            cache_dir=str(job.scratch("dataset")),
        )


def prompt_rows(job: Job, reward: PreparedReward) -> list[dict[str, str]]:
    """Rows of the training samples that the reward has a value of, with prompt and value.

    Raises:
        UserError: the reward has no value of a training sample.
    """
    rows = [
        {"sample_id": sample.sample_id, "prompt": sample.prompt, reward.column: reward.values[sample.sample_id]}
        for sample in read_samples(job.inputs["samples"], "train")
        if sample.sample_id in reward.values
    ]
    check_trained(job, reward, len(rows))
    return rows


def check_trained(job: Job, reward: PreparedReward, count: int) -> None:
    """Raise UserError if the reward has a value of no training sample."""
    if count:
        return
    letters = job.inputs["rubrics"] / "dead_letters" if "rubrics" in job.inputs else "the stages before"
    raise UserError(
        f"none of the samples to train on has a {reward.column} ({len(reward.values)} other ones have): nothing can be "
        f"learnt; see {letters}, and take more samples or a larger committee"
    )


def train(
    config: BaseModel,
    options: PolicyConfig,
    job: Job,
    dataset: "Dataset | Sequence[Mapping[str, Any]]",
    reward: PreparedReward,
    letters: DeadLetters,
    trainer: "Callable[..., PolicyResult]",
    **arguments: Any,
) -> None:
    """Train the input model, write the result into the job's folder, and close the job's clients.

    Args:
        config: the stage's configuration, logged to tracking.
        options: the trainer's configuration.
        letters: dead letters that the reward adds to.
        trainer: function that trains.
        arguments: its further arguments, of the algorithm.
    """
    train_model = partial(
        trainer, model_dir(job.inputs["model"]), dataset, list(reward.functions), job.out, options, **arguments
    )
    gradings, after_step = reward.gradings, reward.after_step
    try:
        if not is_main():
            train_model()
            return
        progress = VerdictProgress(reward.judges)
        with (
            stage_run(job.run, job.stage) as log,
            StepTables(job, every=options.checkpoint_every, gradings=gradings.name) as tables,
        ):
            log.log_params(config.model_dump(mode="json"))
            for name in ("samples", "rubrics", "exams"):
                if name in job.inputs:
                    log.log_input(name, job.inputs[name], job.made_by["inputs"][name], context="policy training")

            def record_step(step: "StepRollouts") -> None:
                rows, verdicts = gradings.drain(step)
                tables.add(step, rows, letters.drain())
                _log_step(log, step)
                progress.add(verdicts)
                if after_step is not None:
                    after_step(step.step)

            result = train_model(
                on_step=record_step,
                on_log=step_listener(job, log, choose=_of_sampling),
                before_checkpoint=tables.commit,
            )
            log.set_tags({"alarm": str(result.outcome)})
        _write_card(config, options, job, dataset)
    finally:
        for client in job.calls.clients:
            asyncio.run(client.close())
    write_alarm(job.out, result.outcome)
    if result.step_seconds:
        job.figures[STEP_SECONDS] = dict(result.step_seconds)
    job.figures.update(steps=result.steps, alarm=result.alarm and result.alarm.model_dump(mode="json"))


def _write_card(
    config: BaseModel, options: PolicyConfig, job: Job, dataset: "Dataset | Sequence[Mapping[str, Any]]"
) -> None:
    rows = dataset if isinstance(dataset, Sequence) else dataset.select_columns(["prompt"]).with_format(None)
    rollouts = options.rollouts
    limit = rollouts.max_new_tokens if isinstance(rollouts, TextRollouts) else None
    usage = Usage(only_prompt(row["prompt"] for row in rows), limit)
    made_by: dict[str, str] = job.made_by["inputs"]
    for folder in (model_dir(job.out), job.out / ADAPTER, *milestone_dirs(job.out).values()):
        if folder.is_dir():
            write_card(folder, usage, trained_by=job.stage, data=made_by, config=config.model_dump(mode="json"))


def _training_rows(
    samples: str, column: str, values: dict[str, str], made_by: dict[str, str]
) -> Iterator[dict[str, Any]]:
    for sample in read_samples(samples, "train"):
        if sample.sample_id in values:
            yield {
                "sample_id": sample.sample_id,
                "image": sample.require_image(_READS_IMAGES),
                "prompt": sample.prompt,
                "question": sample.question or sample.prompt,
                column: values[sample.sample_id],
            }


def _of_sampling(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if name.startswith(("sampling/", "refill/"))}


def _log_step(log: RunLog, step: Any) -> None:
    judged = [reward for reward in step.rewards if reward is not None]
    components = step.components if len(step.components) > 1 else {}
    log.log_metrics(
        {
            "reward": _mean(step.rewards),
            "tokens": sum(step.tokens) / len(step.tokens),
            "unjudged": 1 - len(judged) / len(step.rewards),
            **{f"rewards/{name}": _mean(values) for name, values in components.items()},
        },
        step=step.step,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if present else None
