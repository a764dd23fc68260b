"""Build the `samples` table from questions about images: read, check, de-duplicate, split, format the prompts.

Of rows with the same question about the same picture the first is kept, whichever corpus the others are from. All
questions about a picture are in one split (held out, warm-up or train). Unusable rows go into the table `rejected` with
the reason; `data.json` holds the counts, of each corpus where there are several.
"""

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from rubricworks.data.question_text import Templates, question_with_options
from rubricworks.data.questions import QuestionColumns, QuestionEntry, question_entries
from rubricworks.data.source_entries import RejectedEntry
from rubricworks.data.sources import open_image
from rubricworks.data.tables import build_table
from rubricworks.errors import UserError
from rubricworks.evaluation.corpus_statistics import SourceCounts, sum_counts
from rubricworks.runtime.call_table import Row
from rubricworks.runtime.config import StageConfig, canonical_json
from rubricworks.runtime.job import Job
from rubricworks.runtime.preflight_checks import DataSource
from rubricworks.runtime.store.source_files import local_source
from rubricworks.stages.data.question_survey import (
    PictureDigests,
    Survey,
    draw_splits,
    merge_surveys,
    question_sample_id,
    survey_questions,
)
from rubricworks.stages.data.source_splits import check_splits, recipe_path
from rubricworks.storage import write_atomic

COUNTS = "data.json"


class QuestionSource(BaseModel):
    """One corpus of several."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str = Field(min_length=1)
    """A Parquet file or folder, or JSON lines with the images beside them."""
    name: str = ""
    """Name of the corpus in the statistics; the source's own by default."""
    columns: QuestionColumns = QuestionColumns()
    """Names of the source's columns if they differ from the expected ones."""


class Config(StageConfig):
    source: str
    """A Parquet file or folder, or JSON lines with the images beside them."""
    name: str = ""
    """Name of the corpus in the statistics; the source's own by default."""
    columns: QuestionColumns = QuestionColumns()
    """Columns of the source, where they do not have the expected names."""
    more: tuple[QuestionSource, ...] = ()
    """Further corpora of the same run, mixed with the first. The statistics have a row for each."""
    templates: Templates = Templates()
    """The prompts of open and of multiple-choice questions."""
    held_out: int = Field(default=500, ge=1)
    """Questions for evaluation, or a few more, since a picture's questions stay together."""
    warm_up: int = Field(default=0, ge=0)
    """Questions used only for the warm-up; may be slightly exceeded, too."""
    max_train: int | None = Field(default=None, ge=1)
    """Number of questions for RL, drawn at random; all remaining ones by default."""
    max_side: int = Field(default=1024, ge=16)
    """Larger images are scaled down to this many pixels on their longer side."""
    shard_size: int = Field(default=256, ge=1)

    @property
    def data_source(self) -> DataSource | None:
        """The source for the checks before a run; None if it is empty."""
        if not self.source:
            return None
        more = tuple(DataSource(kind="questions", source=source.source, columns=source.columns) for source in self.more)
        return DataSource(kind="questions", source=self.source, columns=self.columns, more=more)


class Corpus(NamedTuple):
    """A corpus on this machine."""

    number: int
    given: QuestionSource
    source: str

    def entries(self) -> Iterator[QuestionEntry | RejectedEntry]:
        """Entries of this corpus; from the second corpus on, their keys begin with its number, so that keys of two
        corpora never coincide.
        """
        for entry in question_entries(self.source, self.given.columns):
            if self.number and isinstance(entry, QuestionEntry):
                image = dataclasses.replace(entry.image, key=f"{self.number}:{entry.image.key}")
                entry = dataclasses.replace(entry, image=image)
            yield entry


_Entry = tuple[Corpus, QuestionEntry | RejectedEntry]


def run(config: Config, job: Job) -> None:
    corpora = config_corpora(config)
    source = ", ".join(corpus.source for corpus in corpora)
    surveys = survey_corpora(corpora, PictureDigests(job.scratch("pictures"), config.max_side))
    survey = merge_surveys(surveys)
    images = len({question.image_digest for question in survey.questions.values()})
    if images < 2:
        raise UserError(
            f"{source}: the usable questions are about {images} different images; at least 2 are needed, one to "
            f"train on and one held out{_first_reason(corpora)}"
        )
    splits = question_splits(config, survey)

    async def make_rows(entries: list[_Entry]) -> dict[str, list[Row]]:
        rows: dict[str, list[Row]] = {"samples": [], "rejected": []}
        for corpus, entry in entries:
            row = _build_row(entry, config, survey, splits)
            place = recipe_path(row["source"], corpus.given.source, corpus.source)
            rows["rejected" if "reason" in row else "samples"].append({**row, "source": place})
        return rows

    total = len(splits) + len(survey.duplicates) + survey.unusable
    asyncio.run(
        build_table(
            job.out,
            "samples",
            ((corpus, entry) for corpus in corpora for entry in _selected_entries(corpus.entries(), survey, splits)),
            make_rows,
            made_by=job.made_by,
            shard_size=config.shard_size,
            side_tables={"rejected": job.out / "rejected"},
            progress=job.progress(total, "questions").at,
        )
    )
    check_splits(job, source, "questions")
    of_corpora = [_counts(corpus, survey, splits) for corpus, survey in zip(corpora, surveys, strict=True)]
    counts = of_corpora[0] if len(of_corpora) == 1 else sum_counts(of_corpora)
    write_atomic(job.out / COUNTS, canonical_json(counts).encode())


def config_corpora(config: Config) -> list[Corpus]:
    """Corpora of a configuration, the first one first."""
    first = QuestionSource.model_construct(source=config.source, name=config.name, columns=config.columns)
    return [Corpus(number, source, local_source(source.source)) for number, source in enumerate((first, *config.more))]


def survey_corpora(corpora: Sequence[Corpus], pictures: PictureDigests) -> list[Survey]:
    """Survey of each corpus; a question that an earlier one has is a duplicate."""
    sample_ids: set[str] = set()
    return [survey_questions(corpus.entries(), pictures, sample_ids) for corpus in corpora]


def question_splits(config: Config, survey: Survey) -> dict[str, str]:
    """Sample id → split, as the configuration draws them."""
    return draw_splits(
        survey.questions.values(),
        seed=config.seed,
        held_out=config.held_out,
        warm_up=config.warm_up,
        max_train=config.max_train,
    )


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


def _counts(corpus: Corpus, survey: Survey, splits: dict[str, str]) -> SourceCounts:
    questions = survey.questions.values()
    own = (splits[question.sample_id] for question in questions if question.sample_id in splits)
    return SourceCounts(
        name=corpus.given.name or PurePath(corpus.source).stem,
        source=corpus.given.source,
        raw=len(questions) + len(survey.duplicates) + survey.unusable,
        unusable=survey.unusable,
        duplicates=len(survey.duplicates),
        deduplicated=len(questions),
        mcq_ratio=sum(question.multiple_choice for question in questions) / max(1, len(questions)),
        splits=dict(sorted(Counter(own).items())),
        tasks=dict(sorted(survey.tasks.items())),
    )


def _first_reason(corpora: list[Corpus]) -> str:
    for corpus in corpora:
        for entry in corpus.entries():
            item = entry if isinstance(entry, RejectedEntry) else open_image(entry.image)
            if isinstance(item, RejectedEntry):
                return f" (rejected {item.source}: {item.reason})"
    return ""
