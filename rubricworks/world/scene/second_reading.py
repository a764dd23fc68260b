"""A second reading of captions, written apart from `parsing`, so that a fault of one parser does not decide a claim.

It looks for nouns and goes outwards from each: the adjectives right before it, and the nearest place of the sentence
that no nearer noun has. `parsing` instead reads from left to right and collects until a contradiction. Both read the
same captions; the share on which they agree is a gate of the claims (`rubricworks claims`).
"""

import re
from collections import Counter

from rubricworks.world.scene.scene import CELLS, COLOURS, SHAPES, SIZES, Scene

_SAME = {"large": "big", "little": "small", "tiny": "small", "violet": "purple", "middle": "center", "centre": "center"}
_ROWS = {"upper": "top", "lower": "bottom"}
_TWO_WORD_PLACE = re.compile(r"(top|upper|bottom|lower)[ -](left|right|center|centre|middle)")
_MIDDLE_SIDE = re.compile(r"(?:center|centre|middle)[ -](left|right)")
_RELATES = re.compile(r"\b(?:left of|right of|above|below)\b")
_WRITTEN = re.compile(
    r"\bword(?: (?!(?:is|at|in|on|the|a|an|and|or|of|are|there)\b)\w+)?(?: (?:is|written|drawn|at|in|on|the))*"
)
_PLACE_OF_WORD = re.compile(r"^ (?:" + "|".join(sorted(CELLS, key=len, reverse=True)) + r")\b(?!-)")

Named = tuple[str | None, str | None, str | None, str | None]
"""Cell, size, colour and shape of an object; None for what is not said."""


def read_objects(caption: str) -> Counter[Named]:
    """Objects that a caption names, and what is left of descriptions without a noun."""
    named: Counter[Named] = Counter()
    text = _MIDDLE_SIDE.sub(r"\1", _TWO_WORD_PLACE.sub(_place, caption.lower()))
    for sentence in re.split(r"[.;:!?]", text):
        if not _RELATES.search(sentence):
            named.update(_read_sentence(_without_word(sentence)))
    return named


def second_f1(scene: Scene, caption: str) -> float:
    """F1 of the named objects with those of the scene, as the oracle's."""
    named = read_objects(caption)
    truth: Counter[Named] = Counter((item.cell, item.size, item.colour, item.shape) for item in scene.objects)
    return 2 * (named & truth).total() / (named.total() + truth.total())


def _place(match: re.Match[str]) -> str:
    row = _ROWS.get(match[1], match[1])
    return f"{row}-{match[2]}" if match[2] in ("left", "right") else row


def _without_word(sentence: str) -> str:
    match = _WRITTEN.search(sentence)
    if match is None:
        return sentence
    rest = sentence[match.end() :]
    return sentence[: match.start()] + (
        _PLACE_OF_WORD.sub("", rest) if "written" in match[0] or "drawn" in match[0] else rest
    )


def _read_sentence(sentence: str) -> list[Named]:
    tokens = [_SAME.get(token, token) for token in re.findall(r"[a-z]+(?:-[a-z]+)?", sentence)]
    used: set[int] = set()
    objects: list[dict[str, str]] = []
    nouns = [at for at, token in enumerate(tokens) if token in SHAPES]
    for at in nouns:
        described, before = {"shape": tokens[at]}, at - 1
        while before >= 0 and (kind := _adjective(tokens[before])) and kind not in described:
            described[kind] = tokens[before]
            used.add(before)
            before -= 1
        objects.append(described)
    places = [at for at, token in enumerate(tokens) if token in CELLS]
    distances = sorted((abs(place - noun), place, number) for place in places for number, noun in enumerate(nouns))
    for _, place, number in distances:
        if place not in used and "cell" not in objects[number]:
            objects[number]["cell"] = tokens[place]
            used.add(place)
    fragments = [at for at, token in enumerate(tokens) if at not in used and (token in CELLS or _adjective(token))]
    objects += [{"cell" if tokens[at] in CELLS else str(_adjective(tokens[at])): tokens[at]} for at in fragments]
    return [(item.get("cell"), item.get("size"), item.get("colour"), item.get("shape")) for item in objects]


def _adjective(token: str) -> str | None:
    return "size" if token in SIZES else "colour" if token in COLOURS else None
