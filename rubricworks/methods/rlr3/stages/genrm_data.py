"""Label responses of the base policy by several teachers, as training data of a GenRM (RLR³, sections 4.4 and 5.4).

The samples are the policy's: those that pass the offline filter. Every teacher executes the rubric of every response;
the label is the median per criterion. The data is balanced by whether any criterion loses credit, and split so that no
sample and no image is in both splits. Training responses that balancing drops stay in the table under the split
`left_out`; `statistics.json` is the paper's Table 3. The side table `labelled` holds every labelled response, before
the draw.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from pydantic import Field, field_validator

from rubricworks.data.tables import Sample, build_table, read_rows, read_rubrics, read_samples
from rubricworks.errors import UserError
from rubricworks.grading import FailedCall, Scoring, check_scoring, scoring_messages, scoring_request
from rubricworks.llm import ChatClient, ChatError, Endpoint
from rubricworks.methods.rlr3.genrm_labels import loses_credit, median_label, write_scoring
from rubricworks.methods.rlr3.genrm_statistics import data_statistics
from rubricworks.methods.rlr3.stages.genrm_splits import LabelledResponse, draw_genrm_splits
from rubricworks.methods.rlr3.stages.sampled_responses import (
    ResponseSampler,
    SampledResponses,
    draw_ahead,
    response_sampler,
)
from rubricworks.rubrics import ErrorClass, Response, Rubric
from rubricworks.runtime.call_table import Answers, Row, ask_all, grading_dead_letters
from rubricworks.runtime.config import StageConfig, canonical_json
from rubricworks.runtime.job import Job
from rubricworks.runtime.pods.fan_out import part_from_environment
from rubricworks.stages.data.source_splits import hash_order
from rubricworks.storage import write_atomic
from rubricworks.training.config import EngineOptions

STATISTICS = "statistics.json"
_SHARD_ROWS = 4_096


class Config(StageConfig):
    teachers: tuple[Endpoint, ...] = Field(min_length=2)
    """Each executes every rubric independently; with an odd number the median is one of their credits."""
    responses_each: int = Field(default=4, ge=1)
    """Responses of the base policy to each training sample; duplicates count once."""
    samples: int | None = Field(default=None, ge=1)
    """Most training samples to label responses of, drawn at random; all by default."""
    temperature: float = Field(default=1.0, gt=0)
    max_new_tokens: int = Field(default=6144, ge=1)
    batch_size: int = Field(default=64, ge=1)
    """Responses per generation batch."""
    engine: EngineOptions = EngineOptions()
    """Engine that writes the responses: `{kind: vllm}` on GPUs."""
    test: int = Field(default=1000, ge=2)
    """Labelled responses of the test split."""
    reasoning: bool = True
    """Keep the teachers' thought and rationales in the labels, which SFT imitates; RLVR rewards credits and values
    alone. Off, both are empty, for a GenRM too small to write them.
    """
    balance: bool = True
    """Equally many responses that lose credit and that do not, by dropping surplus ones."""
    shard_size: int = Field(default=32, ge=1)
    """Samples per commit."""

    @field_validator("teachers")
    @classmethod
    def _differ(cls, teachers: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
        if len({(teacher.urls, teacher.model) for teacher in teachers}) < len(teachers):
            raise ValueError("a teacher is there twice; its two scorings would be the same")
        return teachers


def run(config: Config, job: Job) -> None:
    load = partial(
        response_sampler,
        job.inputs["model"],
        each=config.responses_each,
        temperature=config.temperature,
        max_new_tokens=config.max_new_tokens,
        batch_size=config.batch_size,
        seed=config.seed,
        engine=config.engine,
    )
    label_responses(config, job, load)


def label_responses(config: Config, job: Job, load: Callable[[], ResponseSampler]) -> None:
    """Label the responses of a sampler and write tables and statistics; tests load one without a model."""
    rubrics = read_rubrics(job.inputs["rubrics"])
    if "filtered" in job.inputs:
        passing = read_rows(job.inputs["filtered"], columns=["sample_id", "kept"])
        rubrics = {row["sample_id"]: rubrics[row["sample_id"]] for row in passing if row["kept"]}
    digests = {
        row["sample_id"]: row["image_digest"]
        for row in read_rows(job.inputs["samples"], columns=["sample_id", "split", "image_digest"])
        if row["split"] == "train" and row["sample_id"] in rubrics
    }
    drawn = set(hash_order(digests, config.seed)[: config.samples])
    rubrics = {name: rubric for name, rubric in rubrics.items() if name in drawn}
    _label(config, job, load, rubrics, len(drawn))
    if part_from_environment():
        return
    rows = list(read_rows(job.out / "labelled", columns=["sample_id", "loses_credit"]))
    responses = [LabelledResponse(row["sample_id"], digests[row["sample_id"]], row["loses_credit"]) for row in rows]
    try:
        splits = draw_genrm_splits(responses, test=config.test, balance=config.balance, seed=config.seed)
    except UserError:
        job.mark_unusable()
        raise
    asyncio.run(_write_splits(job, splits))
    used = (row for row in read_rows(job.out) if row["split"] != "left_out")
    statistics = {split: values.model_dump() for split, values in data_statistics(used).items()}
    write_atomic(job.out / STATISTICS, canonical_json(statistics).encode())
    job.figures.update({split: values["instances"] for split, values in statistics.items()})


def _label(
    config: Config, job: Job, load: Callable[[], ResponseSampler], rubrics: dict[str, Rubric], total: int
) -> None:
    """Write the table `labelled`; responses are drawn while the teachers answer about those before."""
    teachers = [job.client(teacher, "teacher") for teacher in config.teachers]

    async def label(drawn: SampledResponses) -> Answers:
        sample, rubric = drawn.sample, rubrics[drawn.sample.sample_id]
        labellings = await job.calls.gather_all(
            _label_one(config, job, teachers, sample, response, rubric) for response in dict.fromkeys(drawn.responses)
        )
        return Answers(
            [labelling.row for labelling in labellings if labelling.row],
            [letter for labelling in labellings for letter in labelling.dead_letters],
        )

    ask_all(
        job,
        "genrm_data",
        (sample for sample in read_samples(job.inputs["samples"], "train") if sample.sample_id in rubrics),
        label,
        total=total,
        shard_size=config.shard_size,
        clients=teachers,
        place="labelled",
        load_drawing=partial(draw_ahead, load),
        accelerators=config.engine.accelerators,
    )


class _Labelling(NamedTuple):
    row: Row | None
    dead_letters: list[Row]


async def _label_one(
    config: Config, job: Job, teachers: Sequence[ChatClient], sample: Sample, response: str, rubric: Rubric
) -> _Labelling:
    """Label one response; no row if fewer than two teachers scored it or the label has no runnable call."""
    letters: list[Row] = []

    def add_letters(teacher: str, error: ChatError) -> None:
        titles = tuple(criterion.criterion for criterion in rubric.criteria)
        call = FailedCall(sample.sample_id, Response.of(response), teacher, titles, error)
        letters.extend(grading_dead_letters(job, call))

    request = scoring_request(sample, response, rubric)
    messages = scoring_messages(request)

    async def ask(teacher: ChatClient) -> Scoring | None:
        try:
            reply = await teacher.chat(messages, Scoring, check=lambda scoring: check_scoring(scoring, request))
        except ChatError as error:
            add_letters(teacher.endpoint.model, error)
            return None
        return reply.value

    answers = await asyncio.gather(*map(ask, teachers))
    scorings = [scoring for scoring in answers if scoring is not None]
    letters.sort(key=lambda letter: (letter["purpose"], letter["criterion"]))
    if len(scorings) < 2:
        return _Labelling(None, letters)
    try:
        label = await asyncio.to_thread(median_label, scorings, rubric, reasoning=config.reasoning)
        loses = await asyncio.to_thread(loses_credit, label, rubric)
    except UserError:
        raise
    except ValueError as error:
        add_letters("all teachers", ChatError(ErrorClass.UNVERIFIABLE, str(error), attempts=0))
        return _Labelling(None, letters)
    row = {
        "sample_id": sample.sample_id,
        "split": "",
        "question": request.question,
        "response": response,
        "rubric": rubric.model_dump_json(),
        "label": write_scoring(label),
        "task": sample.task,
        "loses_credit": loses,
    }
    return _Labelling(row, letters)


async def _write_splits(job: Job, splits: dict[int, str]) -> None:
    """Write the drawn rows, each with its split."""

    def rows() -> Iterator[Row]:
        for number, row in enumerate(read_rows(job.out / "labelled")):
            if number in splits:
                yield {**row, "split": splits[number]}

    async def unchanged(chunk: list[Row]) -> list[Row]:
        return chunk

    await build_table(job.out, "genrm_data", rows(), unchanged, made_by=job.made_by, shard_size=_SHARD_ROWS)
