"""Visual questions about the pictures of a samples table, as a samples table of their own."""

import asyncio
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from rubricworks.data.images import image_digest
from rubricworks.data.manifest import Manifest
from rubricworks.data.tables import Sample, build_table
from rubricworks.runtime.call_table import Row
from rubricworks.runtime.job import Job
from rubricworks.stages.data.visual_questions import VisualQuestions, questions_about, samples_by_digest

_SHARD = 1_024


def write_questions(
    job: Job, folder: Path, questions: VisualQuestions, splits: Iterable[str], field: str, *, split: str = "train"
) -> Manifest:
    """Write the questions about the pictures of some splits of the job's samples.

    Args:
        splits: none for all questions of the source, whose pictures are then its own.
        field: recipe field of the questions, for messages.
        split: split of the rows.
    """
    splits = tuple(splits)
    pictures: Collection[str] = samples_by_digest(job.inputs["samples"], *splits) if splits else _AnyPicture()

    async def rows(chunk: list[tuple[str, Sample]]) -> list[Row]:
        return [_row(sample, split) for _, sample in chunk]

    table = build_table(
        folder, "samples", questions_about(pictures, questions, field), rows, made_by=job.made_by, shard_size=_SHARD
    )
    return asyncio.run(table)


class _AnyPicture(Collection[str]):
    def __contains__(self, digest: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _row(sample: Sample, split: str) -> Row:
    row = sample.model_dump()
    image = sample.require_image("a visual question is about it")
    options = list(sample.options) if sample.options else None
    return {**row, "split": split, "references": [], "image_digest": image_digest(image), "options": options}
