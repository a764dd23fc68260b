"""Lists of text: similarity, optimally paired (RLR³, table 7, `list_verify`)."""

import math

from rubricworks.verifiers.failure import LONGEST, CannotVerify, needed, shown, text_of
from rubricworks.verifiers.matching import MOST_PAIRS, best_total, best_total_of_matrix
from rubricworks.verifiers.text import composed, similarity_function

_FEW_PAIRS = 60
"""Up to here the matrix is filled in Python."""

Texts = list[str | None]
"""None where something else than text stands."""


def list_verify(predict: object, *, target: object = None, candidates: object = None) -> float:
    """Sum of the text similarities of the best pairing, divided by the larger number of items; in [0, 1].

    Order does not matter. Items are compared as they are (canonically equivalent characters are one), by 1 -
    Levenshtein / length of the longer one. An item of the prediction that is not text counts and scores 0. No item on
    either side: 1. A prediction of more items than can be paired (four million pairs), or of more than 100,000
    characters, scores 0.

    Args:
        predict: the items that the response gives.
        target: the right items.
        candidates: several lists, each one complete right answer; the best score counts.
    Raises:
        CannotVerify: there is neither target nor candidates, or one is not a list of texts, or is too long.

    >>> list_verify(["M-30", "M-31"], target=["M-30", "M-31", "M-31UK"])
    0.666...
    """
    wanted = _alternatives(target, candidates)
    if not isinstance(predict, list | tuple):
        return 0.0
    predicted = [None if (text := text_of(item)) is None else composed(text) for item in predict]
    if sum(len(item) for item in predicted if item is not None) > LONGEST:
        return 0.0
    return max(_score(predicted, items) for items in wanted)


def _score(predicted: Texts, wanted: list[str]) -> float:
    larger = max(len(predicted), len(wanted))
    if larger == 0:
        return 1.0
    texts = [item for item in predicted if item is not None]
    pairs = len(texts) * len(wanted)
    if pairs == 0 or pairs > MOST_PAIRS:
        return 0.0
    if pairs <= _FEW_PAIRS:
        similarity = similarity_function()
        return best_total([[similarity(item, right) for right in wanted] for item in texts]) / larger
    process = needed("rapidfuzz.process", "RapidFuzz")
    levenshtein = needed("rapidfuzz.distance.Levenshtein", "RapidFuzz")
    numpy = needed("numpy", "NumPy")
    matrix = process.cdist(texts, wanted, scorer=levenshtein.normalized_similarity, dtype=numpy.float64)
    return best_total_of_matrix(matrix) / larger


def _alternatives(target: object, candidates: object) -> list[list[str]]:
    wanted = [] if target is None else [target]
    if candidates is not None:
        if not isinstance(candidates, list | tuple):
            raise CannotVerify(f"candidates {shown(candidates)} is not a list of lists")
        wanted += candidates
    if not wanted:
        raise CannotVerify("list_verify has neither a target nor candidates")
    return [_texts(items) for items in wanted]


def _texts(items: object) -> list[str]:
    if not isinstance(items, list | tuple):
        raise CannotVerify(f"target {shown(items)} is not a list of texts")
    texts = []
    for number, item in enumerate(items):
        if (text := text_of(item)) is None:
            raise CannotVerify(f"target item {number}: {shown(item)} is not text")
        texts.append(composed(text))
    if len(texts) ** 2 > MOST_PAIRS or sum(map(len, texts)) > LONGEST:
        most = math.isqrt(MOST_PAIRS)
        raise CannotVerify(f"target has {len(texts):,} items; at most {most:,} of {LONGEST:,} characters in all")
    return texts
