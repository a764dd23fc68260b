"""Write one rubric per sample from the committee's captions and the student's failures (RubiCap, section 3.2).

A sample whose rubric would be empty (the student fails nowhere) has no row, since there is nothing to train on; it has
one with the reason in the table `without_rubric`. Answers that the repair turns could not fix become dead letters;
criteria that break a rule are dropped and counted.
"""

import json
import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from rubricworks.data.tables import Sample, count_rows, count_samples, read_rows, read_samples
from rubricworks.llm import ChatClient, ChatError, ImageEndpoint
from rubricworks.runtime.call_table import Answers, Row, ask_all, dead_letter
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job
from rubricworks.stages.synthesis import caption_committee
from rubricworks.stages.synthesis.caption_committee import SPLITS
from rubricworks.stages.synthesis.rubric_gate import AuditOption, audit_written_rubrics
from rubricworks.synthesis import Candidate, RubricWriter
from rubricworks.synthesis.prompts import WRITER_PROMPT_VERSION


class Config(StageConfig):
    writer: ImageEndpoint
    """A strong vision-language model."""
    coverage: Literal["discriminative", "full"] = "discriminative"
    """Criteria only where the student fails (as in the paper), or for everything that the committee agrees on."""
    guards: bool = False
    """Add fixed criteria against guesses in captions. Not in the paper; docs/results.md shows their effect."""
    consensus: int | None = Field(default=None, ge=1)
    """Number of candidates that must state an element; half of them, rounded up, by default."""
    min_candidates: int = Field(default=2, ge=1)
    """A sample with fewer teacher captions than this gets no rubric."""
    audit: AuditOption | None = None
    """Audit of written rubrics before training, `warn` or `refuse`, by the policy's judges; none by default."""
    shard_size: int = Field(default=64, ge=1)


class CaptionedSample(NamedTuple):
    """A sample with the captions of the committee and of the student."""

    sample: Sample
    candidates: list[Candidate]
    student: list[str]


def run(config: Config, job: Job, splits: tuple[str, ...] = SPLITS) -> None:
    client = job.client(config.writer, "rubric")
    writer = rubric_writer(config, client)
    dropped: Counter[str] = Counter()

    async def write(described: CaptionedSample) -> Answers:
        sample = described.sample
        if len(described.candidates) < config.min_candidates:
            count, needed = len(described.candidates), config.min_candidates
            return _without_rubric(sample, f"{count} captions by the committee, at least {needed} are needed")
        try:
            result = await writer.write(sample, described.candidates, described.student)
        except ChatError as error:
            letter = dead_letter(sample.sample_id, job, f"rubric by {config.writer.model}", error)
            return _without_rubric(sample, f"the writer failed: {error.error_class.value}", letter)
        dropped.update(reason for _, reason in result.dropped)
        if result.rubric is None:
            counts = Counter(reason for _, reason in result.dropped).most_common(3)
            reasons = "; ".join(f"{reason} ({count} x)" for reason, count in counts)
            return _without_rubric(sample, f"no criterion is left: {reasons}" if reasons else "the writer asks nothing")
        row = {
            "sample_id": sample.sample_id,
            "rubric": result.rubric.model_dump_json(),
            "writer": config.writer.model,
            "prompt_version": WRITER_PROMPT_VERSION,
            "coverage": config.coverage,
            "candidates": len(described.candidates),
            "prompt_tokens": result.usage.prompt_tokens,
            "completion_tokens": result.usage.completion_tokens,
            "cost": result.usage.cost,
        }
        return Answers([row], [])

    samples = job.inputs["samples"]
    ask_all(
        job,
        "rubrics",
        captioned_samples(samples, job.inputs["captions"], job.inputs.get("student_captions"), splits),
        write,
        total=count_samples(samples, *splits),
        shard_size=config.shard_size,
        clients=[client],
        side_tables=("without_rubric",),
    )
    job.figures["dropped_criteria"] = dict(dropped)
    _warn_of_shortfalls(config, job)
    if config.audit:
        audit_written_rubrics(config.audit, job, seed=config.seed)


def _without_rubric(sample: Sample, reason: str, *dead_letters: Row) -> Answers:
    row = {"sample_id": sample.sample_id, "reason": reason}
    return Answers([], list(dead_letters), {"without_rubric": [row]})


def _warn_of_shortfalls(config: Config, job: Job) -> None:
    """Tell of samples that got no rubric, and of rubrics without the guards that the writer was asked for."""
    table = job.out / "without_rubric"
    if without := count_rows(table):
        ((reason, count),) = Counter(row["reason"] for row in read_rows(table)).most_common(1)
        warnings.warn(f"{without} samples got no rubric, {count} of them: {reason}; all are in {table}", stacklevel=2)
    if not config.guards:
        return
    rubrics = [json.loads(row["rubric"]) for row in read_rows(job.out, columns=["rubric"])]
    unguarded = sum(all(criterion.get("reference_teachers") for criterion in rubric["criteria"]) for rubric in rubrics)
    if unguarded:
        job.figures["without_guards"] = unguarded
        warnings.warn(
            f"rubric.guards is true, and {config.writer.model} wrote no guard into {unguarded} of {len(rubrics)} "
            "rubrics: nothing there punishes guesses; take a stronger writer, or set guards to false",
            stacklevel=2,
        )


def check_committee(committee: caption_committee.Config, rubric: Config) -> None:
    """Check that the committee gives enough captions per image.

    Raises:
        ValueError: the committee is too small for any rubric.
    """
    captions = len(committee.teachers) * committee.captions_each
    if captions < rubric.min_candidates:
        raise ValueError(
            f"the committee gives {captions} caption(s) of an image, rubric.min_candidates is {rubric.min_candidates}: "
            "no rubric could be written; raise committee.captions_each"
        )


def rubric_writer(config: Config, client: ChatClient) -> RubricWriter:
    return RubricWriter(client, coverage=config.coverage, guards=config.guards, consensus=config.consensus)


def captioned_samples(
    samples: Path, captions: Path, student: Path | None, splits: tuple[str, ...] = SPLITS
) -> Iterator[CaptionedSample]:
    """Join the samples with their captions in one pass, since the tables are in the samples' order."""
    committee = _CaptionsBySample(captions)
    students = _CaptionsBySample(student) if student else None
    for sample in read_samples(samples, *splits):
        rows = committee.take(sample.sample_id)
        yield CaptionedSample(
            sample,
            [Candidate(captioner=row["captioner"], caption=row["caption"]) for row in rows if row["caption"]],
            [row["caption"] for row in students.take(sample.sample_id)] if students else [],
        )


class _CaptionsBySample:
    """Reader of a table in the order of `samples`, one sample at a time; a sample may have no rows."""

    def __init__(self, table: Path) -> None:
        rows = read_rows(table, columns=["sample_id", "captioner", "caption"])
        self._groups = groupby(rows, key=lambda row: row["sample_id"])
        self._advance()

    def take(self, sample_id: str) -> list[dict[str, str]]:
        if self._next is None or self._next[0] != sample_id:
            return []
        rows = self._rows
        self._advance()
        return rows

    def _advance(self) -> None:
        self._next = next(self._groups, None)
        self._rows = list(self._next[1]) if self._next else []
