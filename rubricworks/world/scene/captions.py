"""Writes captions of what someone sees in a scene, in six styles.

"canonical" is for students: the position first, one token per position, so that a word-level model with nine image
tokens can learn it. The other five belong to the teachers. All are lower case with punctuation apart, as a word-level
tokenizer wants them, and `rubricworks.world.scene.parsing.mentions` reads every one of them back.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol

from rubricworks.world.scene.scene import WORD_CELL, SceneObject, relations

COMMENTARY = (
    "it adds depth to the picture .",
    "the colours contrast nicely .",
    "this is a calm and pleasant scene .",
    "one feels invited to look closer .",
    "the picture feels well balanced .",
)
"""Fluent sentences that describe nothing that one could point to; no captioner reads an object out of them."""

Style = Literal["canonical", "there_is", "sits", "place_first", "listing", "verbose"]


class Seen(Protocol):
    """What a caption is written from: a scene, or a captioner's mistaken view of one."""

    @property
    def objects(self) -> tuple[SceneObject, ...]: ...
    @property
    def word(self) -> str | None: ...


class View(NamedTuple):
    """What a captioner believes to see; unlike a scene it may be empty or hold two objects in one cell."""

    objects: tuple[SceneObject, ...]
    word: str | None = None


def write_caption(seen: Seen, style: Style = "canonical") -> str:
    """One caption of everything seen."""
    return _STYLES[style](seen)


def describe(item: SceneObject) -> str:
    """The noun phrase of an object, without its place: "big red circle"."""
    return f"{item.size} {item.colour} {item.shape}"


def place(cell: str) -> str:
    """A cell in running text: "the top left"."""
    return f"the {cell.replace('-', ' ')}"


def count_phrase(count: int) -> str:
    return "there is 1 object" if count == 1 else f"there are {count} objects"


def _canonical(seen: Seen) -> str:
    sentences = [f"at {item.cell} a {describe(item)} ." for item in seen.objects]
    if seen.word:
        sentences.append(f"the word {seen.word} .")
    return " ".join(sentences)


def _there_is(seen: Seen) -> str:
    sentences = [f"there is a {describe(item)} at {place(item.cell)} ." for item in seen.objects]
    return " ".join([*sentences, *_written_word(seen)])


def _sits(seen: Seen) -> str:
    sentences = [f"a {describe(item)} sits at {place(item.cell)} ." for item in seen.objects]
    return " ".join([f"{count_phrase(len(seen.objects))} .", *sentences, *_written_word(seen)])


def _place_first(seen: Seen) -> str:
    sentences = [f"{place(item.cell)} shows a {describe(item)} ." for item in seen.objects]
    return " ".join([*sentences, *_related(seen, at_most=1), *_written_word(seen)])


def _listing(seen: Seen) -> str:
    phrases = [f"a {describe(item)} at {place(item.cell)}" for item in seen.objects]
    listed = " and ".join([" , ".join(phrases[:-1]), phrases[-1]]) if len(phrases) > 1 else "".join(phrases)
    opening = f"{count_phrase(len(seen.objects))} : {listed} ." if phrases else "there are 0 objects ."
    return " ".join([opening, *_written_word(seen)])


def _verbose(seen: Seen) -> str:
    sentences = [
        f"in {place(item.cell)} part of the picture one can see a {describe(item)} , drawn in one flat tone ."
        for item in seen.objects
    ]
    return " ".join(
        [
            "this is a simple picture with a pale background .",
            f"in all {count_phrase(len(seen.objects))} .",
            *sentences,
            *_related(seen, at_most=2),
            *_written_word(seen),
            "nothing more can be made out .",
        ]
    )


def _related(seen: Seen, at_most: int) -> list[str]:
    return [
        f"the {describe(subject)} is {kind} the {describe(other)} ."
        for subject, kind, other in relations(seen.objects)[:at_most]
    ]


def _written_word(seen: Seen) -> list[str]:
    return [f"the word {seen.word} is written at {place(WORD_CELL)} ."] if seen.word else []


_STYLES: dict[Style, Callable[[Seen], str]] = {
    "canonical": _canonical,
    "there_is": _there_is,
    "sits": _sits,
    "place_first": _place_first,
    "listing": _listing,
    "verbose": _verbose,
}
STYLES: tuple[Style, ...] = tuple(_STYLES)
