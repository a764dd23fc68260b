"""Evaluate the base model and both arms' milestones on the held-out questions (Table 2, Figure 2).

`answers.json` is written next to the table `answers`; `model` links to RLR³'s best milestone, which may be promoted.
"""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from rubricworks.data.tables import Sample, build_table, count_rows, read_rows, read_samples
from rubricworks.errors import UserError
from rubricworks.evaluation.answer_summary import ANSWERS_FILE, BASE, AnswerSummary, summarise_answers
from rubricworks.evaluation.scorers.answers import check_by_rules, check_with_judge
from rubricworks.llm import ChatClient, ChatError, Endpoint
from rubricworks.rubrics import ErrorClass
from rubricworks.runtime.call_table import Row, dead_letter
from rubricworks.runtime.config import StageConfig, canonical_json
from rubricworks.runtime.job import Job, model_dir
from rubricworks.storage import link, write_atomic
from rubricworks.tracking import stage_run
from rubricworks.training.checkpoints import milestone_dirs
from rubricworks.verifiers import CannotVerify

ARMS = ("rlvr", "rlr3")


class Config(StageConfig):
    judge: Endpoint | None = None
    """A text model for open answers; without one, words must match the reference."""
    max_new_tokens: int = Field(default=6144, ge=1)
    batch_size: int = Field(default=64, ge=1)


class Model(NamedTuple):
    """Policy at one step of its training."""

    arm: str
    step: int
    folder: Path


class Batch(NamedTuple):
    """Samples for one model to answer."""

    model: Model
    samples: tuple[Sample, ...]


def run(config: Config, job: Job) -> None:
    models = list(_models(job))
    samples = [sample for sample in read_samples(job.inputs["samples"], "held_out") if sample.answer]
    if not samples:
        raise UserError("none of the held-out samples has a reference answer; there is nothing to evaluate")
    batches = [
        Batch(model, tuple(samples[start : start + config.batch_size]))
        for model in models
        for start in range(0, len(samples), config.batch_size)
    ]
    asyncio.run(_answer(config, job, batches))
    try:
        summary = summarise_answers(read_rows(job.out), seed=config.seed)
    except ValueError as error:
        job.mark_unusable()
        raise UserError(f"{error}; see {job.out / 'dead_letters'}") from error
    _link_best(job, models, summary)
    write_atomic(job.out / ANSWERS_FILE, canonical_json(summary).encode())
    job.figures.update(answers=count_rows(job.out), dead_letters=count_rows(job.out / "dead_letters"))
    with stage_run(job.run, job.stage) as log:
        log.log_metrics({f"{arm}/macro": summary.accuracy(arm).macro.value for arm in (BASE, *summary.arms)})
        for arm, points in summary.arms.items():
            for point in points:
                log.log_metrics({f"{arm}/macro_at": point.macro.value}, step=point.step)


def _models(job: Job) -> Iterator[Model]:
    yield Model(BASE, 0, model_dir(job.inputs["model"]))
    for arm in ARMS:
        if arm in job.inputs:
            milestones = milestone_dirs(job.inputs[arm])
            if not milestones:
                raise UserError(f"{job.inputs[arm]} kept no milestones; set policy.milestone_every")
            yield from (Model(arm, step, folder) for step, folder in milestones.items())


async def _answer(config: Config, job: Job, batches: list[Batch]) -> None:
    from rubricworks.training.generate import generate_captions, load_model

    loaded: dict[Path, tuple[Any, Any]] = {}

    def respond(batch: Batch) -> list[tuple[str, int]]:
        if batch.model.folder not in loaded:  # one at a time in memory
            loaded.clear()
            loaded[batch.model.folder] = load_model(batch.model.folder)
        return generate_captions(
            *loaded[batch.model.folder],
            [sample.image for sample in batch.samples],
            [sample.prompt for sample in batch.samples],
            max_new_tokens=config.max_new_tokens,
            temperature=0.0,
            batch_size=config.batch_size,
        )

    async with AsyncExitStack() as stack:
        judge = None
        if config.judge is not None:
            judge = await stack.enter_async_context(job.client(config.judge, "answers"))

        async def make_rows(chunk: list[Batch]) -> dict[str, list[Row]]:
            rows: dict[str, list[Row]] = {"answers": [], "dead_letters": []}
            for batch in chunk:
                responses = respond(batch)
                results = await job.calls.gather_all(
                    _row(job, judge, batch.model, sample, *response)
                    for sample, response in zip(batch.samples, responses, strict=True)
                )
                for row, letters in results:
                    rows["answers"].append(row)
                    rows["dead_letters"] += letters
            return rows

        progress = job.progress(len(batches), "batches")
        await build_table(
            job.out,
            "answers",
            batches,
            make_rows,
            made_by=job.made_by,
            shard_size=1,
            side_tables={"dead_letters": job.out / "dead_letters"},
            progress=progress.at,
        )


async def _row(
    job: Job, judge: ChatClient | None, model: Model, sample: Sample, response: str, tokens: int
) -> tuple[Row, list[Row]]:
    right: bool | None = None
    letters: list[Row] = []
    try:
        right = await check_with_judge(judge, sample, response) if judge else check_by_rules(sample, response)
    except CannotVerify as error:
        unverifiable = ChatError(
            ErrorClass.UNVERIFIABLE, f"the reference answer {sample.answer!r} cannot be read: {error}"
        )
        letters.append(dead_letter(sample.sample_id, job, "checking an answer", unverifiable))
    except ChatError as error:
        letters.append(dead_letter(sample.sample_id, job, "judging an answer", error))
    row = {
        "sample_id": sample.sample_id,
        "arm": model.arm,
        "step": model.step,
        "task": sample.task or "all",
        "response": response,
        "tokens": tokens,
        "right": right,
    }
    return row, letters


def _link_best(job: Job, models: list[Model], summary: AnswerSummary) -> None:
    """Link `model` to RLR³'s best milestone, or to that of the only arm."""
    if not summary.best:
        return
    arm = "rlr3" if "rlr3" in summary.best else next(iter(summary.best))
    folder = next(one.folder for one in models if (one.arm, one.step) == (arm, summary.best[arm]))
    link(model_dir(job.out), folder.resolve())
