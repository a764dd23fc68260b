"""Writing quality of a caption, whatever it states: clarity, fluency and coherency from 1 to 10, from the text alone.

Each score starts at 10, and each thing that a reader would stumble over costs points:

    clarity    a sentence, or an object, that has been named before                    1.5
               an object without its noun or its place                                 1
               two words that do not go together in this order ("a a", "at a")         0.5
               each word beyond 32 (such a picture needs no more), at most 4 in all    0.15
               each word beyond 24 in one sentence, at most 2 in all                   0.1
    fluency    two words that do not go together in this order                         1.5
               the last sentence has no end                                            1
               each object after the fourth that is named in the same form             1
    coherency  an object that precedes the last one in reading order                   1.5
               a contradiction: different things at one place, another count or word   2
               a repeated or broken sentence                                           0.5

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
FREE_WORDS, FREE_SENTENCE_WORDS, FREE_SAME_FORM_OBJECTS = 32, 24, 4
"""Lengths that cost nothing: words in a caption, words in a sentence, objects named in one form."""

_KINDS: dict[str, str] = {
    **dict.fromkeys(CELLS, "CELL"),
    **dict.fromkeys(SIZES, "SIZE"),
    **dict.fromkeys(COLOURS, "COLOUR"),
    **dict.fromkeys(SHAPES, "SHAPE"),
    **dict.fromkeys(WORDS, "WORD"),
    **dict.fromkeys(("left of", "right of", "above", "below"), "RELATION"),
}
_START, _END = "<start>", "<end>"
_EXTRA_SENTENCES = (
    "at top a red circle , at left a circle and at right a big circle .",
    "the red circle is above the circle .",
    "there is a red circle at the top and a star at the left .",
)
"""Correct sentences that no style writes: an attribute left out, two sentences joined."""


class WritingScores(NamedTuple):
    """Points from 1 to 10."""

    clarity: float
    fluency: float
    coherency: float


def rate_writing(caption: str, *, rater: str = "", noise: float = RATING_NOISE) -> tuple[int, int, int]:
    """Whole-number ratings (clarity, fluency, coherency) by `rater`: the scores plus the rater's noise."""
    rng = rng_of("writing", rater, caption)
    scores = writing_scores(caption)
    clarity, flow, coherency = (max(1, min(10, round(points + rng.gauss(0, noise)))) for points in scores)
    return clarity, flow, coherency


@lru_cache(maxsize=65_536)
def writing_scores(caption: str) -> WritingScores:
    """The scores by the rules above, without noise."""
    lines = [sentence for sentence in sentences(caption) if any(token not in ",:" for token in sentence)]
    if not lines:
        return WritingScores(1, 1, 1)
    lengths = [sum(token not in ",:" for token in sentence) for sentence in lines]
    repeated_lines = len(lines) - len({_normalize(sentence) for sentence in lines})
    objects = mentions(caption).objects
    repeats = max(repeated_lines, len(objects) - len(set(objects)))
    vague = sum(item.shape is None or item.cell is None for item in objects)
    wordy = min(4, 0.15 * max(0, sum(lengths) - FREE_WORDS))
    overloaded = min(2, 0.1 * sum(max(0, length - FREE_SENTENCE_WORDS) for length in lengths))
    odd_pairs = [count_odd_pairs(sentence) for sentence in lines]
    broken_lines = sum(map(bool, odd_pairs))
    unfinished = not caption.rstrip().endswith((".", "!", "?"))
    return WritingScores(
        clarity=_points(1.5 * repeats, vague, 0.5 * sum(odd_pairs), wordy, overloaded),
        fluency=_points(1.5 * sum(odd_pairs), unfinished, _count_same_form(lines)),
        coherency=_points(
            1.5 * _count_order_breaks(objects),
            2 * _count_contradictions(caption),
            0.5 * (repeated_lines + broken_lines),
        ),
    )


def count_odd_pairs(sentence: Iterable[str]) -> int:
    """The number of neighbouring words that do not go together; words that this world does not use are skipped."""
    words, pairs = _word_pairs()
    kinds = [_START, *map(_kind, sentence), _END]
    return sum(pair not in pairs for pair in pairwise(kinds) if words.issuperset(pair))


@lru_cache(maxsize=1)
def _word_pairs() -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
    """The kinds of words in this world's captions, and the pairs of kinds that follow each other in one."""
    captions = [write_caption(scene, style) for scene in generate_scenes(0, 100) for style in STYLES]
    pairs = {
        pair
        for text in (*captions, *COMMENTARY, *_EXTRA_SENTENCES)
        for sentence in sentences(text)
        if sentence
        for pair in pairwise([_START, *map(_kind, sentence), _END])
    }
    return frozenset(kind for pair in pairs for kind in pair), frozenset(pairs)


def _kind(token: str) -> str:
    return "NUMBER" if token.isdecimal() else _KINDS.get(token, token.lower())


def _normalize(sentence: Iterable[str]) -> tuple[str, ...]:
    return tuple(token.lower() for token in sentence if token not in ",:")


def _count_same_form(lines: list[list[str]]) -> int:
    """Objects after the fourth that sentences of one form name."""
    objects: Counter[tuple[str, ...]] = Counter()
    for sentence in lines:
        form = tuple(map(_kind, sentence))
        objects[form] += form.count("SHAPE") if "RELATION" not in form else 0
    return sum(max(0, count - FREE_SAME_FORM_OBJECTS) for count in objects.values())


def _count_order_breaks(objects: tuple[Mention, ...]) -> int:
    places = [CELLS.index(item.cell) for item in objects if item.cell]
    return sum(later < earlier for earlier, later in pairwise(places))


def _count_contradictions(caption: str) -> int:
    stated = mentions(caption)
    objects = sum(
        any(_conflict(item, earlier) for earlier in stated.objects[:number])
        for number, item in enumerate(stated.objects)
    )
    counts = set(stated.counts)
    if counts and stated.objects:
        counts.add(len(set(stated.objects)))
    return objects + max(0, len(counts) - 1) + max(0, len(set(stated.words)) - 1)


def _conflict(item: Mention, other: Mention) -> bool:
    """Return True if two mentions put different things at one place."""
    if item.cell is None or item.cell != other.cell:
        return False
    return any(None not in pair and pair[0] != pair[1] for pair in zip(item, other, strict=True))


def _points(*costs: float) -> float:
    return max(1.0, 10.0 - sum(costs))
