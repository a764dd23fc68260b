"""How well a caption is written, from 1 to 10, whatever it says: clarity, fluency and coherency, from its text alone.

Each starts at 10, and each thing that a reader would stumble over costs points:

    clarity    a sentence, or an object, that has been named before                    1.5
               an object without its noun or its place: what, or where, is it?         1
               two words that do not go together in this order ("a a", "at a")         0.5
               each word beyond 32 (such a picture needs no more), at most 4 in all    0.15
               each word beyond 24 in one sentence, at most 2 in all                   0.1
    fluency    two words that do not go together in this order                         1.5
               the last sentence has no end                                            1
               beyond four objects, each one more that is named in the same form       1
    coherency  an object that stands before the last one in reading order              1.5
               a contradiction: other things at one place, another count or word       2
               a sentence that has been said before, or that is broken                 0.5

Short sentences without a verb ("at top a big red circle .") are the students' own form and cost nothing; a fluent
remark neither costs nor earns. A caption without words gets 1, 1, 1. Raters differ by a little noise, which depends on
rater and caption alone.
"""

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from rubricworks.world.scene.captions import COMMENTARY, STYLES, write_caption
from rubricworks.world.scene.parsing import Mention, mentions, sentences
from rubricworks.world.scene.scene import CELLS, COLOURS, SHAPES, SIZES, WORDS, generate_scenes, rng_of

RATING_NOISE = 0.4
"""Standard deviation of the noise on each of the three, in points, before it is rounded."""
ENOUGH_WORDS, ENOUGH_IN_A_SENTENCE, ENOUGH_OF_ONE_FORM = 32, 24, 4

_KINDS = {
    **dict.fromkeys(CELLS, "CELL"),
    **dict.fromkeys(SIZES, "SIZE"),
    **dict.fromkeys(COLOURS, "COLOUR"),
    **dict.fromkeys(SHAPES, "SHAPE"),
    **dict.fromkeys(WORDS, "WORD"),
    **dict.fromkeys(("left of", "right of", "above", "below"), "RELATION"),
}
_START, _END = "<start>", "<end>"
_ALSO_SAID = (
    "at top a red circle , at left a circle and at right a big circle .",
    "the red circle is above the circle .",
    "there is a red circle at the top and a star at the left .",
)
"""Beside the captions of all styles: what leaves out a word, or joins two sentences, is good English too."""


class Writing(NamedTuple):
    """Points from 1 to 10."""

    clarity: float
    fluency: float
    coherency: float


def fluency(caption: str, *, rater: str = "", noise: float = RATING_NOISE) -> tuple[int, int, int]:
    """(clarity, fluency, coherency) as whole numbers, as `rater` sees them."""
    rng = rng_of("writing", rater, caption)
    clarity, flow, coherency = (max(1, min(10, round(points + rng.gauss(0, noise)))) for points in writing(caption))
    return clarity, flow, coherency


@lru_cache(maxsize=65_536)
def writing(caption: str) -> Writing:
    """The three by the rules above, without noise."""
    said = [sentence for sentence in sentences(caption) if any(token not in ",:" for token in sentence)]
    if not said:
        return Writing(1, 1, 1)
    lengths = [sum(token not in ",:" for token in sentence) for sentence in said]
    again = len(said) - len({_plain(sentence) for sentence in said})
    named = mentions(caption).objects
    repeated = max(again, len(named) - len(set(named)))
    vague = sum(item.shape is None or item.cell is None for item in named)
    wordy = min(4, 0.15 * max(0, sum(lengths) - ENOUGH_WORDS))
    overloaded = min(2, 0.1 * sum(max(0, length - ENOUGH_IN_A_SENTENCE) for length in lengths))
    slipped = [slips(sentence) for sentence in said]
    broken = sum(map(bool, slipped))
    unfinished = not caption.rstrip().endswith((".", "!", "?"))
    return Writing(
        clarity=_points(1.5 * repeated, vague, 0.5 * sum(slipped), wordy, overloaded),
        fluency=_points(1.5 * sum(slipped), unfinished, _listed(said)),
        coherency=_points(1.5 * _steps_back(named), 2 * _contradictions(caption), 0.5 * (again + broken)),
    )


def slips(sentence: Iterable[str]) -> int:
    """How many neighbouring words of a sentence do not go together; words this world does not use are passed over."""
    words, pairs = _english()
    kinds = [_START, *map(_kind, sentence), _END]
    return sum(pair not in pairs for pair in pairwise(kinds) if words.issuperset(pair))


@lru_cache(maxsize=1)
def _english() -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
    """The kinds of words of this world's captions, and which of them follow each other in one."""
    known = [write_caption(scene, style) for scene in generate_scenes(0, 100) for style in STYLES]
    pairs = {
        pair
        for text in (*known, *COMMENTARY, *_ALSO_SAID)
        for sentence in sentences(text)
        if sentence
        for pair in pairwise([_START, *map(_kind, sentence), _END])
    }
    return frozenset(kind for pair in pairs for kind in pair), frozenset(pairs)


def _kind(token: str) -> str:
    return "NUMBER" if token.isdecimal() else _KINDS.get(token, token.lower())


def _plain(sentence: Iterable[str]) -> tuple[str, ...]:
    return tuple(token.lower() for token in sentence if token not in ",:")


def _listed(said: list[list[str]]) -> int:
    """Objects beyond four that sentences of one form name."""
    named: Counter[tuple[str, ...]] = Counter()
    for sentence in said:
        form = tuple(map(_kind, sentence))
        named[form] += form.count("SHAPE") if "RELATION" not in form else 0
    return sum(max(0, count - ENOUGH_OF_ONE_FORM) for count in named.values())


def _steps_back(named: tuple[Mention, ...]) -> int:
    places = [CELLS.index(item.cell) for item in named if item.cell]
    return sum(later < earlier for earlier, later in pairwise(places))


def _contradictions(caption: str) -> int:
    stated = mentions(caption)
    objects = sum(
        any(_clash(item, earlier) for earlier in stated.objects[:number]) for number, item in enumerate(stated.objects)
    )
    counts = set(stated.counts)
    if counts and stated.objects:
        counts.add(len(set(stated.objects)))
    return objects + max(0, len(counts) - 1) + max(0, len(set(stated.words)) - 1)


def _clash(item: Mention, other: Mention) -> bool:
    """Whether two mentions put different things at one place."""
    if item.cell is None or item.cell != other.cell:
        return False
    return any(None not in pair and pair[0] != pair[1] for pair in zip(item, other, strict=True))


def _points(*costs: float) -> float:
    return max(1.0, 10.0 - sum(costs))
