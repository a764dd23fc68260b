"""ROUGE-L of a caption against its references, from the longest common subsequence of words (Lin, 2004).

The formula is pycocoevalcap's: the best precision and the best recall over the references, with recall weighted by
β = 1.2. Words are those of the text in lower case, without punctuation; COCO's own tokeniser is a Java program, and
too slow for a reward.
"""

import re
from collections.abc import Sequence

_WORD = re.compile(r"\w+(?:[-']\w+)*")
_BETA = 1.2


def rouge_l(candidate: str, references: Sequence[str]) -> float:
    """ROUGE-L in [0, 1]; 0 without a common word.

    Raises:
        ValueError: there is no reference, or they are one string.
    """
    if isinstance(references, str) or not references:
        raise ValueError(f"the references are {references!r}; give a list of one text or more")
    words = _words(candidate)
    precision = recall = 0.0
    for reference in map(_words, references):
        common = _common_subsequence(words, reference)
        precision = max(precision, common / len(words) if words else 0.0)
        recall = max(recall, common / len(reference) if reference else 0.0)
    if not precision or not recall:
        return 0.0
    return (1 + _BETA**2) * precision * recall / (recall + _BETA**2 * precision)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _common_subsequence(words: Sequence[str], other: Sequence[str]) -> int:
    """Length of the longest common subsequence, with one bit per word of `words` (Hyyrö, 2004)."""
    places: dict[str, int] = {}
    for at, word in enumerate(words):
        places[word] = places.get(word, 0) | 1 << at
    whole = (1 << len(words)) - 1
    left = whole
    for word in other:
        matches = left & places.get(word, 0)
        left = (left + matches | left - matches) & whole
    return len(words) - left.bit_count()
