"""Does a text make the assertions that a judge lists of it?

A judge that invents an easy claim, or lists one ten times, would be paid into the precision of a caption, or out of its
recall. The test is plain, and errs on the judge's side: an assertion is taken for the text's own if at least half of
its content words stand in the text, by stem. Content words are all but function words and the words in which one
speaks of pictures ("the image shows ..."); an assertion of nothing else is looked up by all its words. A stem is a word
without its English ending, so that "rides" and "riding" are one word; other languages are compared word by word, and
scripts without spaces sign by sign.
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+")
_Y_ENDING = re.compile(r"(?<=\w{2})(?:ies|ied)$")
_ENDING = re.compile(r"(?<=\w{3})(?:ing|est|ed|es|er|ly|s|e)$")
_DOUBLED = re.compile(r"([b-df-hj-np-tv-z])\1$")
_FUNCTION = """
a an the this that these those there here it its he him his she her hers they them their theirs one ones some any each
every both all and or but as than so of in on at to by for from with within into onto over up out off about is are was
were be been being am has have had having do does did can could may might will would which who whose what where when
while also very just only s t
"""
_PICTURES = """
image picture photo photograph scene caption show shows shown showing depict depicts depicted contain contains
containing include includes feature features featuring see seen visible appear appears located positioned placed
situated present
"""
_PASSED_OVER = frozenset(f"{_FUNCTION} {_PICTURES}".split())


def has_words(text: str) -> bool:
    """Whether it says anything at all: punctuation, blanks and pictograms do not."""
    return _WORD.search(text) is not None


def made_in(text: str, assertions: Sequence[str]) -> list[bool]:
    """Whether the text makes each assertion; see the module."""
    stems = Counter(map(_stem, _words(text)))
    return [_makes(stems, assertion) for assertion in assertions]


def first_surplus(text: str, assertions: Sequence[str]) -> int | None:
    """Place, from 0, of the first assertion that repeats another one once more than the text can say it.

    The text can say it as often as its content word that occurs most often, and once at least. Only the same words
    in the same order repeat an assertion.
    """
    stems = Counter(map(_stem, _words(text)))
    listed: Counter[tuple[str, ...]] = Counter()
    for place, assertion in enumerate(assertions):
        words = tuple(_words(assertion))
        listed[words] += 1
        if listed[words] > max((stems[stem] for stem in _content(words)), default=1) and listed[words] > 1:
            return place
    return None


def _makes(stems: Counter[str], assertion: str) -> bool:
    content = _content(_words(assertion))
    return bool(content) and 2 * sum(stem in stems for stem in content) >= len(content)


def _words(text: str) -> list[str]:
    """In small letters; a fence's `&lt;`, which a judge may copy, is a sign and no word."""
    return _WORD.findall(text.replace("&lt;", " ").casefold())


def _content(words: Sequence[str]) -> set[str]:
    content = {_stem(word) for word in words if word not in _PASSED_OVER}
    return content or {_stem(word) for word in words}


@lru_cache(1 << 14)
def _stem(word: str) -> str:
    stem = _DOUBLED.sub(r"\1", _ENDING.sub("", _Y_ENDING.sub("y", word)))
    return f"{stem[:-1]}i" if len(stem) > 2 and stem.endswith("y") else stem
