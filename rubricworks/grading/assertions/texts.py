"""Test whether a text makes the assertions that a judge lists for it.

A judge that invents an easy claim, or lists one ten times, would raise the precision of a caption, or lower its recall.
The test is our own and lenient: a text makes an assertion if it contains a share of the assertion's content words,
compared by stem (default: half). Content words exclude function words and words about pictures ("the image shows ...");
an assertion without content words is matched by all its words. A stem is a word without its English ending, so that
"rides" and "riding" are the same; other languages are compared word by word, and scripts without spaces character by
character.
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+")
_Y_ENDING = re.compile(r"(?<=\w{2})(?:ies|ied)$")
_ENDING = re.compile(r"(?<=\w{3})(?:ing|est|ed|es|er|ly|s|e)$")
_DOUBLED = re.compile(r"([b-df-hj-np-tv-z])\1$")
_FUNCTION_WORDS = """
a an the this that these those there here it its he him his she her hers they them their theirs one ones some any each
every both all and or but as than so of in on at to by for from with within into onto over up out off about is are was
were be been being am has have had having do does did can could may might will would which who whose what where when
while also very just only s t
"""
_PICTURE_WORDS = """
image picture photo photograph scene caption show shows shown showing depict depicts depicted contain contains
containing include includes feature features featuring see seen visible appear appears located positioned placed
situated present
"""
MIN_OVERLAP = 0.5
"""Default share of an assertion's content words that the text must contain."""
_STOP_WORDS = frozenset(f"{_FUNCTION_WORDS} {_PICTURE_WORDS}".split())


def has_words(text: str) -> bool:
    """Return True if the text has a word; punctuation, white space and pictograms are not words."""
    return _WORD.search(text) is not None


def first_reference(references: Sequence[str]) -> str:
    """Reference caption for recall: the first that has words, or an empty string."""
    return next((text for text in references if has_words(text)), "")


def text_states(text: str, assertions: Sequence[str], min_overlap: float = MIN_OVERLAP) -> list[bool]:
    """For each assertion, True if the text makes it; see the module. With `min_overlap` 0, all are True."""
    stems = Counter(map(_stem, _words(text)))
    return [not min_overlap or _states(stems, assertion, min_overlap) for assertion in assertions]


def first_surplus(text: str, assertions: Sequence[str]) -> int | None:
    """Index of the first assertion that is listed more often than the text can state it, or None.

    The text can state it as often as its most frequent content word occurs, and at least once. An assertion is repeated
    by the same words in the same order only.
    """
    stems = Counter(map(_stem, _words(text)))
    counts: Counter[tuple[str, ...]] = Counter()
    for index, assertion in enumerate(assertions):
        words = tuple(_words(assertion))
        counts[words] += 1
        if counts[words] > max((stems[stem] for stem in _content(words)), default=1) and counts[words] > 1:
            return index
    return None


def _states(stems: Counter[str], assertion: str, min_overlap: float) -> bool:
    content = _content(_words(assertion))
    return bool(content) and sum(stem in stems for stem in content) >= min_overlap * len(content)


def _words(text: str) -> list[str]:
    """Words in lower case; a fence's `&lt;`, which a judge may copy, is not a word."""
    return _WORD.findall(text.replace("&lt;", " ").casefold())


def _content(words: Sequence[str]) -> set[str]:
    content = {_stem(word) for word in words if word not in _STOP_WORDS}
    return content or {_stem(word) for word in words}


@lru_cache(1 << 14)
def _stem(word: str) -> str:
    stem = _DOUBLED.sub(r"\1", _ENDING.sub("", _Y_ENDING.sub("y", word)))
    return f"{stem[:-1]}i" if len(stem) > 2 and stem.endswith("y") else stem
