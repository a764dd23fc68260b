"""Evaluate base model and policy on the held-out samples by b-CapScore, DCScore, CaptionQA and an arena (BalCapRL).

Both models decode greedily. Each score comes from its own judge; a score that the judge could not give is missing from
the row, never a number. b-CapScore and DCScore are missing for samples without a reference caption, CaptionQA for
samples without an exam. With `questions` both models also answer visual questions, which measures what training on
captions made the policy forget (Table 2). `captions.json` is written next to the table.
"""

import asyncio
from collections import defaultdict
from contextlib import AsyncExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import Field

from rubricworks.data.tables import Sample, build_table, count_rows, read_rows, read_samples
from rubricworks.errors import UserError
from rubricworks.evaluation.caption_summary import BASE, CAPTIONS_FILE, POLICY, CaptionSummary, summarise_captions
from rubricworks.evaluation.scorers.caption_prompts import Exam
from rubricworks.evaluation.scorers.oracle import Oracle
from rubricworks.evaluation.scorers.pairwise import Order
from rubricworks.grading import Pointability
from rubricworks.grading.assertion_texts import has_words
from rubricworks.llm import Endpoint
from rubricworks.methods.balcaprl.stages.caption_scoring import CaptionPair, CaptionScorer, Judges
from rubricworks.methods.balcaprl.stages.write_exams import read_exams
from rubricworks.runtime.call_table import Row
from rubricworks.runtime.config import StageConfig, canonical_json
from rubricworks.runtime.job import Job, model_dir
from rubricworks.stages.data.visual_questions import (
    VisualQuestions,
    answer_accuracies,
    questions_about,
    samples_by_digest,
)
from rubricworks.storage import write_atomic
from rubricworks.tracking import stage_run

_TRACKED_ROWS = 48


class Config(StageConfig):
    judge: Endpoint
    """Lists and rates assertions for b-CapScore; without a verifier it sees the image too."""
    verifier: Endpoint | None = None
    """Checks the assertions against the image, separately from the judge."""
    pointability: Pointability = "evidence"
    """b-CapScore accepts assertions that visible evidence justifies (appendix A.4); training is stricter."""
    fact_judge: Endpoint | None = None
    """For DCScore: splits captions into facts, matches them, and checks them against the image."""
    exam_taker: Endpoint | None = None
    """For CaptionQA: a text model that answers the exams from captions."""
    arena_judge: Endpoint | None = None
    """Sees the image and both captions."""
    order: Order = "random"
    """Positions in the arena: drawn at random (CapArena), or both orders."""
    oracle: str | None = None
    """URL of an endpoint that knows the truth (the scene world's), for evaluation only."""
    questions: VisualQuestions | None = None
    """Visual questions about the held-out pictures for both models; none by default."""
    max_new_tokens: int = Field(default=1024, ge=1)
    batch_size: int = Field(default=64, ge=1)


def run(config: Config, job: Job) -> None:
    samples = list(read_samples(job.inputs["samples"], "held_out"))
    if not any(first_reference(sample) for sample in samples):
        raise UserError(
            "none of the held-out samples has a reference caption, against which recall is measured; give captions "
            "with the images, or have a model write them (stage recap)"
        )
    exams = read_exams(job.inputs["exams"]) if "exams" in job.inputs else {}
    if config.exam_taker and not exams.keys() & {sample.sample_id for sample in samples}:
        raise UserError("exam_taker is set, and no held-out sample has an exam; run write_exams for them first")
    asyncio.run(_evaluate(config, job, samples, exams))
    try:
        summary = summarise_captions(read_rows(job.out))
        if not any("b_capscore" in scores for scores in summary.models.values()):
            raise ValueError("no caption could be judged")
    except ValueError as error:
        job.mark_unusable()
        raise UserError(f"{error}; see {job.out / 'dead_letters'}") from error
    write_atomic(job.out / CAPTIONS_FILE, canonical_json(summary).encode())
    job.figures.update(caption_scores=count_rows(job.out), dead_letters=count_rows(job.out / "dead_letters"))
    with stage_run(job.run, job.stage) as log:
        log.log_metrics(summary.metrics())
        log.log_table("held_out_captions", [_tracked_columns(row) for row in islice(read_rows(job.out), _TRACKED_ROWS)])


def first_reference(sample: Sample) -> str:
    """Reference for recall: the sample's first caption with words; empty if there is none."""
    return next((text for text in sample.references if has_words(text)), "")


def read_summary(folder: Path) -> CaptionSummary:
    """Read the summary that the stage wrote."""
    return CaptionSummary.model_validate_json((folder / CAPTIONS_FILE).read_bytes())


def _tracked_columns(row: Row) -> Row:
    return {
        name: row[name] for name in ("sample_id", "model", "caption", "b_capscore", "dc_score", "caption_qa", "win")
    }


async def _evaluate(config: Config, job: Job, samples: list[Sample], exams: dict[str, Exam]) -> None:
    models = _load_models(job)
    caption = partial(_caption, config, models)
    questions = _questions(config, job)
    async with AsyncExitStack() as stack:
        clients = {
            purpose: await stack.enter_async_context(job.client(endpoint, purpose))
            for purpose, endpoint in (
                ("assertions", config.judge),
                ("verification", config.verifier),
                ("facts", config.fact_judge),
                ("exam", config.exam_taker),
                ("arena", config.arena_judge),
            )
            if endpoint
        }
        oracle = await stack.enter_async_context(Oracle(config.oracle)) if config.oracle else None
        judges = Judges(
            clients["assertions"],
            clients.get("verification"),
            clients.get("facts"),
            clients.get("exam"),
            clients.get("arena"),
            oracle,
        )
        scorer = CaptionScorer(
            job, judges, exams, pointability=config.pointability, order=config.order, seed=config.seed
        )

        async def make_rows(chunk: list[Sample]) -> dict[str, list[Row]]:
            rows = await scorer.score(caption(chunk))
            for name, model in models.items() if questions else ():
                shares = answer_accuracies(questions, chunk, partial(_respond, config, model))
                for row in rows["caption_scores"]:
                    if row["model"] == name:
                        row["answered"] = shares.get(row["sample_id"])
            return rows

        await build_table(
            job.out,
            "caption_scores",
            samples,
            make_rows,
            made_by=job.made_by,
            shard_size=config.batch_size,
            side_tables={"dead_letters": job.out / "dead_letters"},
            progress=job.progress(len(samples), "samples").at,
        )


def _questions(config: Config, job: Job) -> dict[str, list[Sample]]:
    """Held-out sample → questions about its picture."""
    if config.questions is None:
        return {}
    questions: dict[str, list[Sample]] = defaultdict(list)
    held_out = samples_by_digest(job.inputs["samples"], "held_out")
    for digest, question in questions_about(held_out, config.questions, "evaluation.questions"):
        questions[held_out[digest]].append(question)
    return questions


def _load_models(job: Job) -> dict[str, tuple[Any, Any]]:
    from rubricworks.training.generate import load_model

    return {name: load_model(model_dir(job.inputs[key])) for name, key in ((BASE, "model"), (POLICY, "policy"))}


def _caption(config: Config, models: dict[str, tuple[Any, Any]], chunk: list[Sample]) -> list[CaptionPair]:
    captions = {name: _respond(config, model, chunk) for name, model in models.items()}
    return [
        CaptionPair(sample, first_reference(sample), {name: texts[place] for name, texts in captions.items()})
        for place, sample in enumerate(chunk)
    ]


def _respond(config: Config, model: tuple[Any, Any], chunk: list[Sample]) -> list[tuple[str, int]]:
    """Generate a model's greedy responses to the samples' pictures."""
    from rubricworks.training.generate import generate_captions

    return generate_captions(
        *model,
        [sample.require_image("the models caption it") for sample in chunk],
        [sample.prompt for sample in chunk],
        max_new_tokens=config.max_new_tokens,
        temperature=0.0,
        batch_size=config.batch_size,
        seed=config.seed,
    )
