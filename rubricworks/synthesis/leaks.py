"""Leak detection: criteria whose text states their own reference (RLR³, appendix C: the truth stays out of the text).

An extractor or judge that can read the answer in the criterion need not find it in the response. Texts are compared as
words: case, punctuation and spacing do not count, "gives three" gives 3, and in scripts without spaces each character
is a word.
"""

import re
import unicodedata
from typing import NamedTuple

_DENSE = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
"""Scripts without spaces around each word: Thai, Lao, Burmese, Khmer, Japanese, Chinese, and Korean for its
particles.
"""
_TOKEN = re.compile(rf"(?<![^\W_])-?\d+(?:\.\d+)*|[{_DENSE}]|(?:(?![{_DENSE}])[^\W_])+")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_FROM_TWO = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NUMBERS = {word: str(number) for number, word in enumerate(_FROM_TWO, start=2)}
"""Number words and their digits, without "one", which is mostly a pronoun."""
_ARTICLES = {"a", "an", "the"}
_ANSWERS = re.compile(
    r"(?:\b(?:is|are|was|be|as|equals?|gives|shows|has|have|contains|counts|finds|states|says|reads|namely|answer|option|choice|letter)\s+"
    r"(?:(?:the|an?|answer|option|choice|letter)\s+)*|[:=]\s*)[\"'“(\[{$\\]*$"
)
"""Words directly before a value that is stated, not asked for."""
_ALTERNATIVES = re.compile(r"\b(?:whether|or)\b")


class _Token(NamedTuple):
    word: str
    start: int


def gives_away(text: str, secret: str, question: str = "") -> bool:
    """Return True if `text` states `secret`.

    A number in words counts only if it is stated: "compares the two" does not state 2. Words of the question are no
    leak where they are only mentioned ("left of or right of"), but are one where the text states them as the answer
    ("the answer is left", "option B"). A single letter counts in capitals or as it is written, so that the article "a"
    is no option A.

    >>> gives_away("The final answer gives three birds.", "3")
    True
    >>> gives_away("The final answer gives the letter of the right option.", "B")
    False
    """
    if len(letter := secret.strip()) == 1 and letter.isalpha() and letter.isascii():
        return _states_letter(text, letter, question)
    plain, secret_words = _plain(text), [token.word for token in _tokens(_plain(secret))]
    while secret_words and secret_words[0] in _ARTICLES:
        secret_words = secret_words[1:]
    if not secret_words:
        return len(secret.strip()) > 0 and not secret.strip().isascii() and secret.strip() in text
    places = _places(_tokens(plain), secret_words)
    if not places:
        return False
    question_words = [token.word for token in _tokens(_plain(question))]
    if not _contains(question_words, secret_words):
        spelled = len(secret_words) == 1 and secret_words[0] in _NUMBERS.values()
        return any(
            not spelled or plain.startswith(secret_words[0], place) or _ANSWERS.search(plain[:place])
            for place, _ in places
        )
    return any(_states(plain, place, before, secret_words, question_words) for place, before in places)


def _states(plain: str, place: int, before: str, secret_words: list[str], question_words: list[str]) -> bool:
    """Return True if the value at this offset is stated as an answer, and not in the question's own words."""
    if _ALTERNATIVES.search(plain) or _ANSWERS.search(plain[:place]) is None:
        return False
    return not _contains(question_words, [before, *secret_words])


def _states_letter(text: str, letter: str, question: str) -> bool:
    spellings = {letter, letter.upper()} - {"a"}
    alone = re.compile(rf"(?<![^\W_])(?:{'|'.join(spellings)})(?![^\W_])")
    places = [match.start() for match in alone.finditer(text) if not _opens_a_sentence(text, match.start())]
    if not re.search(rf"(?<![^\W_]){letter}(?![^\W_])", question, re.IGNORECASE):
        return bool(places)
    plain = text.lower()
    return _ALTERNATIVES.search(plain) is None and any(_ANSWERS.search(plain[:place]) for place in places)


def _opens_a_sentence(text: str, place: int) -> bool:
    """Return True if the letter is an article ("A") or a pronoun ("I") at the start of a sentence."""
    return (
        text[place] in "AI"
        and re.search(r"(?:^|[.!?])\s*$", text[:place]) is not None
        and text[place + 1 : place + 2] == " "
    )


def _plain(text: str) -> str:
    return _THOUSANDS.sub("", unicodedata.normalize("NFKC", text).casefold())


def _tokens(plain: str) -> list[_Token]:
    return [_Token(_NUMBERS.get(match[0], match[0]), match.start()) for match in _TOKEN.finditer(plain)]


def _places(tokens: list[_Token], secret_words: list[str]) -> list[tuple[int, str]]:
    """Find the secret's words in a row: the offset of each occurrence, and the word before it."""
    words = [token.word for token in tokens]
    return [
        (tokens[at].start, words[at - 1] if at else "")
        for at in range(len(words) - len(secret_words) + 1)
        if words[at : at + len(secret_words)] == secret_words
    ]


def _contains(words: list[str], secret_words: list[str]) -> bool:
    return any(words[at : at + len(secret_words)] == secret_words for at in range(len(words) - len(secret_words) + 1))
