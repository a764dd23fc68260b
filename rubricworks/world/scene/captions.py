"""Captions of a scene, or of a captioner's view of it, in six styles.

"canonical" is for students: the position first, one token per position, so that a word-level model with nine image
tokens can learn it. The other five belong to the teachers. All are lower case with punctuation set apart for a
word-level tokenizer, and `rubricworks.world.scene.parsing.mentions` reads every one of them back.
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
"""Fluent sentences that describe nothing one could point to; the parser finds no object in them."""

Style = Literal["canonical", "there_is", "sits", "place_first", "listing", "verbose"]


class SceneLike(Protocol):
    """The source of a caption: a scene, or a captioner's mistaken view of one."""

    @property
    def objects(self) -> tuple[SceneObject, ...]: ...
    @property
    def word(self) -> str | None: ...


class View(NamedTuple):
    """A scene as a captioner perceives it; unlike a scene it may be empty or hold two objects in one cell."""

    objects: tuple[SceneObject, ...]
    word: str | None = None


def write_caption(view: SceneLike, style: Style = "canonical") -> str:
    """A caption of everything in the view."""
    return _STYLES[style](view)


def describe(item: SceneObject) -> str:
    """The noun phrase of an object, without its place: "big red circle"."""
    return f"{item.size} {item.colour} {item.shape}"


def place(cell: str) -> str:
    """A cell in running text: "the top left"."""
    return f"the {cell.replace('-', ' ')}"


def count_phrase(count: int) -> str:
    return "there is 1 object" if count == 1 else f"there are {count} objects"


def _canonical(view: SceneLike) -> str:
    sentences = [f"at {item.cell} a {describe(item)} ." for item in view.objects]
    if view.word:
        sentences.append(f"the word {view.word} .")
    return " ".join(sentences)


def _there_is(view: SceneLike) -> str:
    sentences = [f"there is a {describe(item)} at {place(item.cell)} ." for item in view.objects]
    return " ".join([*sentences, *_word_sentence(view)])


def _sits(view: SceneLike) -> str:
    sentences = [f"a {describe(item)} sits at {place(item.cell)} ." for item in view.objects]
    return " ".join([f"{count_phrase(len(view.objects))} .", *sentences, *_word_sentence(view)])


def _place_first(view: SceneLike) -> str:
    sentences = [f"{place(item.cell)} shows a {describe(item)} ." for item in view.objects]
    return " ".join([*sentences, *_relation_sentences(view, at_most=1), *_word_sentence(view)])


def _listing(view: SceneLike) -> str:
    phrases = [f"a {describe(item)} at {place(item.cell)}" for item in view.objects]
    enumeration = " and ".join([" , ".join(phrases[:-1]), phrases[-1]]) if len(phrases) > 1 else "".join(phrases)
    opening = f"{count_phrase(len(view.objects))} : {enumeration} ." if phrases else "there are 0 objects ."
    return " ".join([opening, *_word_sentence(view)])


def _verbose(view: SceneLike) -> str:
    sentences = [
        f"in {place(item.cell)} part of the picture one can see a {describe(item)} , drawn in one flat tone ."
        for item in view.objects
    ]
    return " ".join(
        [
            "this is a simple picture with a pale background .",
            f"in all {count_phrase(len(view.objects))} .",
            *sentences,
            *_relation_sentences(view, at_most=2),
            *_word_sentence(view),
            "nothing more can be made out .",
        ]
    )


def _relation_sentences(view: SceneLike, at_most: int) -> list[str]:
    return [
        f"the {describe(subject)} is {kind} the {describe(other)} ."
        for subject, kind, other in relations(view.objects)[:at_most]
    ]


def _word_sentence(view: SceneLike) -> list[str]:
    return [f"the word {view.word} is written at {place(WORD_CELL)} ."] if view.word else []


_STYLES: dict[Style, Callable[[SceneLike], str]] = {
    "canonical": _canonical,
    "there_is": _there_is,
    "sits": _sits,
    "place_first": _place_first,
    "listing": _listing,
    "verbose": _verbose,
}
STYLES: tuple[Style, ...] = tuple(_STYLES)
