"""Page on which a person labels the items of a study, as one HTML file that works without a network.

The answers stay in the browser until they are downloaded as the CSV that `rubricworks study results` reads. Prompts and
criteria are foreign text: Jinja escapes them, and the page's security policy allows nothing but its own script.
"""

from collections.abc import Sequence
from typing import NamedTuple

from rubricworks.evaluation.studies import preference_study, rubric_study
from rubricworks.evaluation.studies.label_file import RATER
from rubricworks.evaluation.studies.preference_study import EQUAL, LETTERS, PreferenceTask, Protocol
from rubricworks.evaluation.studies.rubric_study import RubricItem
from rubricworks.reports.rendering import render
from rubricworks.reports.samples import data_uri

_MISSING = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///ywAAAAAAQABAAACAUwAOw=="
"""An image that could not be stored: one empty pixel."""


class Question(NamedTuple):
    """One choice to make."""

    column: str
    text: str
    choices: tuple[tuple[str, str], ...]
    """Word in the file → label on the page."""


class Row(NamedTuple):
    """One line of the file."""

    cells: dict[str, str]
    text: str
    questions: tuple[Question, ...]


class Card(NamedTuple):
    """A prompt with its images, and the lines about them."""

    prompt: str
    images: tuple[tuple[str, str], ...]
    """Letter and data URI of each; the letter is empty for a single image."""
    rows: tuple[Row, ...]


_RUBRIC_INSTRUCTIONS = (
    "Consistent: the criterion is a requirement that the prompt states or reasonably implies.",
    "Hallucinated: it asks for objects, attributes, relations or styles that the prompt does not support.",
    "Met: the image meets the criterion. Judge only what you see, each criterion alone.",
)
_PREFERENCE_INSTRUCTIONS = {
    "top": ("Choose the best image for the prompt: first by whether all that it asks for is there, then by quality.",),
    "pairs": (
        "Choose the better image for the prompt: first by whether all that it asks for is there, then by quality.",
        "Choose Equal if the two follow the prompt and look equally well.",
    ),
}
_YES_NO = (("yes", "Yes"), ("no", "No"))


def rubric_page(items: Sequence[RubricItem], *, title: str, simulated: bool) -> str:
    """Page of a reliability study."""
    questions = (
        Question("consistent", "Consistent", _YES_NO),
        Question("hallucinated", "Hallucinated", _YES_NO),
        Question("label", "Met", _YES_NO),
    )
    by_sample: dict[str, list[RubricItem]] = {}
    for item in items:
        by_sample.setdefault(item.sample_id, []).append(item)
    cards = [
        Card(
            rows[0].prompt,
            (("", _uri(rows[0].image)),),
            tuple(
                Row({name: getattr(row, name, "") for name in rubric_study.COLUMNS}, row.criterion, questions)
                for row in rows
            ),
        )
        for rows in by_sample.values()
    ]
    return _page(cards, rubric_study.COLUMNS, _RUBRIC_INSTRUCTIONS, title=title, simulated=simulated)


def preference_page(tasks: Sequence[PreferenceTask], protocol: Protocol, *, title: str, simulated: bool) -> str:
    """Page of a preference study, without the models' names."""
    cards = []
    for task in tasks:
        letters = LETTERS[: len(task.images)]
        choices = [(letter, letter) for letter in letters]
        if protocol != "top":
            choices.append((EQUAL, "Equal"))
        cells = {"task": task.task, "prompt": task.prompt, "choice": ""}
        question = Question("choice", "Best" if protocol == "top" else "Better", tuple(choices))
        images = tuple((letter, _uri(image.image)) for letter, image in zip(letters, task.images, strict=True))
        cards.append(Card(task.prompt, images, (Row(cells, "", (question,)),)))
    instructions = _PREFERENCE_INSTRUCTIONS["top" if protocol == "top" else "pairs"]
    return _page(cards, preference_study.COLUMNS, instructions, title=title, simulated=simulated)


def _page(
    cards: Sequence[Card], columns: Sequence[str], instructions: Sequence[str], *, title: str, simulated: bool
) -> str:
    return render(
        "study.html",
        styles=("report.css", "study.css"),
        scripts=("study.js",),
        title=title,
        kicker="Rubricworks study",
        footer="",
        cards=cards,
        columns=[*columns, RATER],
        instructions=instructions,
        simulated=simulated,
        rows=sum(len(card.rows) for card in cards),
    )


def _uri(image: bytes) -> str:
    try:
        return data_uri(image) if image else _MISSING
    except OSError:
        return _MISSING
