"""CaptionQA's rules: the options that a question offers, and the option that an answer names.

Questions other than yes-or-no ones get one more option: that the caption does not say. Source: qa.py of
bronyayang/CaptionQA. Its yes-or-no test is a substring test, so "None" counts as a "no".
"""

import re
from collections.abc import Sequence

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
CANNOT_ANSWER = "Cannot answer from the caption"

_OPENINGS = (
    *("is ", "are ", "was ", "were ", "do ", "does ", "did ", "have ", "has ", "had ", "can ", "could "),
    *("will ", "would ", "should ", "shall ", "may ", "might ", "must "),
)
_LETTER = re.compile(r"\b([A-Z])\b")
_NUMBER = re.compile(r"\b([1-9][0-9]?)\b")


def extract_letter(response: str, num_options: int) -> str | None:
    """The letter of the option that an answer names, None if it names none.

    The first letter that stands alone counts, or else the first number. Only the text after `</think>`, then after
    `Answer: `, then after the first line break is read, where these occur.
    """
    for mark in ("</think>", "Answer: ", "\n"):
        _, separator, after = response.partition(mark)
        response = after if separator else response
    options = LETTERS[: max(1, num_options)]
    letter = _LETTER.search(response.upper())
    if letter and letter[1] in options:
        return letter[1]
    number = _NUMBER.search(response)
    if number and int(number[1]) <= len(options):
        return options[int(number[1]) - 1]
    return None


def is_yes_no(question: str, options: Sequence[str]) -> bool:
    """Return True if `yes` and `no` both occur in the options, even inside a word, or the question opens like one."""
    lowered = [option.strip().lower() for option in options]
    if any("yes" in option for option in lowered) and any("no" in option for option in lowered):
        return True
    return question.strip().lower().startswith(_OPENINGS)


def offered_options(question: str, options: Sequence[str]) -> tuple[str, ...]:
    """The options, with `CANNOT_ANSWER` as the last unless the question is a yes-or-no question."""
    return tuple(options) if is_yes_no(question, options) else (*options, CANNOT_ANSWER)
