"""Multiple-choice questions become open ones where a VLM says that they can (RLR³, section 5.1).

The result is the table `samples` again, under the same ids. Only question, answer, options, prompt and the boxes of
the worked answers change, and only where both of the VLM's checks hold: a letter in a box becomes the option's text.
Where the VLM gives no usable answer the sample stays as it is, and a dead letter keeps what it said.
"""

from collections import Counter
from typing import NamedTuple

from pydantic import Field

from rubricworks.data.question_text import Templates, box_span, option_by_letter, question_without_options
from rubricworks.data.tables import read_rows
from rubricworks.llm import ChatError, Endpoint
from rubricworks.runtime.call_table import Answers, Row, ask_all, dead_letter
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job
from rubricworks.synthesis.open_ended_prompts import Opening, check_open_ended, open_ended_messages


class Config(StageConfig):
    opener: Endpoint | None = None
    """A vision-language model; without one every question stays what it is."""
    templates: Templates = Templates()
    """The prompts; a question that is opened gets the one of open questions."""
    shard_size: int = Field(default=64, ge=1)


class Choice(NamedTuple):
    """A multiple-choice question taken apart."""

    question: str
    options: tuple[str, ...]
    right: str
    """The right option's text."""


def run(config: Config, job: Job) -> None:
    client = job.client(config.opener, "opening") if config.opener else None
    said: Counter[str] = Counter()

    async def convert(row: Row) -> Answers:
        choice = choice_of(row)
        if client is None or choice is None:
            return Answers([row], [])
        messages = open_ended_messages(row["image"], *choice)
        try:
            reply = await client.chat(messages, Opening, check=lambda opening: check_open_ended(opening, choice.right))
        except ChatError as error:
            said["failed"] += 1
            return Answers([row], [dead_letter(row["sample_id"], job, f"opening by {client.endpoint.model}", error)])
        opening = reply.value
        said["opened" if opening.passes else "not unique" if opening.well_posed else "not well-posed"] += 1
        return Answers([opened(row, choice, opening.question, config.templates) if opening.passes else row], [])

    samples = job.inputs["samples"]
    ask_all(
        job,
        "samples",
        read_rows(samples),
        convert,
        total=sum(1 for _ in read_rows(samples, columns=["sample_id"])),
        shard_size=config.shard_size,
        clients=[client] if client else [],
    )
    job.figures["multiple_choice"] = dict(said)


def choice_of(row: Row) -> Choice | None:
    """The parts of a multiple-choice sample; None for an open one."""
    options = tuple(row["options"] or ())
    right = option_by_letter(row["answer"] or "", options)
    return None if right is None else Choice(question_without_options(row["question"], options), options, right)


def opened(row: Row, choice: Choice, question: str, templates: Templates) -> Row:
    """The sample as an open question."""
    question = question.strip()
    return {
        **row,
        "prompt": templates.prompt(question),
        "references": [with_option_in_box(text, choice.options) for text in row["references"]],
        "question": question,
        "answer": choice.right,
        "options": None,
    }


def with_option_in_box(text: str, options: tuple[str, ...]) -> str:
    """A worked answer whose last box holds the option instead of its letter; as it is where the box holds no letter."""
    span = box_span(text)
    option = option_by_letter(text[slice(*span)], options) if span else None
    if span is None or option is None:
        return text
    content = text[slice(*span)]
    return text[: span[0]] + content.replace(content.strip(), option) + text[span[1] :]
