"""Atomic statements of a caption, and their support by a scene or by another caption.

An object with its place is one statement and each of its attributes is another one, which names the object again: where
there is no circle, no circle is red. A statement can be read back from its text alone. A sentence without any content
of this world is a remark.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from rubricworks.world.scene.captions import count_phrase
from rubricworks.world.scene.parsing import SYNONYMS, Mention, Mentions, StatedRelation, mentions, sentences
from rubricworks.world.scene.scene import CELLS, COLOURS, SHAPES, SIZES, Scene, grid_position

LONGEST_REMARK = 1_000
_SENTENCE_END = re.compile(r"[.;!?]+")
_ANY_CELL, _ANY_SHAPE = "|".join(sorted(CELLS, key=len, reverse=True)), "|".join(SHAPES)
_THING = re.compile(rf"there is (?:something|an? (?P<shape>{_ANY_SHAPE}))(?: at (?P<cell>{_ANY_CELL}))?")
_ATTRIBUTE = re.compile(
    rf"(?:something|the (?P<shape>{_ANY_SHAPE}))(?: at (?P<cell>{_ANY_CELL}))? is "
    rf"(?:(?P<size>{'|'.join(SIZES)})|(?P<colour>{'|'.join(COLOURS)}))"
)


class Statement(NamedTuple):
    """One claim; exactly one of its fields is set."""

    thing: Mention | None = None
    """An object that fits this mention exists."""
    relation: StatedRelation | None = None
    object_count: int | None = None
    word: str | None = None
    remark: str | None = None

    @property
    def text(self) -> str:
        """The claim as a short sentence."""
        if self.thing is not None:
            return _thing_text(self.thing)
        if self.relation is not None:
            subject, kind, other = self.relation
            return f"the {_noun_phrase(subject)} is {kind} the {_noun_phrase(other)}"
        if self.object_count is not None:
            return count_phrase(self.object_count)
        return self.remark if self.remark is not None else f"there is the word {self.word}"


@lru_cache(maxsize=65_536)
def statements(caption: str) -> tuple[Statement, ...]:
    """Every claim of the caption, in order, repetitions included."""
    result: list[Statement] = []
    for sentence in _SENTENCE_END.split(caption):
        stated = mentions(sentence)
        claims = [Statement(object_count=count) for count in stated.counts]
        claims += [Statement(thing=part) for item in stated.objects for part in _parts(item)]
        claims += [Statement(relation=relation) for relation in stated.relations]
        claims += [Statement(word=word) for word in stated.words]
        remark = " ".join(sentence.split())[:LONGEST_REMARK]
        if not claims and any(character.isalnum() for character in remark):
            claims = [Statement(remark=remark)]
        result += claims
    return tuple(result)


@lru_cache(maxsize=65_536)
def read_statement(text: str) -> tuple[Statement, ...]:
    """The claim that a text makes; several if another writer put more than one into it."""
    lines = [sentence for sentence in sentences(text) if sentence]
    plain = " ".join(lines[0]) if len(lines) == 1 else ""
    match = _THING.fullmatch(plain) or _ATTRIBUTE.fullmatch(plain)
    return (Statement(thing=Mention(**match.groupdict())),) if match else statements(text)


def restore_synonyms(caption: str, text: str) -> str:
    """Replace the world's words in a claim by the caption's own synonyms: "violet" for "purple"."""
    caption_words = re.findall(r"[^\W_]+", caption.lower())
    for word, plain in SYNONYMS.items():
        if word in caption_words and plain not in caption_words:
            text = re.sub(rf"\b{plain}\b", word, text)
    return text


def scene_mentions(scene: Scene) -> Mentions:
    """The scene's whole content, as if a caption stated it."""
    objects = tuple(Mention(item.cell, item.size, item.colour, item.shape) for item in scene.objects)
    return Mentions(objects, (len(objects),), words=(scene.word,) if scene.word else ())


def caption_mentions(caption: str) -> Mentions:
    """Everything that the caption states; without a stated count, the number of its objects."""
    stated = mentions(caption)
    objects = {item for item in stated.objects if item.shape}
    return stated if stated.counts or not objects else stated._replace(counts=(len(objects),))


def is_supported(statement: Statement, view: Mentions) -> bool:
    """Return True if the view states the claim or entails it. No view supports a remark."""
    if statement.thing is not None:
        return any(_fits(statement.thing, item) for item in view.objects)
    if statement.relation is not None:
        return statement.relation in view.relations or _follows(statement.relation, view.objects)
    if statement.object_count is not None:
        return statement.object_count in view.counts
    return statement.word is not None and statement.word in view.words


def _parts(item: Mention) -> list[Mention]:
    """The object with its place, and each of its attributes."""
    thing = Mention(cell=item.cell, shape=item.shape)
    attributes = [thing._replace(colour=item.colour)] if item.colour else []
    attributes += [thing._replace(size=item.size)] if item.size else []
    return [*([thing] if any(thing) else []), *attributes]


def _fits(pattern: Mention, item: Mention) -> bool:
    return all(value is None or value == other for value, other in zip(pattern, item, strict=True))


def _follows(relation: StatedRelation, objects: Sequence[Mention]) -> bool:
    """Return True if two of the objects fit the relation's operands and stand in that relation."""
    axis = 0 if relation.kind == "above" else 1
    placed = [(item, grid_position(item.cell)[axis]) for item in objects if item.cell]
    subjects = [at for item, at in placed if _fits(relation.subject, item)]
    others = [at for item, at in placed if _fits(relation.other, item)]
    return any(subject < other for subject in subjects for other in others)


def _thing_text(thing: Mention) -> str:
    at = f" at {thing.cell}" if thing.cell else ""
    if attribute := thing.colour or thing.size:
        return f"{f'the {thing.shape}' if thing.shape else 'something'}{at} is {attribute}"
    return f"there is {f'a {thing.shape}' if thing.shape else 'something'}{at}"


def _noun_phrase(item: Mention) -> str:
    return " ".join(filter(None, (item.size, item.colour, item.shape or "thing", item.cell and f"at {item.cell}")))
