"""Evaluation rules about scenes: English sentences that the rubric writer writes and the judge reads back.

Each kind of rule is a value with a sentence, a pattern and a truth value for a caption. `parse_rule` is the inverse of
`write_rule`; the judge works from the sentence alone, as a language model would. `parse_rule` returns None for a rule
in other words.

A rule about a fact fails a caption that states the fact and contradicts it at the same place, so that naming several
things there never pays. With `lenient`, one right mention is enough, whatever else the caption says.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from rubricworks.world.scene.captions import place
from rubricworks.world.scene.parsing import Mention, Mentions, mentions
from rubricworks.world.scene.scene import CELLS, COLOURS, SHAPES, SIZES


@dataclass(frozen=True, slots=True)
class NamesObject:
    """Some mention puts this shape (any shape if None) in this cell, and none puts another object there."""

    cell: str
    shape: str | None
    lenient: bool = False
    """Other objects in the cell do not matter."""


@dataclass(frozen=True, slots=True)
class HasAttribute:
    """Some mention in this cell has this size or colour, and none there has another one."""

    cell: str
    value: str
    lenient: bool = False
    """Other sizes and colours in the cell do not matter."""


@dataclass(frozen=True, slots=True)
class ReadsWord:
    """The word is read, and no other is."""

    word: str
    lenient: bool = False
    """Other words do not matter."""


@dataclass(frozen=True, slots=True)
class GivesCount:
    """The number is stated, or exactly that many objects are named; no other number is stated and no more are named."""

    count: int
    lenient: bool = False
    """Naming at least that many objects is enough, and other numbers do not matter."""


@dataclass(frozen=True, slots=True)
class NamesNothingAt:
    """No mention is in this cell."""

    cell: str


@dataclass(frozen=True, slots=True)
class ReadsNoWord:
    pass


@dataclass(frozen=True, slots=True)
class NamesOnly:
    """Some object is named, and at most `spare` things are off the list or named twice."""

    supported: tuple[Mention, ...]
    words: tuple[str, ...]
    spare: int


@dataclass(frozen=True, slots=True)
class NamesExactly:
    count: int


Rule = NamesObject | HasAttribute | ReadsWord | GivesCount | NamesNothingAt | ReadsNoWord | NamesOnly | NamesExactly


def write_rule(rule: Rule) -> str:
    """The rule as a sentence that states when a caption passes and when it fails."""
    match rule:
        case NamesObject(cell, shape, lenient):
            named = f"Passes if the caption names {_a(shape or 'object')} at {place(cell)}"
            if lenient:
                return f"{named}. Fails if it names none there."
            return f"{named}, and no other object there. Fails if it names none there or another one as well."
        case HasAttribute(cell, value, lenient):
            stated = f"Passes if the caption says that the object at {place(cell)} is {value}"
            if lenient:
                return f"{stated}. Fails if it does not."
            other = f"another {'size' if value in SIZES else 'colour'}"
            return f"{stated}, and does not give it {other}. Fails if it does not say so or gives it {other} as well."
        case ReadsWord(word, lenient):
            if lenient:
                return f"Passes if the caption reads the word {word}. Fails if it does not."
            return f"Passes if the caption reads the word {word}, and no other word. Fails if it reads none or another."
        case GivesCount(count, lenient):
            if lenient:
                return (
                    f"Passes if the caption says that there are {count} objects or names at least {count}. "
                    "Fails otherwise."
                )
            return (
                f"Passes if the caption says that there are {count} objects or names exactly {count}. "
                f"Fails if it states another number or names more than {count}."
            )
        case NamesNothingAt(cell):
            return f"Passes if the caption names no object at {place(cell)}. Fails if it names one there."
        case ReadsNoWord():
            return "Passes if the caption reads no word. Fails if it reads one."
        case NamesExactly(count):
            return f"Passes if the caption names exactly {count} objects. Fails if it names more or fewer."
        case NamesOnly(supported, words, spare):
            allowance = "at most one thing" if spare else "nothing"
            listed = "; ".join([*map(noun_phrase, supported), *(f"the word {word}" for word in words)])
            return (
                f"Passes if the caption names at least one object, and {allowance} besides the following, each named "
                f"once: {listed}. Fails if it names {'more' if spare else 'anything'} besides these or names none."
            )


def noun_phrase(mention: Mention) -> str:
    """A mention in the words of writer and judge: "a big red circle at the top left"."""
    noun = " ".join(part for part in (mention.size, mention.colour, mention.shape or "object") if part)
    return f"{_a(noun)} at {place(mention.cell)}" if mention.cell else _a(noun)


@lru_cache(maxsize=65_536)
def parse_rule(text: str) -> Rule | None:
    """The rule that a sentence of `write_rule` states; None for any other text."""
    plain = " ".join(text.split())
    for pattern, build in _GRAMMAR:
        match = pattern.match(plain)
        if match:
            return build(match)
    return None


def holds(rule: Rule, caption: str) -> bool:
    """Return True if the caption passes the rule."""
    stated = mentions(caption)
    match rule:
        case NamesObject(cell, shape, lenient):
            there = [item for item in stated.objects if item.cell == cell]
            named = any(shape in (None, item.shape) for item in there)
            return named and (lenient or all(_compatible(a, b) for a, b in combinations(there, 2)))
        case HasAttribute(cell, value, lenient):
            kind = "size" if value in SIZES else "colour"
            values = {getattr(item, kind) for item in stated.objects if item.cell == cell} - {None}
            return value in values if lenient else values == {value}
        case ReadsWord(word, lenient):
            return word.upper() in stated.words if lenient else set(stated.words) == {word.upper()}
        case GivesCount(count, lenient):
            objects = len(stated.objects)
            if lenient:
                return count in stated.counts or objects >= count
            return objects <= count and set(stated.counts) <= {count} and (bool(stated.counts) or objects == count)
        case NamesNothingAt(cell):
            return all(item.cell != cell for item in stated.objects)
        case ReadsNoWord():
            return not stated.words
        case NamesExactly(count):
            return len(stated.objects) == count
        case NamesOnly(supported, words, spare):
            return bool(stated.objects) and count_unsupported(stated, supported, words) <= spare


def count_unsupported(stated: Mentions, supported: tuple[Mention, ...], words: tuple[str, ...]) -> int:
    """Count the stated objects and words that nothing supports; a supported object or word supports one statement only.

    A mention fits a supported object unless it contradicts it: leaving out the size invents nothing.
    """
    free = list(supported)
    unsupported = 0
    for item in sorted(stated.objects, key=lambda item: item.cell is None):
        fitting = next((other for other in free if _compatible(item, other)), None)
        if fitting is None:
            unsupported += 1
        else:
            free.remove(fitting)
    free_words = list(words)
    for word in stated.words:
        if word in free_words:
            free_words.remove(word)
        else:
            unsupported += 1
    return unsupported


def _compatible(item: Mention, other: Mention) -> bool:
    return all(None in (a, b) or a == b for a, b in zip(item, other, strict=True))


def _a(noun: str) -> str:
    return f"{'an' if noun.startswith('object') else 'a'} {noun}"


def _cell(text: str) -> str:
    return text.lower().replace(" ", "-")


def _names_only(match: re.Match[str]) -> NamesOnly:
    listed = mentions(match["listed"])
    return NamesOnly(listed.objects, listed.words, spare=0 if match["allowance"].lower() == "nothing" else 1)


def _names_object(match: re.Match[str]) -> NamesObject:
    noun = match["noun"].lower()
    return NamesObject(_cell(match["cell"]), None if noun == "object" else noun, lenient=match["strict"] is None)


def _has_attribute(match: re.Match[str]) -> HasAttribute:
    return HasAttribute(_cell(match["cell"]), match["value"].lower(), lenient=match["strict"] is None)


_PLACE = rf"the (?P<cell>{'|'.join(sorted((cell.replace('-', ' ') for cell in CELLS), key=len, reverse=True))})"
_STARTS = r"^pass(?:es)? if the caption "
_GRAMMAR: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Rule]], ...] = tuple(
    (re.compile(_STARTS + pattern, re.IGNORECASE), build)
    for pattern, build in (
        (
            rf"names an? (?P<noun>object|{'|'.join(SHAPES)}) at {_PLACE}(?P<strict>, and no other object there)?\.",
            _names_object,
        ),
        (
            rf"says that the object at {_PLACE} is (?P<value>{'|'.join((*SIZES, *COLOURS))})"
            r"(?P<strict>, and does not give it another (?:size|colour))?\.",
            _has_attribute,
        ),
        (
            r"reads the word (?P<word>\w+)(?P<strict>, and no other word)?\.",
            lambda match: ReadsWord(match["word"].upper(), lenient=match["strict"] is None),
        ),
        (
            r"says that there are (?P<count>\d{1,3}) objects or names (?P<bound>at least|exactly) (?P=count)\.",
            lambda match: GivesCount(int(match["count"]), lenient=match["bound"].lower() == "at least"),
        ),
        (rf"names no object at {_PLACE}\.", lambda match: NamesNothingAt(_cell(match["cell"]))),
        (r"reads no word\.", lambda _: ReadsNoWord()),
        (r"names exactly (?P<count>\d{1,3}) objects\.", lambda match: NamesExactly(int(match["count"]))),
        (
            r"names at least one object, and (?P<allowance>nothing|at most one thing) besides the following, "
            r"each named once: (?P<listed>[^.]*)\.",
            _names_only,
        ),
    )
)
