"""Text of a visual question: options, prompt template, answer, and equality with another question.

A multiple-choice question is stored as its bare question and its options. In the table `samples`, and wherever a
single text is needed, the lettered options follow the question: "which is it ? A red B green". Its answer is a letter.
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
"""RLR³'s two templates (section 5.1), in our words. `{options}` becomes one option per line: `A. red`."""

_SLOT = re.compile(r"\{(question|options)\}")
_TRAILING = " .?!:;,。、"
_BOX = re.compile(r"\\boxed\s*\{")
_MARK = re.compile(r"(?:^|(?<=\s))(?:\(([A-Z])\)|([A-Z])[.:)、])")
_HEADING = re.compile(r"\s*(?:choices|options)\s*:?\s*\Z", re.IGNORECASE)
_IMAGE_TAG = re.compile(r"<\|?image(?:_\w+)?\|?>|<img>")
_LETTER = re.compile(r"\(?([A-Za-z])\)?[.:]?")


class Templates(BaseModel):
    """Prompt templates of open and multiple-choice questions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    open: str = OPEN_TEMPLATE
    """Prompt of an open question; must contain `{question}`."""
    choice: str = CHOICE_TEMPLATE
    """Without `{options}`, the options follow the question; a small student uses "{question}" for both kinds."""

    @field_validator("open", "choice")
    @classmethod
    def _asks_the_question(cls, template: str) -> str:
        if "{question}" not in template:
            raise ValueError("has no {question}; write where the question goes, as in '{question} Think first.'")
        return template

    def prompt(self, question: str, options: Sequence[str] = ()) -> str:
        """Fill in the template for a question.

        Args:
            question: without its options.
        """
        template = self.choice if options else self.open
        if options and "{options}" not in template:
            question = question_with_options(question, options)
        return _SLOT.sub(lambda slot: question if slot[1] == "question" else option_lines(options), template)


def option_lines(options: Sequence[str]) -> str:
    """Lettered options, one per line: `A. red`."""
    return "\n".join(f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False))


def normalise_question(text: str) -> str:
    """Normal form of a question, without differences of case, white space, width and final punctuation."""
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(plain.split()).rstrip(_TRAILING)


def question_with_options(question: str, options: Sequence[str]) -> str:
    """Append lettered options: "what colour is the star ? A red B green"."""
    lettered = (f"{letter} {option}" for letter, option in zip(LETTERS, options, strict=False))
    return " ".join([question, *lettered])


def question_without_options(text: str, options: Sequence[str]) -> str:
    """Remove the options that `question_with_options` appended."""
    return text.removesuffix(question_with_options("", options)) if options else text


def split_options(text: str) -> tuple[str, tuple[str, ...]]:
    """Split a text into the question and its final options ("A. …", "(A) …" or "A: …"); () if it has none."""
    marks = list(_MARK.finditer(text))
    for first in reversed([index for index, mark in enumerate(marks) if _mark_letter(mark) == "A"]):
        run = [marks[first]]
        for mark in marks[first + 1 :]:
            if _mark_letter(mark) == LETTERS[len(run) % 26]:
                run.append(mark)
        ends = [*(mark.start() for mark in run[1:]), len(text)]
        options = tuple(text[mark.end() : end].strip() for mark, end in zip(run, ends, strict=True))
        stem = _HEADING.sub("", text[: run[0].start()]).strip()
        if len(options) >= 2 and all(options) and stem:
            return stem, options
    return text, ()


def answer_letter(answer: str, options: Sequence[str]) -> str | None:
    """Letter of the option that an answer gives by letter or text; None for no option, or for several."""
    stripped = answer.strip()
    if (letter := _LETTER.fullmatch(stripped)) and letter[1].upper() in LETTERS[: len(options)]:
        return letter[1].upper()
    for spelling in (stripped, stripped[2:].strip() if stripped[1:2] in (".", ":", ")") else stripped):
        normal = normalise_question(spelling)
        matches = [index for index, option in enumerate(options) if normalise_question(option) == normal]
        if len(matches) == 1:
            return LETTERS[matches[0]]
    return None


def option_by_letter(letter: str, options: Sequence[str]) -> str | None:
    """Option that a letter stands for, or None if there is none."""
    index = LETTERS.find(letter.strip().upper()) if len(letter.strip()) == 1 else -1
    return options[index] if 0 <= index < len(options) else None


def box_span(text: str) -> tuple[int, int] | None:
    """Start and end of the content of the last closed \\boxed{…}, or None."""
    for box in reversed(list(_BOX.finditer(text))):
        depth = 1
        for index in range(box.end(), len(text)):
            depth += (text[index] == "{") - (text[index] == "}")
            if not depth:
                return box.end(), index
    return None


def unboxed(answer: str) -> str:
    """Content of an answer's last box, or the whole answer without one."""
    span = box_span(answer)
    return (answer[slice(*span)] if span else answer).strip()


def strip_image_tags(text: str) -> str:
    """Remove the `<image>` placeholders of datasets from a question: the chat template adds its own."""
    return _IMAGE_TAG.sub("", text).strip()


def _mark_letter(mark: re.Match[str]) -> str:
    return mark[1] or mark[2]
