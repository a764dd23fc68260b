"""Convert multiple-choice questions to open-ended ones where a VLM approves it (RLR³, section 5.1).

The output is the table `samples` with the same ids. Where both of the VLM's checks hold, question, answer, options and
prompt change, and a letter in the box of a worked answer becomes the option's text. A sample for which the VLM gives no
usable answer is unchanged, and a dead letter holds the answer.
"""

from collections import Counter
from typing import NamedTuple

from pydantic import Field

from rubricworks.data.question_text import Templates, box_span, option_by_letter, question_without_options
from rubricworks.data.tables import read_rows
from rubricworks.llm import ChatError, ImageEndpoint
from rubricworks.runtime.call_table import Answers, Row, ask_all, dead_letter
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job
from rubricworks.synthesis.open_ended_prompts import Opening, check_open_ended, open_ended_messages


class Config(StageConfig):
    opener: ImageEndpoint | None = None
    """A vision-language model; without one no question changes."""
    templates: Templates = Templates()
    """Prompt templates; a converted question gets the template of open-ended questions."""
    shard_size: int = Field(default=64, ge=1)


class Choice(NamedTuple):
    """Parts of a multiple-choice question."""

    question: str
    options: tuple[str, ...]
    right: str
    """Text of the right option."""


def run(config: Config, job: Job) -> None:
    client = job.client(config.opener, "opening") if config.opener else None
    outcomes: Counter[str] = Counter()

    async def convert(row: Row) -> Answers:
        choice = parse_choice(row)
        if client is None or choice is None:
            return Answers([row], [])
        messages = open_ended_messages(row["image"], *choice)
        try:
            reply = await client.chat(messages, Opening, check=lambda opening: check_open_ended(opening, choice.right))
        except ChatError as error:
            outcomes["failed"] += 1
            return Answers([row], [dead_letter(row["sample_id"], job, f"opening by {client.endpoint.model}", error)])
        opening = reply.value
        outcomes["opened" if opening.passes else "not unique" if opening.well_posed else "not well-posed"] += 1
        return Answers([open_ended_row(row, choice, opening.question, config.templates) if opening.passes else row], [])

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
    job.figures["multiple_choice"] = dict(outcomes)


def parse_choice(row: Row) -> Choice | None:
    """Split a multiple-choice sample into its parts; None for an open-ended one."""
    options = tuple(row["options"] or ())
    right = option_by_letter(row["answer"] or "", options)
    return None if right is None else Choice(question_without_options(row["question"], options), options, right)


def open_ended_row(row: Row, choice: Choice, question: str, templates: Templates) -> Row:
    """Return the sample as an open-ended question."""
    question = question.strip()
    return {
        **row,
        "prompt": templates.prompt(question),
        "references": [option_in_box(text, choice.options) for text in row["references"]],
        "question": question,
        "answer": choice.right,
        "options": None,
    }


def option_in_box(text: str, options: tuple[str, ...]) -> str:
    """Replace the letter in the last box of a worked answer by its option's text; other answers are unchanged."""
    span = box_span(text)
    option = option_by_letter(text[slice(*span)], options) if span else None
    if span is None or option is None:
        return text
    content = text[slice(*span)]
    return text[: span[0]] + content.replace(content.strip(), option) + text[span[1] :]
