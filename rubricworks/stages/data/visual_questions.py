"""Visual question answering beside captioning: a skill that training on captions may degrade.

BalCapRL measures it on general benchmarks (Table 2). A question belongs to its picture's split, so a student never
warms up on questions about held-out pictures. Answers are checked by rules alone (`check_by_rules`).
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from statistics import mean

from pydantic import BaseModel, ConfigDict

from rubricworks.data.question_text import Templates, question_with_options
from rubricworks.data.questions import QuestionColumns, question_entries
from rubricworks.data.source_entries import RejectedEntry
from rubricworks.data.sources import open_image
from rubricworks.data.tables import Sample, read_rows
from rubricworks.environment import fill
from rubricworks.errors import UserError
from rubricworks.evaluation.scorers.answers import check_by_rules
from rubricworks.verifiers import CannotVerify

Respond = Callable[[list[Sample]], list[tuple[str, int]]]
"""Samples → each response and its length in tokens."""


class VisualQuestions(BaseModel):
    """Source of visual questions; only those about pictures of the split in use are read."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    source: str
    """A Parquet file or folder, or JSON lines with the images beside them."""
    columns: QuestionColumns = QuestionColumns()
    templates: Templates = Templates()


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
        item = entry if isinstance(entry, RejectedEntry) else open_image(entry.image)
        if isinstance(entry, RejectedEntry) or isinstance(item, RejectedEntry) or item.image_digest not in pictures:
            continue
        empty = False
        yield (
            item.image_digest,
            Sample(
                sample_id=f"question-{number}",
                image=item.image,
                prompt=task.templates.prompt(entry.question, entry.options),
                references=item.references,
                question=question_with_options(entry.question, entry.options),
                answer=entry.answer,
                task=entry.task,
                options=entry.options or None,
            ),
        )
    if empty:
        raise UserError(
            f"{field}: {source} asks nothing about the pictures of these samples; give questions about them"
        )


def answer_accuracies(questions: dict[str, list[Sample]], chunk: list[Sample], respond: Respond) -> dict[str, float]:
    """Ask the questions about the samples' pictures and return sample id → share of correct answers.

    Questions whose reference no rule can read are left out.

    Args:
        questions: sample id → questions about its picture.
        chunk: samples whose questions are asked.
        respond: the model under test.
    """
    pairs = [(sample.sample_id, question) for sample in chunk for question in questions.get(sample.sample_id, ())]
    responses = respond([question for _, question in pairs]) if pairs else []
    correct: dict[str, list[bool]] = defaultdict(list)
    for (sample_id, question), (response, _) in zip(pairs, responses, strict=True):
        try:
            correct[sample_id].append(check_by_rules(question, response))
        except CannotVerify:  # the reference is at fault, not the model
            continue
    return {sample_id: mean(values) for sample_id, values in correct.items()}
