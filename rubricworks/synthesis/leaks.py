"""Whether a criterion gives away what its reference holds back (RLR³, appendix C: the truth stays out of its text).

An extractor or judge that can read the answer in the criterion need not find it in the response. Texts are compared as
words: case, punctuation and spacing do not count, "gives three" gives 3, and scripts without spaces count sign by sign.
"""

import re
import unicodedata
from typing import NamedTuple

_DENSE = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
"""Thai, Lao, Burmese, Khmer, Japanese, Chinese, and Korean for its particles: no spaces around each word."""
_TOKEN = re.compile(rf"(?<![^\W_])-?\d+(?:\.\d+)*|[{_DENSE}]|(?:(?![{_DENSE}])[^\W_])+")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_FROM_TWO = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NUMBERS = {word: str(number) for number, word in enumerate(_FROM_TWO, start=2)}
"""Not "one", which is mostly a pronoun."""
_ARTICLES = {"a", "an", "the"}
_ANSWERS = re.compile(
    r"(?:\b(?:is|are|was|be|as|equals?|gives|shows|has|have|contains|counts|finds|states|says|reads|namely|answer|option|choice|letter)\s+"
    r"(?:(?:the|an?|answer|option|choice|letter)\s+)*|[:=]\s*)[\"'“(\[{$\\]*$"
)
"""What stands before a value that is stated, not asked for."""
_ALTERNATIVES = re.compile(r"\b(?:whether|or)\b")


class _Token(NamedTuple):
    word: str
    start: int


def gives_away(text: str, secret: str, question: str = "") -> bool:
    """Whether `text` states `secret`.

    A number in letters counts only where it is stated: "compares the two" does not say 2. What the question holds too
    gives nothing away by being named ("left of or right of"), unless the text states it as the answer ("the answer is
    left", "option B"). A single letter counts in capitals or as it is written, so that the article "a" is no option A.

    >>> gives_away("The final answer gives three birds.", "3")
    True
    >>> gives_away("The final answer gives the letter of the right option.", "B")
    False
    """
    if len(letter := secret.strip()) == 1 and letter.isalpha() and letter.isascii():
        return _states_letter(text, letter, question)
    plain, wanted = _plain(text), [token.word for token in _tokens(_plain(secret))]
    while wanted and wanted[0] in _ARTICLES:
        wanted = wanted[1:]
    if not wanted:
        return len(secret.strip()) > 0 and not secret.strip().isascii() and secret.strip() in text
    places = _places(_tokens(plain), wanted)
    if not places:
        return False
    asked = [token.word for token in _tokens(_plain(question))]
    if not _holds(asked, wanted):
        spelled = len(wanted) == 1 and wanted[0] in _NUMBERS.values()
        return any(
            not spelled or plain.startswith(wanted[0], place) or _ANSWERS.search(plain[:place]) for place, _ in places
        )
    return any(_states(plain, place, before, wanted, asked) for place, before in places)


def _states(plain: str, place: int, before: str, wanted: list[str], asked: list[str]) -> bool:
    """Whether the value at this place is stated as an answer, and not in the question's own words."""
    if _ALTERNATIVES.search(plain) or _ANSWERS.search(plain[:place]) is None:
        return False
    return not _holds(asked, [before, *wanted])


def _states_letter(text: str, letter: str, question: str) -> bool:
    spellings = {letter, letter.upper()} - {"a"}
    alone = re.compile(rf"(?<![^\W_])(?:{'|'.join(spellings)})(?![^\W_])")
    places = [match.start() for match in alone.finditer(text) if not _opens_a_sentence(text, match.start())]
    if not re.search(rf"(?<![^\W_]){letter}(?![^\W_])", question, re.IGNORECASE):
        return bool(places)
    plain = text.lower()
    return _ALTERNATIVES.search(plain) is None and any(_ANSWERS.search(plain[:place]) for place in places)


def _opens_a_sentence(text: str, place: int) -> bool:
    """Where "A" is an article and "I" a pronoun."""
    return (
        text[place] in "AI"
        and re.search(r"(?:^|[.!?])\s*$", text[:place]) is not None
        and text[place + 1 : place + 2] == " "
    )


def _plain(text: str) -> str:
    return _THOUSANDS.sub("", unicodedata.normalize("NFKC", text).casefold())


def _tokens(plain: str) -> list[_Token]:
    return [_Token(_NUMBERS.get(match[0], match[0]), match.start()) for match in _TOKEN.finditer(plain)]


def _places(tokens: list[_Token], wanted: list[str]) -> list[tuple[int, str]]:
    """Where the words stand in a row: the offset, and the word before."""
    words = [token.word for token in tokens]
    return [
        (tokens[at].start, words[at - 1] if at else "")
        for at in range(len(words) - len(wanted) + 1)
        if words[at : at + len(wanted)] == wanted
    ]


def _holds(words: list[str], wanted: list[str]) -> bool:
    return any(words[at : at + len(wanted)] == wanted for at in range(len(words) - len(wanted) + 1))
