"""Filter the training samples to those that the base model fails on, by 8 graded rollouts each (RLR³, section 5.1).

A sample passes the rule `any` if some rollout fails a criterion, and `essential` if some rollout fails an essential
one; the paper trains on the second. A credit below 0.5 fails, as in the reward: the paper filters by "no credit", and
has one convention for scores (4.3.2). Half credit does not fail; a verifier's 0.3 for a wrong text, box or point does.
Rollouts that were not judged completely count for neither, nor for the mean. A sample whose prompt is too long gets no
rollouts, is not kept, and stands in the table `overlong`.
`statistics.json`, next to the table `filtered`, is the corpus's row of the paper's Table 1.

With `audit`, the checklists are tried on the rollouts before anything is trained on them (`rubric_gate`); those of the
checklists that are drawn for it are kept in the table `audited_responses`.
"""

import asyncio
import json
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import compress
from pathlib import Path

from pydantic import Field

from rubricworks.data.rubric_sets import RubricEntry
from rubricworks.data.tables import Sample, count_rows, read_rows, read_rubrics, read_samples
from rubricworks.errors import UserError
from rubricworks.evaluation.corpus_statistics import GradedSample, Rule, SourceCounts, corpus_of, corpus_statistics
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.methods.rlr3.stages.sampled_responses import (
    ResponseSampler,
    SampledResponses,
    draw_ahead,
    response_sampler,
)
from rubricworks.rewards import weighted_reward
from rubricworks.rubrics import Rubric, Scorecard
from rubricworks.runtime.call_table import Answers, Row, ask_all, grading_dead_letters
from rubricworks.runtime.config import StageConfig, canonical_json
from rubricworks.runtime.job import Job
from rubricworks.runtime.pods.fan_out import part_from_environment
from rubricworks.stages.data.prepare_questions import COUNTS
from rubricworks.stages.synthesis.rubric_gate import AuditGate, AuditOption, audit_before_training, drawn_entries
from rubricworks.storage import write_atomic
from rubricworks.training.config import EngineOptions

THRESHOLD = 0.5
"""The paper's tau: a credit below it fails its criterion."""
STATISTICS = "statistics.json"
_AUDITED = "audited_responses"
_BEST = 4
"""Rollouts that a checklist is tried on, beside the reference answer."""


class Config(StageConfig):
    judge: Endpoint
    """Executes the rubrics."""
    rollouts: int = Field(default=8, ge=1)
    """Responses of the base model to each sample."""
    keep: Rule = "essential"
    """Rule of the training, which decides the column `kept`. `all` keeps every sample that could be judged."""
    temperature: float = Field(default=1.0, gt=0)
    max_new_tokens: int = Field(default=6144, ge=1)
    max_prompt_tokens: int | None = Field(default=2048, ge=1)
    """Longest prompt with its image, in tokens of the base model. The paper uses 4,096 for DeepVision, whose inputs are
    long, with 12,288 for responses.
    """
    batch_size: int = Field(default=64, ge=1)
    """Responses per generation batch."""
    engine: EngineOptions = EngineOptions()
    """Engine that writes the responses: `{kind: vllm}` on GPUs."""
    audit: AuditOption | None = None
    """Audit of checklists before training, `warn` or `refuse`, by the policy's judges; none by default."""
    shard_size: int = Field(default=32, ge=1)
    """Samples per commit."""


def run(config: Config, job: Job) -> None:
    load = partial(
        response_sampler,
        job.inputs["model"],
        each=config.rollouts,
        temperature=config.temperature,
        max_new_tokens=config.max_new_tokens,
        batch_size=config.batch_size,
        seed=config.seed,
        max_prompt_tokens=config.max_prompt_tokens,
        engine=config.engine,
    )
    filter_samples(config, job, load)


def filter_samples(config: Config, job: Job, load: Callable[[], ResponseSampler]) -> None:
    """Grade the responses of a sampler and write table and statistics; tests load one without a model."""
    rubrics = read_rubrics(job.inputs["rubrics"])
    audited: list[RubricEntry] = []
    if config.audit:
        audited = drawn_entries(
            config.audit, job.inputs["samples"], job.inputs["rubrics"], seed=config.seed, subject="answer"
        )
    _build(config, job, load, rubrics, audited)
    if part_from_environment():
        return
    source = None
    if "questions" in job.inputs:
        source = SourceCounts.model_validate_json((job.inputs["questions"] / COUNTS).read_bytes())
    graded = list(_graded(job.inputs["samples"], job.out))
    statistics = corpus_statistics((sample for _, sample in graded), config.keep, source)
    if source and source.corpora:
        by_corpus: dict[int | None, list[GradedSample]] = {}
        for place, sample in graded:
            by_corpus.setdefault(corpus_of(place, source.corpora), []).append(sample)
        rows = (
            corpus_statistics(by_corpus.get(number, ()), config.keep, corpus)
            for number, corpus in enumerate(source.corpora)
        )
        statistics = statistics.model_copy(update={"corpora": tuple(rows)})
    write_atomic(job.out / STATISTICS, canonical_json(statistics).encode())
    letters = count_rows(job.out / "dead_letters")
    job.figures["kept"] = statistics.kept
    if overlong := count_rows(job.out / "overlong"):
        job.figures["overlong"] = overlong
        warnings.warn(
            f"{overlong} prompts are longer than filter.max_prompt_tokens, {config.max_prompt_tokens}, and are not "
            f"trained on; they are in {job.out / 'overlong'}",
            stacklevel=2,
        )
    if not statistics.kept:
        job.mark_unusable()
        raise UserError(
            f"the rule {config.keep!r} keeps none of {statistics.graded} graded samples ({len(rubrics)} rubrics, "
            f"{letters} dead letters in {job.out / 'dead_letters'}), so nothing is left to train on; set keep to any "
            "or all, or look at the rubrics"
        )
    if config.audit:
        _audit(config.audit, job, audited)


def _audit(gate: AuditGate, job: Job, entries: Sequence[RubricEntry]) -> None:
    """Audit the drawn checklists by their samples' best rollouts."""
    rewards = {row["sample_id"]: json.loads(row["rewards"]) for row in read_rows(job.out)}
    rollouts: defaultdict[str, list[str]] = defaultdict(list)
    for row in read_rows(job.out / _AUDITED, columns=["sample_id", "response"]):
        rollouts[row["sample_id"]].append(row["response"])
    responses = {}
    for name, texts in rollouts.items():
        judged = [(reward, text) for reward, text in zip(rewards[name], texts, strict=True) if reward is not None]
        # The sort is stable: rollouts of one reward stay in the order in which they were drawn.
        best = dict.fromkeys(text for _, text in sorted(judged, key=lambda scored: -scored[0]))
        responses[name] = list(best)[:_BEST]
    audit_before_training(
        gate,
        job,
        entries,
        responses,
        subject="answer",
        option="filter.audit",
        remedy="mend them by checklists.teachers, merger or examiner",
    )


def _build(
    config: Config,
    job: Job,
    load: Callable[[], ResponseSampler],
    rubrics: dict[str, Rubric],
    audited: Sequence[RubricEntry],
) -> None:
    """Write the table; responses are drawn while the judge answers about those before."""
    judge = job.client(config.judge, "judge")
    sample_ids = {entry.sample_id for entry in audited}
    too_long = f"its prompt has more than {config.max_prompt_tokens} tokens"

    async def grade(drawn: SampledResponses) -> Answers:
        sample, responses = drawn
        row, letters = await _filter(sample, responses, rubrics[sample.sample_id], config, job, judge)
        to_audit = responses if sample.sample_id in sample_ids else ()
        side_tables = {
            "overlong": [] if responses else [{"sample_id": sample.sample_id, "reason": too_long}],
            _AUDITED: [{"sample_id": sample.sample_id, "response": text} for text in to_audit],
        }
        return Answers([row], letters, side_tables)

    ask_all(
        job,
        "filtered",
        (sample for sample in read_samples(job.inputs["samples"], "train") if sample.sample_id in rubrics),
        grade,
        total=_count(job.inputs["samples"], rubrics),
        shard_size=config.shard_size,
        clients=[judge],
        side_tables=("overlong", *([_AUDITED] if config.audit else [])),
        load_drawing=partial(draw_ahead, load),
        accelerators=config.engine.accelerators,
    )


async def _filter(
    sample: Sample, responses: Sequence[str], rubric: Rubric, config: Config, job: Job, judge: ChatClient
) -> tuple[Row, list[Row]]:
    """Return the sample's row and the dead letters of its grading."""
    letters: list[Row] = []
    grader = Grader(judge, on_error=lambda call: letters.extend(grading_dead_letters(job, call)))
    scorecards = await asyncio.gather(*(grader.grade(sample, response, rubric) for response in responses))
    graded = grade_sample(scorecards, rubric, multiple_choice=bool(sample.options))
    row = {
        "sample_id": sample.sample_id,
        "any": graded.any,
        "essential": graded.essential,
        "kept": graded.passes(config.keep),
        "multiple_choice": graded.multiple_choice,
        "rewards": json.dumps([weighted_reward(scorecard.credits, rubric.weights) for scorecard in scorecards]),
        "initial_reward": graded.initial_reward,
    }
    return row, sorted(letters, key=lambda letter: (letter["response"], letter["criterion"] or "", letter["raw"]))


def grade_sample(scorecards: Sequence[Scorecard], rubric: Rubric, *, multiple_choice: bool) -> GradedSample:
    """Combine the scorecards of a sample's rollouts, without those that were not judged completely."""
    judged = [scorecard.credits for scorecard in scorecards if scorecard.complete]
    rewards = [reward for credits in judged if (reward := weighted_reward(credits, rubric.weights)) is not None]
    failed = [[credit is not None and credit < THRESHOLD for credit in credits] for credits in judged]
    return GradedSample(
        multiple_choice=multiple_choice,
        any=any(any(fails) for fails in failed),
        essential=any(any(compress(fails, rubric.essential)) for fails in failed),
        initial_reward=sum(rewards) / len(rewards) if rewards else None,
    )


def _graded(samples: Path, filtered: Path) -> Iterator[tuple[str, GradedSample]]:
    """Yield the place and the grades of every training sample; a sample without a row has no rubric."""
    rows = {row["sample_id"]: row for row in read_rows(filtered)}
    for sample in read_rows(samples, columns=["sample_id", "split", "options", "source"]):
        if sample["split"] == "train":
            row = rows.get(sample["sample_id"])
            if row is None:
                yield sample["source"], GradedSample(multiple_choice=bool(sample["options"]))
            else:
                yield sample["source"], GradedSample(*(row[name] for name in GradedSample._fields))


def _count(samples: Path, rubrics: dict[str, Rubric]) -> int:
    rows = read_rows(samples, columns=["sample_id", "split"])
    return sum(row["split"] == "train" and row["sample_id"] in rubrics for row in rows)
