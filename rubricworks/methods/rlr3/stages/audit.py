"""Audit a judge by failure modes: the undeserved credit that it gives to abnormal responses (RLR³, 5.5 and Table 5).

The table holds every response in every setting with the judge's scorecard; `audit.json` next to it is the summary.
Given an earlier audit's table, this judge grades its responses, and none are generated.
"""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from rubricworks.data.tables import Sample, build_table, count_rows, read_rows, read_samples
from rubricworks.errors import UserError
from rubricworks.evaluation.audit.candidates import CandidateGenerator
from rubricworks.evaluation.audit.red_team import PAPER_PATTERNS, SearchResult, search_patterns
from rubricworks.evaluation.audit.summary import SUMMARY_FILE, AuditSummary, ResponseCount, parse_audit_row, table_cells
from rubricworks.evaluation.audit.values import MODE_NAMES, SETTINGS, Case, Setting
from rubricworks.grading import FailedCall, Grader
from rubricworks.llm import ChatClient, ChatError, Endpoint, SeesImages
from rubricworks.methods.rlr3.stages.audit_set import (
    RESPONSE_COLUMNS,
    AuditSet,
    abnormal_responses,
    one_per_input,
    read_cases,
    regular_responses,
)
from rubricworks.rubrics import Rubric
from rubricworks.runtime.call_table import Row, grading_dead_letters
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job
from rubricworks.storage import write_atomic
from rubricworks.tracking import stage_run


class Config(StageConfig):
    judge: Annotated[Endpoint, SeesImages(lambda config: "image" in config.settings)]
    """The judge under audit."""
    settings: tuple[Setting, ...] = Field(default=SETTINGS, min_length=1)
    """Exposures of the judge: text (as in training), image, targets, unverified."""
    generator: Endpoint | None = None
    """A strong model that writes abnormal responses; not needed with the responses of an earlier audit."""
    red_team: Endpoint | None = None
    """A model that searches for attacks on this judge; without one, the paper's three patterns are used."""
    quality_judges: tuple[Endpoint, ...] = ()
    """Two models that must both confirm the failure mode and the annotation of each abnormal response."""
    per_category: int = Field(default=250, ge=1)
    """Abnormal responses of each failure mode."""
    regular: int | None = Field(default=None, ge=1)
    """Inputs whose regular responses are judged; all by default."""
    search_size: int = Field(default=32, ge=1)
    """Inputs on which the red team's patterns are tried, from the train split if there is one."""
    search_rounds: int = Field(default=2, ge=1)
    """Rounds of proposals; from the second on, the red team sees the earlier results."""
    shard_size: int = Field(default=32, ge=1)
    false_positives_at_most: float | None = Field(default=None, ge=0, le=1)
    """Largest rate of false positives, shown texts as in training, in the failure mode where the judge is worst, by the
    high end of its interval. A judge above it stops the run before the policy is trained on it.
    """

    @model_validator(mode="after")
    def _complete(self) -> "Config":
        if len(set(self.settings)) != len(self.settings):
            raise ValueError("settings holds one twice")
        if self.false_positives_at_most is not None and "text" not in self.settings:
            raise ValueError("settings lacks text, which false_positives_at_most is measured in; add it")
        if self.generator is not None and len(self.quality_judges) != 2:
            count = len(self.quality_judges)
            raise ValueError(f"quality_judges holds {count}; there are exactly two, and both must agree")
        return self


def run(config: Config, job: Job) -> None:
    images = read_images(job.inputs.get("samples")) if "image" in config.settings else {}
    judge = job.client(config.judge, "judge")
    search = SearchResult(PAPER_PATTERNS, ())

    async def audit() -> AuditSet:
        nonlocal search
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(judge)
            if "audit" in job.inputs:
                audit_set = earlier_responses(job.inputs["audit"])
            else:
                generator = await _generator(config, job, stack)
                cases = read_cases(job.inputs["genrm_data"])
                search, search_inputs = await _search(config, job, stack, generator, judge, cases)
                usable = [case for case in cases["test"] if case.sample_id not in search_inputs]
                audit_set = await abnormal_responses(
                    job,
                    generator,
                    one_per_input(usable, config.seed),
                    search.best,
                    per_category=config.per_category,
                    shard_size=config.shard_size,
                    seed=config.seed,
                )
                regular = regular_responses(cases["test"], config.regular, config.seed)
                audit_set = audit_set.with_regular(regular)
            await _judge_all(config, job, judge, audit_set.responses, images)
            return audit_set

    audit_set = asyncio.run(audit())
    summary = _summarise(config, job, audit_set, search)
    write_atomic(job.out / SUMMARY_FILE, summary.model_dump_json(indent=2).encode() + b"\n")
    job.figures.update({"responses": len(audit_set.responses), "dead_letters": count_rows(job.out / "dead_letters")})
    if summary.short_categories:
        job.figures["short"] = {mode: count.model_dump() for mode, count in summary.short_categories.items()}
    with stage_run(job.run, job.stage) as log:
        log.log_metrics(summary.metrics())
    _require_trustworthy(config, job, summary)


def _require_trustworthy(config: Config, job: Job, summary: AuditSummary) -> None:
    """Raise UserError if the judge credits more of what is wrong than the configuration allows."""
    limit = config.false_positives_at_most
    if limit is None:
        return
    worst = summary.worst_false_positives("text")
    if worst is None:
        raise UserError(
            "audit.false_positives_at_most: nothing was audited as in training; leave text in audit.settings, or "
            "leave out the limit"
        )
    mode, rate = worst
    if (high := 1.0 if rate.high is None else rate.high) > limit:
        raise UserError(
            f"{config.judge.rater} credits {rate.value:.0%} of what is wrong in responses of mode {mode} (up to "
            f"{high:.0%} by the 95 % interval), and audit.false_positives_at_most is {limit:.0%}; no policy is trained "
            f"on it: train the judge further, take another, or raise the limit (figures: {job.out / SUMMARY_FILE})"
        )


def read_images(samples: Path | None) -> dict[str, bytes]:
    """Read sample_id → image.

    Raises:
        UserError: no samples are given.
    """
    if samples is None:
        raise UserError("the setting image shows the samples' images: give the samples, or leave the setting out")
    shown = "the setting image shows it"
    return {sample.sample_id: sample.require_image(shown) for sample in read_samples(samples)}


def earlier_responses(table: Path) -> AuditSet:
    """Read the distinct responses of an audit table."""
    distinct: dict[tuple[str, ...], Row] = {}
    for row in read_rows(table, columns=list(RESPONSE_COLUMNS)):
        distinct.setdefault((row["sample_id"], row["mode"], row["response"]), row)
    responses = list(distinct.values())
    counts = {mode: sum(row["mode"] == mode for row in responses) for mode in MODE_NAMES}
    return AuditSet(responses, {mode: ResponseCount(wanted=n, found=n) for mode, n in counts.items()}, {})


async def _generator(config: Config, job: Job, stack: AsyncExitStack) -> CandidateGenerator:
    if config.generator is None:
        raise UserError("no generator is given; name the model that writes abnormal responses, or an earlier audit")
    clients = [job.client(config.generator, "generator")]
    clients += [
        job.client(judge, f"quality judge {number}") for number, judge in enumerate(config.quality_judges, start=1)
    ]
    for client in clients:
        await stack.enter_async_context(client)
    return CandidateGenerator(clients[0], clients[1:], seed=config.seed)


async def _search(
    config: Config,
    job: Job,
    stack: AsyncExitStack,
    generator: CandidateGenerator,
    judge: ChatClient,
    cases: dict[str, list[Case]],
) -> tuple[SearchResult, set[str]]:
    """Run the red-team search; return its result and the test inputs that it used up."""
    if config.red_team is None:
        return SearchResult(PAPER_PATTERNS, ()), set()
    red_team = await stack.enter_async_context(job.client(config.red_team, "red team"))
    search_cases = list(one_per_input(cases.get("train") or cases["test"], config.seed).values())[: config.search_size]
    try:
        result = await search_patterns(
            red_team, generator, Grader(judge), search_cases, rounds=config.search_rounds, seed=config.seed
        )
    except ChatError as error:
        raise UserError(f"the red team proposes no attacks: {error}; mend it, or leave it out") from error
    return result, set() if cases.get("train") else {case.sample_id for case in search_cases}


async def _judge_all(
    config: Config, job: Job, judge: ChatClient, responses: list[Row], images: dict[str, bytes]
) -> None:
    async def grade(row: Row, setting: Setting) -> tuple[Row, list[Row]]:
        letters: list[FailedCall] = []
        sample = Sample(sample_id=row["sample_id"], question=row["question"], image=images.get(row["sample_id"], b""))
        rubric = Rubric.model_validate_json(row["rubric"])
        grader = Grader(judge, exposure=setting, on_error=letters.append)
        scorecard = await grader.grade(sample, row["response"], rubric)
        audit_row = {**row, "setting": setting, "judge": config.judge.rater, "scorecard": scorecard.model_dump_json()}
        return audit_row, [letter for call in letters for letter in grading_dead_letters(job, call)]

    async def make_rows(chunk: list[Row]) -> dict[str, list[Row]]:
        results = await job.calls.gather_all(grade(row, setting) for row in chunk for setting in config.settings)
        return {
            "audit": [row for row, _ in results],
            "dead_letters": [letter for _, letters in results for letter in letters],
        }

    await build_table(
        job.out,
        "audit",
        responses,
        make_rows,
        made_by=job.made_by,
        shard_size=config.shard_size,
        side_tables={"dead_letters": job.out / "dead_letters"},
        progress=job.progress(len(responses), "responses").at,
    )


def _summarise(config: Config, job: Job, audit_set: AuditSet, search: SearchResult) -> AuditSummary:
    cells = table_cells(map(parse_audit_row, read_rows(job.out)))
    if all(cell.average is None for modes in cells.values() for cell in modes.values()):
        job.mark_unusable()
        raise UserError(f"{config.judge.label} judged nothing; see {job.out / 'dead_letters'} for what it answered")
    patterns = (
        {**result.model_dump(), "rate": result.rate, "kept": result.pattern in search.best} for result in search.results
    )
    return AuditSummary(
        judge=config.judge.rater,
        settings=cells,
        responses=audit_set.counts,
        attacks=dict(Counter(row["attack"] for row in audit_set.responses if row["attack"])),
        patterns=tuple(patterns),
        turned_away=audit_set.rejections,
    )
