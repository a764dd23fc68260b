"""Visual question answering alongside captioning: a skill that training on captions may degrade.

BalCapRL measures it on general benchmarks (Table 2). A question belongs to its picture's split, so a student never
warms up on questions about held-out pictures. The stage `score` checks answers by rules alone.
"""

from collections.abc import Collection, Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from rubricworks.data.question_text import Templates, question_with_options
from rubricworks.data.questions import QuestionColumns, QuestionEntry, question_entries
from rubricworks.data.source_entries import RejectedEntry
from rubricworks.data.sources import open_image
from rubricworks.data.tables import Sample, read_rows
from rubricworks.environment import fill
from rubricworks.errors import UserError


class VisualQuestions(BaseModel):
    """Source of visual questions; only those about pictures of the split in use are read."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    source: str
    """A Parquet file or folder, or JSON lines with the images beside them."""
    columns: QuestionColumns = QuestionColumns()
    """Columns of the source."""
    templates: Templates = Templates()
    """Prompt templates."""


def samples_by_digest(samples: str | Path, *splits: str) -> dict[str, str]:
    """Return picture digest → sample id for the given splits."""
    rows = read_rows(samples, columns=["sample_id", "split", "image_digest"])
    return {row["image_digest"]: row["sample_id"] for row in rows if row["split"] in splits}


def questions_about(pictures: Collection[str], task: VisualQuestions, field: str) -> Iterator[tuple[str, Sample]]:
    """Yield the questions about these pictures, each with its picture's digest, in the order of the source.

    Args:
        pictures: picture digests.
        field: recipe field of the source, for messages.
    Raises:
        UserError: the source cannot be read, or has no question about the pictures.
    """
    source = fill(task.source, f"{field}.source")
    empty = True
    for number, entry in enumerate(question_entries(source, task.columns)):
        if (opened := open_question(number, entry, pictures, task)) is not None:
            empty = False
            yield opened
    if empty:
        raise UserError(
            f"{field}: {source} asks nothing about the pictures of these samples; give questions about them"
        )


def open_question(
    number: int, entry: QuestionEntry | RejectedEntry, pictures: Collection[str], task: VisualQuestions
) -> tuple[str, Sample] | None:
    """Open a question's picture; return its digest and the sample, or None for a picture that is unusable or another.

    Args:
        number: of the entry in the source.
    """
    item = entry if isinstance(entry, RejectedEntry) else open_image(entry.image)
    if isinstance(entry, RejectedEntry) or isinstance(item, RejectedEntry) or item.image_digest not in pictures:
        return None
    sample = Sample(
        sample_id=f"question-{number}",
        image=item.image,
        prompt=task.templates.prompt(entry.question, entry.options),
        references=item.references,
        question=question_with_options(entry.question, entry.options),
        answer=entry.answer,
        task=entry.task,
        options=entry.options or None,
    )
    return item.image_digest, sample
