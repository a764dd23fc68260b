"""Visual questions beside the captions: what a captioner can do besides, and may forget in training on captions.

BalCapRL measures that on general benchmarks (Table 2). A question is of its picture's split, so a student never warms
up on questions about pictures that are held out. Answers are checked by rules alone (`check_by_rules`).
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
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
"""What a model answers to each, and its length in tokens."""


class OtherTask(BaseModel):
    """Where the questions are; those about pictures of other splits are left out."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    source: str
    """A Parquet file or folder, or JSON lines with the images beside them."""
    columns: QuestionColumns = QuestionColumns()
    templates: Templates = Templates()


def digests_of(samples: str, *splits: str) -> dict[str, str]:
    """Digest of a picture → its sample, of the splits that are named."""
    rows = read_rows(samples, columns=["sample_id", "split", "image_digest"])
    return {row["image_digest"]: row["sample_id"] for row in rows if row["split"] in splits}


def questions_about(pictures: Collection[str], task: OtherTask, field: str) -> Iterator[tuple[str, Sample]]:
    """The questions about these pictures, each with its picture's digest, in the order of the source.

    Args:
        pictures: digests.
        field: that names the source in messages.
    Raises:
        UserError: there is no source, or no question in it is about one of them.
    """
    source = fill(task.source, f"{field}.source")
    empty = True
    for number, found in enumerate(question_entries(source, task.columns)):
        item = found if isinstance(found, RejectedEntry) else open_image(found.image)
        if isinstance(found, RejectedEntry) or isinstance(item, RejectedEntry) or item.image_digest not in pictures:
            continue
        empty = False
        yield (
            item.image_digest,
            Sample(
                sample_id=f"question-{number}",
                image=item.image,
                prompt=task.templates.prompt(found.question, found.options),
                references=item.references,
                question=question_with_options(found.question, found.options),
                answer=found.answer,
                task=found.task,
                options=found.options or None,
            ),
        )
    if empty:
        raise UserError(
            f"{field}: {source} asks nothing about the pictures of these samples; give questions about them"
        )


def shares_answered(questions: dict[str, list[Sample]], chunk: list[Sample], respond: Respond) -> dict[str, float]:
    """Sample → the share of the questions about its picture that were answered right; without those that no rule reads.

    Args:
        questions: sample's id → what is asked about its picture.
        chunk: the samples whose questions are put.
    """
    asked = [(sample.sample_id, one) for sample in chunk for one in questions.get(sample.sample_id, ())]
    responses = respond([one for _, one in asked]) if asked else []
    right: dict[str, list[bool]] = defaultdict(list)
    for (sample_id, one), (response, _) in zip(asked, responses, strict=True):
        try:
            right[sample_id].append(check_by_rules(one, response))
        except CannotVerify:  # the reference is at fault, not the model
            continue
    return {sample_id: mean(found) for sample_id, found in right.items()}
