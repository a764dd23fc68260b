"""Build the `samples` table from questions about images: read, check, de-duplicate, split, format the prompts.

Of rows with the same question about the same picture the first is kept. All questions about a picture are in one split
(held out, warm-up or train). Unusable rows go into the table `rejected` with the reason; `data.json` holds the counts.
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
from rubricworks.runtime.preflight_checks import DataSource
from rubricworks.runtime.store.source_files import local_source
from rubricworks.stages.data.question_survey import (
    PictureDigests,
    Survey,
    draw_splits,
    question_sample_id,
    survey_questions,
)
from rubricworks.stages.data.source_splits import check_splits, recipe_path
from rubricworks.storage import write_atomic

COUNTS = "data.json"


class Config(StageConfig):
    source: str
    """A Parquet file or folder, or JSON lines with the images beside them."""
    name: str = ""
    """Name of the corpus in the statistics; the source's own by default."""
    columns: QuestionColumns = QuestionColumns()
    """Columns of the source, where they do not have the expected names."""
    templates: Templates = Templates()
    """The prompts of open and of multiple-choice questions."""
    held_out: int = Field(default=500, ge=1)
    """Questions for evaluation, or a few more, since a picture's questions stay together."""
    warm_up: int = Field(default=0, ge=0)
    """Questions used for the warm-up alone; likewise a few more."""
    max_train: int | None = Field(default=None, ge=1)
    """Number of questions for RL, drawn at random; all remaining ones by default."""
    max_side: int = Field(default=1024, ge=16)
    """Larger images are scaled down to this many pixels on their longer side."""
    shard_size: int = Field(default=256, ge=1)

    @property
    def data_source(self) -> DataSource | None:
        """The source for the checks before a run; None if it is empty."""
        return DataSource(kind="questions", source=self.source, columns=self.columns) if self.source else None


def run(config: Config, job: Job) -> None:
    source = local_source(config.source)
    pictures = PictureDigests(job.scratch("pictures"), config.max_side)
    survey = survey_questions(question_entries(source, config.columns), pictures)
    images = len({question.image_digest for question in survey.questions.values()})
    if images < 2:
        raise UserError(
            f"{source}: the usable questions are about {images} different images; at least 2 are needed, one to "
            f"train on and one held out{_first_reason(config, source)}"
        )
    splits = draw_splits(
        survey.questions.values(),
        seed=config.seed,
        held_out=config.held_out,
        warm_up=config.warm_up,
        max_train=config.max_train,
    )

    async def make_rows(entries: list[QuestionEntry | RejectedEntry]) -> dict[str, list[Row]]:
        rows: dict[str, list[Row]] = {"samples": [], "rejected": []}
        for entry in entries:
            row = _build_row(entry, config, survey, splits)
            place = recipe_path(row["source"], config.source, source)
            rows["rejected" if "reason" in row else "samples"].append({**row, "source": place})
        return rows

    total = len(splits) + len(survey.duplicates) + survey.unusable
    asyncio.run(
        build_table(
            job.out,
            "samples",
            _selected_entries(question_entries(source, config.columns), survey, splits),
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


def _selected_entries(
    entries: Iterator[QuestionEntry | RejectedEntry], survey: Survey, splits: dict[str, str]
) -> Iterator[QuestionEntry | RejectedEntry]:
    """Yield the unusable and duplicate entries, and those questions that have a split."""
    for entry in entries:
        question = None if isinstance(entry, RejectedEntry) else survey.questions.get(entry.image.key)
        if question is None or question.sample_id in splits:
            yield entry


def _build_row(entry: QuestionEntry | RejectedEntry, config: Config, survey: Survey, splits: dict[str, str]) -> Row:
    """Return a row of `samples` or, with a `reason`, of `rejected`."""
    if isinstance(entry, RejectedEntry):
        return entry.model_dump()
    if entry.image.key in survey.duplicates:
        return {"source": entry.image.source, "reason": "the same question about the same picture is there already"}
    item = open_image(entry.image, max_side=config.max_side)
    if isinstance(item, RejectedEntry):
        return item.model_dump()
    sample_id = question_sample_id(item.image_digest, entry)
    return {
        "sample_id": sample_id,
        "split": splits[sample_id],
        "image": item.image,
        "image_digest": item.image_digest,
        "prompt": config.templates.prompt(entry.question, entry.options),
        "references": list(item.references),
        "source": item.source,
        "question": question_with_options(entry.question, entry.options),
        "answer": entry.answer,
        "task": entry.task,
        "options": list(entry.options) or None,
    }


def _counts(name: str, survey: Survey, splits: dict[str, str]) -> SourceCounts:
    questions = survey.questions.values()
    return SourceCounts(
        name=name,
        raw=len(questions) + len(survey.duplicates) + survey.unusable,
        unusable=survey.unusable,
        duplicates=len(survey.duplicates),
        deduplicated=len(questions),
        mcq_ratio=sum(question.multiple_choice for question in questions) / len(questions),
        splits=dict(sorted(Counter(splits.values()).items())),
        tasks=dict(sorted(survey.tasks.items())),
    )


def _first_reason(config: Config, source: str) -> str:
    for entry in question_entries(source, config.columns):
        item = entry if isinstance(entry, RejectedEntry) else open_image(entry.image)
        if isinstance(item, RejectedEntry):
            return f" (rejected {item.source}: {item.reason})"
    return ""
