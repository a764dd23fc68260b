"""Questions about images to the `samples` table: read, check, de-duplicate, split, put into a prompt.

Of rows that ask the same about the same picture one is kept; no picture is both held out and trained on, nor in the
warm-up and elsewhere. What cannot be used goes into the table `rejected`, with the reason; `data.json` counts.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath

from pydantic import Field

from rubricworks.data.question_text import Templates, question_with_options
from rubricworks.data.questions import QuestionColumns, QuestionEntry, question_entries
from rubricworks.data.source_entries import RejectedEntry
from rubricworks.data.sources import open_image
from rubricworks.data.tables import build_table
from rubricworks.errors import UserError
from rubricworks.evaluation.corpus_statistics import SourceCounts
from rubricworks.runtime.call_table import Row
from rubricworks.runtime.config import StageConfig, canonical_json
from rubricworks.runtime.job import Job
from rubricworks.runtime.store.source_files import local_source
from rubricworks.stages.data.question_survey import PictureDigests, Survey, draw_splits, sample_id_of, survey_questions
from rubricworks.stages.data.source_splits import as_written, check_splits
from rubricworks.storage import write_atomic

COUNTS = "data.json"


class Config(StageConfig):
    source: str
    """A Parquet file or folder, or JSON lines with the images beside them."""
    name: str = ""
    """Of the corpus, in the statistics; by default the source's own."""
    columns: QuestionColumns = QuestionColumns()
    """Where the source's columns are not found by name."""
    templates: Templates = Templates()
    """The prompts of open and of multiple-choice questions."""
    held_out: int = Field(default=500, ge=1)
    """Questions kept for evaluation, or a few more: a picture's questions stay together."""
    warm_up: int = Field(default=0, ge=0)
    """Questions whose references only the warm-up reads; likewise."""
    max_train: int | None = Field(default=None, ge=1)
    """Take this many for RL, drawn at random; by default all that are left."""
    max_side: int = Field(default=1024, ge=16)
    """Larger images are scaled down to this many pixels on their longer side."""
    shard_size: int = Field(default=256, ge=1)


def run(config: Config, job: Job) -> None:
    source = local_source(config.source)
    pictures = PictureDigests(job.scratch("pictures"), config.max_side)
    survey = survey_questions(question_entries(source, config.columns), pictures)
    different = len({one.image_digest for one in survey.questions.values()})
    if different < 2:
        raise UserError(
            f"{source}: the usable questions are about {different} different images; at least 2 are needed, one to "
            f"train on and one held out{_first_reason(config, source)}"
        )
    splits = draw_splits(
        survey.questions.values(),
        seed=config.seed,
        held_out=config.held_out,
        warm_up=config.warm_up,
        max_train=config.max_train,
    )

    async def make_rows(found: list[QuestionEntry | RejectedEntry]) -> dict[str, list[Row]]:
        rows: dict[str, list[Row]] = {"samples": [], "rejected": []}
        for one in found:
            made = _opened(one, config, survey, splits)
            place = as_written(made["source"], config.source, source)
            rows["rejected" if "reason" in made else "samples"].append({**made, "source": place})
        return rows

    total = len(splits) + len(survey.duplicates) + survey.unusable
    asyncio.run(
        build_table(
            job.out,
            "samples",
            _wanted(question_entries(source, config.columns), survey, splits),
            make_rows,
            made_by=job.made_by,
            shard_size=config.shard_size,
            side_tables={"rejected": job.out / "rejected"},
            progress=job.progress(total, "questions").at,
        )
    )
    check_splits(job, source, "questions")
    counts = _counts(config.name or PurePath(source).stem, survey, splits)
    write_atomic(job.out / COUNTS, canonical_json(counts).encode())


def _wanted(
    found: Iterator[QuestionEntry | RejectedEntry], survey: Survey, splits: dict[str, str]
) -> Iterator[QuestionEntry | RejectedEntry]:
    """All but the good ones that the draw left out."""
    for one in found:
        surveyed = None if isinstance(one, RejectedEntry) else survey.questions.get(one.image.key)
        if surveyed is None or surveyed.sample_id in splits:
            yield one


def _opened(one: QuestionEntry | RejectedEntry, config: Config, survey: Survey, splits: dict[str, str]) -> Row:
    """A row of `samples` or, with a reason, of `rejected`."""
    if isinstance(one, RejectedEntry):
        return one.model_dump()
    if one.image.key in survey.duplicates:
        return {"source": one.image.source, "reason": "the same question about the same picture is there already"}
    item = open_image(one.image, max_side=config.max_side)
    if isinstance(item, RejectedEntry):
        return item.model_dump()
    sample_id = sample_id_of(item.image_digest, one)
    return {
        "sample_id": sample_id,
        "split": splits[sample_id],
        "image": item.image,
        "image_digest": item.image_digest,
        "prompt": config.templates.prompt(one.question, one.options),
        "references": list(item.references),
        "source": item.source,
        "question": question_with_options(one.question, one.options),
        "answer": one.answer,
        "task": one.task,
        "options": list(one.options) or None,
    }


def _counts(name: str, survey: Survey, splits: dict[str, str]) -> SourceCounts:
    questions = survey.questions.values()
    return SourceCounts(
        name=name,
        raw=len(questions) + len(survey.duplicates) + survey.unusable,
        unusable=survey.unusable,
        duplicates=len(survey.duplicates),
        deduplicated=len(questions),
        mcq_ratio=sum(one.multiple_choice for one in questions) / len(questions),
        splits=dict(sorted(Counter(splits.values()).items())),
        tasks=dict(sorted(survey.tasks.items())),
    )


def _first_reason(config: Config, source: str) -> str:
    for one in question_entries(source, config.columns):
        made = one if isinstance(one, RejectedEntry) else open_image(one.image)
        if isinstance(made, RejectedEntry):
            return f" (rejected {made.source}: {made.reason})"
    return ""
