"""Evaluate base model and policy on the held-out samples: rubric reward, oracle scores, and pairwise preference.

Both models decode greedily and by sampling. A sample without a rubric has no rubric reward; scores missing after a
judge's failure are counted in the summary. `summary.json` is written next to the table.
"""

import asyncio
from contextlib import AsyncExitStack
from itertools import islice
from typing import Any, Literal, NamedTuple

from pydantic import Field

from rubricworks.data.tables import (
    Sample,
    build_table,
    count_rows,
    count_samples,
    read_rows,
    read_rubrics,
    read_samples,
)
from rubricworks.evaluation.scorers.oracle import Oracle, OracleScore
from rubricworks.evaluation.scorers.pairwise import Order, compare
from rubricworks.evaluation.summary import summarise
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient, ChatError, Endpoint
from rubricworks.rewards import weighted_reward
from rubricworks.rubrics import Rubric, Scorecard
from rubricworks.runtime.call_table import Row, dead_letter, grading_dead_letters
from rubricworks.runtime.config import StageConfig, canonical_json
from rubricworks.runtime.job import Job, model_dir
from rubricworks.storage import write_atomic
from rubricworks.tracking import stage_run

Decoding = Literal["greedy", "sampled"]

_TRACKED_ROWS = 48


class Config(StageConfig):
    judge: Endpoint
    """Grades the rubrics of held-out samples."""
    pairwise_judge: Endpoint
    """Sees the image and both captions."""
    order: Order = "random"
    """Positions in a pairwise comparison: drawn at random (the paper), or both orders."""
    oracle: str | None = None
    """URL of an endpoint that knows the truth (the scene world's), for evaluation only."""
    decodings: tuple[Decoding, ...] = ("greedy", "sampled")
    temperature: float = Field(default=1.0, gt=0)
    """Temperature of the sampled decoding."""
    max_new_tokens: int = Field(default=1024, ge=1)
    batch_size: int = Field(default=64, ge=1)


class Captions(NamedTuple):
    """Captions of a batch by one model with one decoding: texts and their lengths in tokens."""

    model: str
    decoding: Decoding
    texts: list[tuple[str, int]]


def run(config: Config, job: Job) -> None:
    from rubricworks.training.generate import generate_captions, load_model

    rubrics = read_rubrics(job.inputs["rubrics"])
    models = {name: load_model(model_dir(job.inputs[key])) for name, key in (("base", "model"), ("policy", "policy"))}

    def caption(samples: list[Sample]) -> list[Captions]:
        return [
            Captions(
                name,
                decoding,
                generate_captions(
                    *models[name],
                    [sample.require_image("the models caption it") for sample in samples],
                    [sample.prompt for sample in samples],
                    max_new_tokens=config.max_new_tokens,
                    temperature=config.temperature if decoding == "sampled" else 0.0,
                    batch_size=config.batch_size,
                    seed=config.seed,
                ),
            )
            for decoding in config.decodings
            for name in models
        ]

    asyncio.run(_evaluate(config, job, caption, rubrics, count_samples(job.inputs["samples"], "held_out")))
    weights = {key: {c.criterion: c.weight for c in rubric.criteria} for key, rubric in rubrics.items()}
    summary = summarise(read_rows(job.out), weights)
    write_atomic(job.out / "summary.json", canonical_json(summary).encode())
    job.figures["evaluations"] = count_rows(job.out)
    with stage_run(job.run, job.stage) as log:
        log.log_metrics(summary.metrics())
        log.log_table("held_out_captions", [_tracked_columns(row) for row in islice(read_rows(job.out), _TRACKED_ROWS)])


def _tracked_columns(row: Row) -> Row:
    return {name: row[name] for name in ("sample_id", "decoding", "model", "caption", "rubric_reward", "win")}


async def _evaluate(config: Config, job: Job, caption: Any, rubrics: dict[str, Rubric], total: int) -> None:
    pairwise = job.client(config.pairwise_judge, "pairwise")
    judge = job.client(config.judge, "judge")
    async with AsyncExitStack() as stack:
        for client in (pairwise, judge):
            await stack.enter_async_context(client)
        oracle = await stack.enter_async_context(Oracle(config.oracle)) if config.oracle else None
        examiner = Examiner(config, job, judge, pairwise, oracle, rubrics)

        async def make_rows(samples: list[Sample]) -> dict[str, list[Row]]:
            return await examiner.examine(samples, caption(samples))

        await build_table(
            job.out,
            "evaluations",
            read_samples(job.inputs["samples"], "held_out"),
            make_rows,
            made_by=job.made_by,
            shard_size=config.batch_size,
            side_tables={"dead_letters": job.out / "dead_letters"},
            progress=job.progress(total, "samples").at,
        )


class Examiner:
    """Scorer that turns captions into rows of `evaluations`, with concurrent calls to judges and oracle."""

    def __init__(
        self,
        config: Config,
        job: Job,
        judge: ChatClient,
        pairwise: ChatClient,
        oracle: Oracle | None,
        rubrics: dict[str, Rubric],
    ) -> None:
        self.config, self.job, self.pairwise, self.oracle, self.rubrics = config, job, pairwise, oracle, rubrics
        self.grader = Grader(judge, on_error=lambda call: self._dead_letters.extend(grading_dead_letters(job, call)))
        self._dead_letters: list[Row] = []

    async def examine(self, samples: list[Sample], captions: list[Captions]) -> dict[str, list[Row]]:
        """Return the rows of both tables for a batch."""
        self._dead_letters = []
        by_sample = [[c._replace(texts=[c.texts[at]]) for c in captions] for at in range(len(samples))]
        row_lists = await self.job.calls.gather_all(map(self._examine_sample, samples, by_sample))
        letters = sorted(
            self._dead_letters,
            key=lambda row: (
                row["sample_id"],
                row["purpose"],
                row["response"] or "",
                row["criterion"] or "",
                row["raw"],
            ),
        )
        return {"evaluations": [row for rows in row_lists for row in rows], "dead_letters": letters}

    async def _examine_sample(self, sample: Sample, captions: list[Captions]) -> list[Row]:
        texts = {(c.decoding, c.model): c.texts[0][0] for c in captions}
        scores = await self._oracle_scores(sample, list(texts.values()))
        rows = []
        for caption, score in zip(captions, scores, strict=True):
            text, tokens = caption.texts[0]
            scorecard = await self._grade(sample, text)
            win, judgment = None, None
            if caption.model == "policy":
                win, judgment = await self._compare(sample, text, texts[caption.decoding, "base"])
            rows.append(
                {
                    "sample_id": sample.sample_id,
                    "model": caption.model,
                    "decoding": caption.decoding,
                    "caption": text,
                    "tokens": tokens,
                    "rubric_reward": self._reward(scorecard),
                    "scorecard": scorecard and scorecard.model_dump_json(),
                    "oracle_precision": score and score.precision,
                    "oracle_recall": score and score.recall,
                    "oracle_f1": score and score.f1,
                    "win": win,
                    "judgment": judgment,
                }
            )
        return rows

    async def _oracle_scores(self, sample: Sample, texts: list[str]) -> list[OracleScore | None]:
        if self.oracle is None:
            return [None] * len(texts)
        return list(await self.oracle.score(sample.require_image("the oracle scores captions of it"), texts))

    async def _grade(self, sample: Sample, text: str) -> Scorecard | None:
        rubric = self.rubrics.get(sample.sample_id)
        return await self.grader.grade(sample, text, rubric) if rubric else None

    def _reward(self, scorecard: Scorecard | None) -> float | None:
        return weighted_reward(scorecard.credits, self.rubrics[scorecard.sample_id].weights) if scorecard else None

    async def _compare(self, sample: Sample, text: str, other: str) -> tuple[float | None, str | None]:
        order, seed = self.config.order, self.config.seed
        image = sample.require_image("the judge compares captions of it")
        try:
            comparison = await compare(self.pairwise, image, text, other, order=order, seed=seed)
        except ChatError as error:
            purpose = f"comparison by {self.pairwise.endpoint.model}"
            self._dead_letters.append(dead_letter(sample.sample_id, self.job, purpose, error))
            return None, None
        return comparison.win, "; ".join(judgment.reason for judgment in comparison.judgments)
