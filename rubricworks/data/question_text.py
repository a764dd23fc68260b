"""The words of a question: its options, the prompt around it, its answer, and whether it equals another question.

A multiple-choice question is held as its bare question and its options. In the table `samples` and wherever one text
has to do, the options follow the question in line, lettered: "which is it ? A red B green". Its answer is a letter.
"""

import re
import unicodedata
from collections.abc import Sequence
from string import ascii_uppercase as LETTERS

from pydantic import BaseModel, ConfigDict, field_validator

OPEN_TEMPLATE = (
    "{question}\n\nThink step by step about what the image shows. Then give the final answer, and nothing else, in "
    "\\boxed{} at the end of your response."
)
CHOICE_TEMPLATE = (
    "{question}\n{options}\n\nThink step by step about what the image shows. Then give the letter of the right option, "
    "and nothing else, in \\boxed{} at the end of your response."
)
"""RLR³'s two templates (section 5.1), in our words. `{options}` is one option a line: `A. red`."""

_PLACE = re.compile(r"\{(question|options)\}")
_TRAILING = " .?!:;,。、"
_BOX = re.compile(r"\\boxed\s*\{")
_MARK = re.compile(r"(?:^|(?<=\s))(?:\(([A-Z])\)|([A-Z])[.:)、])")
_HEADING = re.compile(r"\s*(?:choices|options)\s*:?\s*\Z", re.IGNORECASE)
_IMAGE_PLACE = re.compile(r"<\|?image(?:_\w+)?\|?>|<img>")
_LETTER = re.compile(r"\(?([A-Za-z])\)?[.:]?")


class Templates(BaseModel):
    """The prompts of the two kinds of question."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    open: str = OPEN_TEMPLATE
    choice: str = CHOICE_TEMPLATE
    """Without a place for `{options}` they follow the question in line: a small student takes "{question}" for both."""

    @field_validator("open", "choice")
    @classmethod
    def _asks_the_question(cls, template: str) -> str:
        if "{question}" not in template:
            raise ValueError("has no {question}; write where the question goes, as in '{question} Think first.'")
        return template

    def prompt(self, question: str, options: Sequence[str] = ()) -> str:
        """What a model is asked.

        Args:
            question: without its options.
        """
        template = self.choice if options else self.open
        if options and "{options}" not in template:
            question = question_with_options(question, options)
        lines = "\n".join(f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False))
        return _PLACE.sub(lambda place: question if place[1] == "question" else lines, template)


def normalise_question(text: str) -> str:
    """What two spellings of one question share: case, white space, width and punctuation at the end do not count."""
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(plain.split()).rstrip(_TRAILING)


def question_with_options(question: str, options: Sequence[str]) -> str:
    """ "what colour is the star ? A red B green"; the question itself if there are no options."""
    lettered = (f"{letter} {option}" for letter, option in zip(LETTERS, options, strict=False))
    return " ".join([question, *lettered])


def question_without_options(text: str, options: Sequence[str]) -> str:
    """The bare question of what `question_with_options` wrote."""
    return text.removesuffix(question_with_options("", options)) if options else text


def split_options(text: str) -> tuple[str, tuple[str, ...]]:
    """The bare question and its options, where they stand at its end as "A. …", "(A) …" or "A: …"; else none."""
    marks = list(_MARK.finditer(text))
    for first in reversed([at for at, mark in enumerate(marks) if _letter_of(mark) == "A"]):
        run = [marks[first]]
        for mark in marks[first + 1 :]:
            if _letter_of(mark) == LETTERS[len(run) % 26]:
                run.append(mark)
        ends = [*(mark.start() for mark in run[1:]), len(text)]
        options = tuple(text[mark.end() : end].strip() for mark, end in zip(run, ends, strict=True))
        stem = _HEADING.sub("", text[: run[0].start()]).strip()
        if len(options) >= 2 and all(options) and stem:
            return stem, options
    return text, ()


def answer_letter(answer: str, options: Sequence[str]) -> str | None:
    """The letter of the option that an answer names by its letter or by its text; None if it names none, or several."""
    said = answer.strip()
    if (letter := _LETTER.fullmatch(said)) and letter[1].upper() in LETTERS[: len(options)]:
        return letter[1].upper()
    for spelled in (said, said[2:].strip() if said[1:2] in (".", ":", ")") else said):
        same = [at for at, option in enumerate(options) if normalise_question(option) == normalise_question(spelled)]
        if len(same) == 1:
            return LETTERS[same[0]]
    return None


def option_of(letter: str, options: Sequence[str]) -> str | None:
    """The option that a letter stands for; None if it stands for none."""
    at = LETTERS.find(letter.strip().upper()) if len(letter.strip()) == 1 else -1
    return options[at] if 0 <= at < len(options) else None


def box_span(text: str) -> tuple[int, int] | None:
    """Where the content of the last \\boxed{…} begins and ends; None without one, or if it is not closed."""
    for box in reversed(list(_BOX.finditer(text))):
        depth = 1
        for at in range(box.end(), len(text)):
            depth += (text[at] == "{") - (text[at] == "}")
            if not depth:
                return box.end(), at
    return None


def unboxed(answer: str) -> str:
    """The content of an answer's last box, or the answer if it has none."""
    span = box_span(answer)
    return (answer[slice(*span)] if span else answer).strip()


def without_image_places(text: str) -> str:
    """A question without the `<image>` that data sets put where the image goes: the chat template has its own."""
    return _IMAGE_PLACE.sub("", text).strip()


def _letter_of(mark: re.Match[str]) -> str:
    return mark[1] or mark[2]
