"""Reads a caption back: which objects, counts, relations and words does it state?

Works on any text. What counts as naming an object is deliberately broad, so that hedging never pays: attributes gather
into one mention until the next one would contradict what is gathered or follows the noun ("a big red blue circle" is
two mentions, "big red" and "blue circle"), and a mention without its noun or place is still one. Unknown words are
skipped.
"""

import re
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from rubricworks.world.scene.scene import CELLS, COLOURS, SHAPES, SIZES

SYNONYMS = {
    "large": "big",
    "little": "small",
    "tiny": "small",
    "violet": "purple",
    "middle": "center",
    "centre": "center",
}
"""Spoken word → the world's own."""
_KINDS: dict[str, str] = {
    **dict.fromkeys(CELLS, "cell"),
    **dict.fromkeys(SIZES, "size"),
    **dict.fromkeys(COLOURS, "colour"),
    **dict.fromkeys(SHAPES, "shape"),
}
_NUMBERS = {name: number for number, name in enumerate(("zero", "one", "two", "three", "four", "five", "six"))}
_RELATIONS = frozenset({"left of", "right of", "above", "below"})
_INVERSE = {"right of": "left of", "below": "above"}
_NOT_A_WORD = frozenset({"a", "an", "the", "is", "are", "at", "in", "on", "of", "and", "or", "there"})
_AFTER_A_WORD = frozenset({"is", "written", "drawn", "at", "in", "on", "the"})

_TOKEN = re.compile(r"[^\W_]+(?:-[^\W_]+)*|[.;:,!?]")
_CORNER = re.compile(r"\b(top|upper|bottom|lower)[ -](left|right|center|centre|middle)\b", re.IGNORECASE)
_SIDE = re.compile(r"\b(center|centre|middle)[ -](left|right)\b", re.IGNORECASE)
_RELATION = re.compile(r"\b(left|right)\s+of\b", re.IGNORECASE)


class Mention(NamedTuple):
    """What a caption says of one object; None where it says nothing."""

    cell: str | None = None
    size: str | None = None
    colour: str | None = None
    shape: str | None = None


class StatedRelation(NamedTuple):
    subject: Mention
    kind: str
    other: Mention


class Mentions(NamedTuple):
    """Everything that a caption states, in its own order, repetitions kept."""

    objects: tuple[Mention, ...] = ()
    counts: tuple[int, ...] = ()
    relations: tuple[StatedRelation, ...] = ()
    words: tuple[str, ...] = ()


@lru_cache(maxsize=65_536)
def mentions(caption: str) -> Mentions:
    """What the caption states. Cached: a rollout is looked at once per criterion."""
    objects: list[Mention] = []
    counts: list[int] = []
    related: list[StatedRelation] = []
    words: list[str] = []
    for sentence in sentences(caption):
        rest = _take_words(sentence, words)
        _take_counts(rest, counts)
        if any(token in _RELATIONS for token in rest):
            _take_relation(rest, related)
        else:
            objects.extend(_gather(rest))
    return Mentions(tuple(objects), tuple(counts), tuple(related), tuple(words))


def sentences(caption: str) -> list[list[str]]:
    """Its sentences as words and commas; the world's own words in their plain form, each place as one."""
    text = _CORNER.sub(_corner_cell, caption)
    text = _SIDE.sub(lambda match: match[2].lower(), text)
    found: list[list[str]] = [[]]
    for token in _TOKEN.findall(_RELATION.sub(lambda match: f"{match[1].lower()}-of", text)):
        if token in ".;!?":
            found.append([])
        else:
            lower = token.lower()
            plain = SYNONYMS.get(lower, lower)
            plain = plain.replace("-of", " of") if plain in ("left-of", "right-of") else plain
            found[-1].append(plain if plain in _KINDS or plain in _RELATIONS else token)
    return found


def _corner_cell(match: re.Match[str]) -> str:
    row = {"upper": "top", "lower": "bottom"}.get(match[1].lower(), match[1].lower())
    column = match[2].lower()
    return f"{row}-{column}" if column in ("left", "right") else row


def _take_words(tokens: list[str], words: list[str]) -> list[str]:
    """The sentence without its word statement: in "the word CAT is written at the bottom" the place is the word's."""
    lowered = [token.lower() for token in tokens]
    if "word" not in lowered:
        return tokens
    start = lowered.index("word")
    end = start + 1
    if end < len(tokens) and lowered[end] not in _NOT_A_WORD and tokens[end] not in _KINDS:
        words.append(tokens[end].upper())
        end += 1
    has_place = False
    while end < len(tokens) and lowered[end] in _AFTER_A_WORD:
        has_place = has_place or lowered[end] in ("written", "drawn")
        end += 1
    if has_place and end < len(tokens) and tokens[end] in CELLS:
        end += 1
    return tokens[:start] + tokens[end:]


def _take_counts(tokens: list[str], counts: list[int]) -> None:
    for token, follower in pairwise(token.lower() for token in tokens):
        if follower in ("object", "objects"):
            if token in _NUMBERS:
                counts.append(_NUMBERS[token])
            elif token.isdecimal() and len(token) < 4:
                counts.append(int(token))


def _take_relation(tokens: list[str], related: list[StatedRelation]) -> None:
    """Operands of a relation refer to objects; they do not name new ones."""
    at = next(index for index, token in enumerate(tokens) if token in _RELATIONS)
    before, after = _gather(tokens[:at]), _gather(tokens[at + 1 :])
    if before and after:
        subject, kind, other = before[-1], tokens[at], after[0]
        if kind in _INVERSE:
            subject, kind, other = other, _INVERSE[kind], subject
        related.append(StatedRelation(subject, kind, other))


def _gather(tokens: list[str]) -> list[Mention]:
    found: list[Mention] = []
    current: dict[str, str] = {}
    for token in tokens:
        kind = _KINDS.get(token)
        if kind is None:
            if token in (",", "and") and "shape" in current:
                found.append(Mention(**current))
                current = {}
            continue
        held = current.get(kind)
        follows_noun = kind in ("size", "colour") and "shape" in current
        if follows_noun or (held is not None and (held != token or kind in ("cell", "shape"))):
            found.append(Mention(**current))
            current = {}
        current[kind] = token
    if current:
        found.append(Mention(**current))
    return found
