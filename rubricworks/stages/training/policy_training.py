"""Policy training as a stage: dataset, tables, tracking and dead letters around the trainer.

The output holds the model, the rollouts of every step, their gradings (scorecards, or caption grades), dead letters,
and `alarm.json`: null, or the step and reasons of the hacking alarm. On several processes, only the main process's
rollouts have gradings.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from rubricworks.data.alarm import write_alarm
from rubricworks.data.tables import read_rows, read_samples
from rubricworks.errors import UserError
from rubricworks.grading import FailedCall
from rubricworks.llm import ChatClient
from rubricworks.rubrics import Rubric
from rubricworks.runtime.call_table import Row, grading_dead_letters
from rubricworks.runtime.job import Job, model_dir
from rubricworks.runtime.progress import VerdictProgress
from rubricworks.stages.training.step_listener import step_listener
from rubricworks.stages.training.step_tables import GradingTable, StepTables
from rubricworks.tracking import RunLog, stage_run
from rubricworks.training.checkpoints import milestone_dirs
from rubricworks.training.config import PolicyConfig
from rubricworks.training.generators.files import ADAPTER
from rubricworks.training.model_card import Usage, only_prompt, write_card
from rubricworks.training.processes import is_main, main_process_first

if TYPE_CHECKING:
    from datasets import Dataset

    from rubricworks.training.policy.rollouts import StepRollouts
    from rubricworks.training.policy.run import PolicyResult


_READS_IMAGES = "the policy reads its image"


class DeadLetters:
    """Failed calls of the step in progress. Each class of failure is printed once, not ten thousand times."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._rows: list[Row] = []
        self._printed: set[str] = set()

    def add(self, call: FailedCall) -> None:
        if is_main():
            self._rows += grading_dead_letters(self._job, call)
        if call.error.error_class not in self._printed:
            self._printed.add(call.error.error_class)
            line = f"the judge failed on {call.sample_id}: {call.error}; such rollouts get no reward"
            print(line, file=sys.stderr, flush=True)

    def drain(self) -> list[Row]:
        """Return and clear the collected rows, in an order that does not depend on which request ended first."""
        rows, self._rows = self._rows, []
        return sorted(rows, key=lambda row: (row["sample_id"], row["response"], row["purpose"], row["criterion"]))


def rubric_texts(job: Job) -> dict[str, str]:
    """Read sample_id → rubric as JSON from the input `rubrics`."""
    rows = read_rows(job.inputs["rubrics"], columns=["sample_id", "rubric"])
    return {row["sample_id"]: row["rubric"] for row in rows}


def refill_criterion(config: PolicyConfig, rubrics: Mapping[str, str]) -> str | None:
    """Criterion by which `policy.refill` drops prompts, if one is named.

    Args:
        rubrics: sample_id → rubric as JSON.
    Raises:
        UserError: no rubric has a criterion of that key or title.
    """
    name = config.refill and config.refill.criterion
    if not name:
        return None
    keys: set[str] = set()
    for text in rubrics.values():
        for criterion in Rubric.model_validate_json(text).criteria:
            if name in (criterion.key, criterion.criterion):
                return name
            keys.add(criterion.key or criterion.criterion)
    raise UserError(
        f"policy.refill.criterion {name}: no rubric has such a criterion; there are {', '.join(sorted(keys)[:20])}"
    )


def training_dataset(job: Job, rubrics: Mapping[str, str]) -> "Dataset":
    """Build the dataset of the training samples that have a rubric, with the rubric as a column.

    Args:
        rubrics: sample_id → rubric as JSON.
    Raises:
        UserError: no training sample has a rubric.
    """
    splits = read_rows(job.inputs["samples"], columns=["sample_id", "split"])
    if not any(row["split"] == "train" and row["sample_id"] in rubrics for row in splits):
        raise UserError(
            f"none of the samples to train on has a rubric ({len(rubrics)} other ones have): nothing can be learnt; "
            f"see {job.inputs['rubrics'] / 'dead_letters'}, and take more samples or a larger committee"
        )
    return graded_dataset(job, "rubric", rubrics)


def graded_dataset(job: Job, column: str, values: Mapping[str, str]) -> "Dataset":
    """Build the dataset of the training samples that have a value, with the value as a column.

    The dataset is Arrow files on disk, mapped into memory.

    Args:
        column: name of the added column.
        values: sample_id → its value; other samples are left out.
    Raises:
        UserError: one of the samples has no image.
    """
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()
    for row in read_rows(job.inputs["samples"], columns=["sample_id", "split", "image_digest"]):
        if row["image_digest"] is None and row["split"] == "train" and row["sample_id"] in values:
            raise UserError(f"sample {row['sample_id']}: {_READS_IMAGES}, and the sample has no image")
    source = {"samples": str(job.inputs["samples"]), "column": column, "values": dict(values)}
    with main_process_first():
        return Dataset.from_generator(
            _training_rows,
            # The digests keep a dataset cached from other tables from being used for this one.
            gen_kwargs={**source, "made_by": job.made_by["inputs"]},
            cache_dir=str(job.scratch("dataset")),
        )


def train(
    config: BaseModel,
    options: PolicyConfig,
    job: Job,
    dataset: "Dataset | Sequence[Mapping[str, Any]]",
    rewards: Sequence[Callable[..., Any]],
    gradings: GradingTable[Any],
    *,
    judges: Sequence[ChatClient] = (),
    letters: DeadLetters,
    after_step: Callable[[int], None] | None = None,
    trainer: Callable[..., "PolicyResult"] | None = None,
    **more: Any,
) -> None:
    """Train the input model, write the result into the job's folder, and close the job's clients.

    Args:
        config: the stage's configuration, logged to tracking.
        options: the trainer's configuration.
        rewards: TRL reward functions, whose sink is `gradings.add`.
        gradings: table of the rewards' gradings.
        judges: clients whose calls the progress lines show.
        letters: dead letters that the rewards add to.
        after_step: called with the number of each step whose rollouts are stored.
        trainer: function that trains; by default `training.policy.grpo.train_policy`.
        more: its further arguments.
    """
    if trainer is None:
        from rubricworks.training.policy.grpo import train_policy

        trainer = train_policy
    train_model = partial(trainer, model_dir(job.inputs["model"]), dataset, rewards, job.out, options, **more)
    try:
        if not is_main():
            train_model()
            return
        progress = VerdictProgress(judges)
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
            log.set_tags({"alarm": str(result.alarm or "none")})
        _write_card(config, options, job, dataset)
    finally:
        for client in job.calls.clients:
            asyncio.run(client.close())
    write_alarm(job.out, result.alarm)
    job.figures.update(steps=result.steps, alarm=result.alarm and result.alarm.model_dump(mode="json"))


def _write_card(
    config: BaseModel, options: PolicyConfig, job: Job, dataset: "Dataset | Sequence[Mapping[str, Any]]"
) -> None:
    rows = dataset if isinstance(dataset, Sequence) else dataset.select_columns(["prompt"]).with_format(None)
    usage = Usage(only_prompt(row["prompt"] for row in rows), options.max_new_tokens)
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
