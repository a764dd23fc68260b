"""Caption parser: the objects, counts, relations and words that a text states.

Works on any text. Mentions are recognized broadly, so that hedging never pays: attributes accumulate into one mention
until the next one contradicts it or follows the noun ("a big red blue circle" is two mentions, "big red" and "blue
circle"), and a mention without its noun or place still counts. Unknown words are skipped.
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
"""Synonym → the world's own word."""
_KINDS: dict[str, str] = {
    **dict.fromkeys(CELLS, "cell"),
    **dict.fromkeys(SIZES, "size"),
    **dict.fromkeys(COLOURS, "colour"),
    **dict.fromkeys(SHAPES, "shape"),
}
NUMBERS = {name: number for number, name in enumerate(("zero", "one", "two", "three", "four", "five", "six"))}
"""Word → number, of the counts that a caption may state."""
RELATIONS = frozenset({"left of", "right of", "above", "below"})
"""Tokens of `sentences` that relate two objects."""
_INVERSE = {"right of": "left of", "below": "above"}
_NOT_A_WORD = frozenset({"a", "an", "the", "is", "are", "at", "in", "on", "of", "and", "or", "there"})
_AFTER_A_WORD = frozenset({"is", "written", "drawn", "at", "in", "on", "the"})

_TOKEN = re.compile(r"[^\W_]+(?:-[^\W_]+)*|[.;:,!?]")
_CORNER = re.compile(r"\b(top|upper|bottom|lower)[ -](left|right|center|centre|middle)\b", re.IGNORECASE)
_SIDE = re.compile(r"\b(center|centre|middle)[ -](left|right)\b", re.IGNORECASE)
_RELATION = re.compile(r"\b(left|right)\s+of\b", re.IGNORECASE)


class Mention(NamedTuple):
    """A caption's statement about one object; None for what it leaves out."""

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
    """Parse a caption. Cached, because a rollout is read once per criterion."""
    objects: list[Mention] = []
    counts: list[int] = []
    relations: list[StatedRelation] = []
    words: list[str] = []
    for sentence in sentences(caption):
        rest = _extract_words(sentence, words)
        _extract_counts(rest, counts)
        if any(token in RELATIONS for token in rest):
            _extract_relation(rest, relations)
        else:
            objects.extend(_extract_objects(rest))
    return Mentions(tuple(objects), tuple(counts), tuple(relations), tuple(words))


def sentences(caption: str) -> list[list[str]]:
    """Split a caption into sentences of words and commas; synonyms are replaced and each place is one token."""
    text = _CORNER.sub(_corner_cell, caption)
    text = _SIDE.sub(lambda match: match[2].lower(), text)
    result: list[list[str]] = [[]]
    for token in _TOKEN.findall(_RELATION.sub(lambda match: f"{match[1].lower()}-of", text)):
        if token in ".;!?":
            result.append([])
        else:
            lower = token.lower()
            plain = SYNONYMS.get(lower, lower)
            plain = plain.replace("-of", " of") if plain in ("left-of", "right-of") else plain
            result[-1].append(plain if plain in _KINDS or plain in RELATIONS else token)
    return result


def _corner_cell(match: re.Match[str]) -> str:
    row = {"upper": "top", "lower": "bottom"}.get(match[1].lower(), match[1].lower())
    column = match[2].lower()
    return f"{row}-{column}" if column in ("left", "right") else row


def _extract_words(tokens: list[str], words: list[str]) -> list[str]:
    """Move the stated word to `words` and return the other tokens.

    In "the word CAT is written at the bottom" the place belongs to the word.
    """
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


def _extract_counts(tokens: list[str], counts: list[int]) -> None:
    for token, follower in pairwise(token.lower() for token in tokens):
        if follower in ("object", "objects"):
            if token in NUMBERS:
                counts.append(NUMBERS[token])
            elif token.isdecimal() and len(token) < 4:
                counts.append(int(token))


def _extract_relation(tokens: list[str], relations: list[StatedRelation]) -> None:
    """Add the sentence's relation. Its operands refer to objects; they do not name new ones."""
    at = next(index for index, token in enumerate(tokens) if token in RELATIONS)
    before, after = _extract_objects(tokens[:at]), _extract_objects(tokens[at + 1 :])
    if before and after:
        subject, kind, other = before[-1], tokens[at], after[0]
        if kind in _INVERSE:
            subject, kind, other = other, _INVERSE[kind], subject
        relations.append(StatedRelation(subject, kind, other))


def _extract_objects(tokens: list[str]) -> list[Mention]:
    objects: list[Mention] = []
    current: dict[str, str] = {}
    for token in tokens:
        kind = _KINDS.get(token)
        if kind is None:
            if token in (",", "and") and "shape" in current:
                objects.append(Mention(**current))
                current = {}
            continue
        value = current.get(kind)
        follows_noun = kind in ("size", "colour") and "shape" in current
        if follows_noun or (value is not None and (value != token or kind in ("cell", "shape"))):
            objects.append(Mention(**current))
            current = {}
        current[kind] = token
    if current:
        objects.append(Mention(**current))
    return objects
