"""Visual questions about the pictures of a samples table, as a samples table of their own."""

import asyncio
import os
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rubricworks.data.manifest import Manifest
from rubricworks.data.questions import QuestionEntry, question_entries
from rubricworks.data.source_entries import RejectedEntry
from rubricworks.data.tables import build_table
from rubricworks.environment import fill
from rubricworks.errors import UserError
from rubricworks.runtime.call_table import Row
from rubricworks.runtime.job import Job
from rubricworks.stages.data.visual_questions import VisualQuestions, open_question, samples_by_digest

_SHARD = 1_024


def write_questions(
    job: Job, folder: Path, questions: VisualQuestions, splits: Iterable[str], field: str, *, split: str = "train"
) -> Manifest:
    """Write the questions about the pictures of some splits of the job's samples.

    Pictures are decoded by a thread per core. A killed call resumes at the first shard that is not committed, without
    opening the pictures before it.

    Args:
        splits: none for all questions of the source, whose pictures are then its own.
        field: recipe field of the questions, for messages.
        split: split of the rows.
    Raises:
        UserError: the source cannot be read, or has no question about the pictures.
    """
    splits = tuple(splits)
    pictures: Collection[str] = samples_by_digest(job.inputs["samples"], *splits) if splits else _AnyPicture()
    source = fill(questions.source, f"{field}.source")

    def open_row(entry: tuple[int, QuestionEntry | RejectedEntry]) -> Row | None:
        opened = open_question(*entry, pictures, questions)
        if opened is None:
            return None
        digest, sample = opened
        options = list(sample.options) if sample.options else None
        return {
            **sample.model_dump(),
            "split": split,
            "references": [],
            "image_digest": digest,
            "options": options,
        }

    with ThreadPoolExecutor(os.cpu_count()) as pool:

        async def rows(chunk: list[tuple[int, QuestionEntry | RejectedEntry]]) -> list[Row]:
            return [row for row in pool.map(open_row, chunk) if row is not None]

        table = build_table(
            folder,
            "samples",
            enumerate(question_entries(source, questions.columns)),
            rows,
            made_by=job.made_by,
            shard_size=_SHARD,
        )
        manifest = asyncio.run(table)
    if not manifest.rows:
        raise UserError(
            f"{field}: {source} asks nothing about the pictures of these samples; give questions about them"
        )
    return manifest


class _AnyPicture(Collection[str]):
    def __contains__(self, digest: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0
