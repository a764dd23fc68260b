"""Format mask: rejects repetition loops and mixed languages (RLR³, section 4.3.2, m_format).

The paper names the two violations without thresholds; the thresholds are ours. They spare repetition that has a reason:
counting (`circle 1 , circle 2 , …`), matrices, tables and rulers.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

_LOOP_WORDS, _LOOP_REPEATS, _MAX_UNIT_WORDS = 40, 5, 64
"""A loop: a unit of up to 64 words repeated five times or more, over at least 40 words."""
_LOOP_SIGNS = 150
"""A loop of words without letters, such as the cells of a grid: over at least 150."""
_LOOP_LETTERS, _LOOP_LETTER_REPEATS, _MAX_UNIT_LETTERS = 64, 8, 16
"""A loop of characters, within one word or in unspaced text: eight times or more, over at least 64 characters."""
_LOOP_DIGITS = 150
"""A loop of digits and signs, within one word: over at least 150, as numbers may be long."""
_STEP_WORDS, _STEP_REPEATS = 110, 24
"""Steps that differ only in their numbers: a unit of words repeated 24 times or more, over at least 110 words, so that
fifty things can be counted.
"""
_WINDOW_WORDS, _MIN_DISTINCT = 200, 0.12
"""Steps that differ in few words: among 200 words in a row, less than 12 % of the triples are distinct."""
_QUOTABLE_LETTERS = 3
"""Letters of a foreign script that still pass as a quoted name or sign."""

_GRID = re.compile(r"\\begin\{([a-z]*(?:matrix|array|tabular|aligned?|cases)\*?)\}.{0,4000}?\\end\{\1\}", re.DOTALL)
"""A matrix or a table in LaTeX."""
_RULER = re.compile(r"[-=_|+:*#─━—]+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_WORD = re.compile(r"[^\W\d_]+")

_SCRIPTS = {
    "latin": re.compile("[A-Za-z\u00c0-\u024f]"),
    "han": re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]"),
    "hangul": re.compile("[\u1100-\u11ff\uac00-\ud7af]"),
    "cyrillic": re.compile("[\u0400-\u052f]"),
    "arabic": re.compile("[\u0600-\u06ff\u0750-\u077f]"),
    "hebrew": re.compile("[\u0590-\u05ff]"),
    "devanagari": re.compile("[\u0900-\u097f]"),
    "thai": re.compile("[\u0e00-\u0e7f]"),
}
"""Letters by script. Greek is omitted, as mathematics uses it in every language. Kana counts as Han."""
_FORMULA = re.compile(r"\\[A-Za-z]+|\b[A-Za-z]\b")
"""LaTeX commands and one-letter variables, which belong to no language."""


def format_mask(response: str, *, allowed: Iterable[str] = ()) -> bool:
    """m_format: return True unless the response has a repetition loop or mixes languages.

    Args:
        allowed: texts whose scripts the response may use: the question, and the references if they quote foreign text.
            By default, the response's most frequent script.
    """
    return not has_repetition_loop(response) and not mixes_languages(response, allowed=allowed)


def has_repetition_loop(response: str) -> bool:
    """Return True if a sequence of words or characters repeats without a break."""
    text = _GRID.sub(" ", response)
    words = [word for word in text.split() if not _RULER.fullmatch(word)]
    if _has_loop(words, _MAX_UNIT_WORDS, _LOOP_WORDS, _LOOP_REPEATS, _LOOP_SIGNS):
        return True
    if any(_has_loop(word, _MAX_UNIT_LETTERS, _LOOP_LETTERS, _LOOP_LETTER_REPEATS, _LOOP_DIGITS) for word in words):
        return True
    without_numbers = _WORD.findall(_NUMBER.sub("", text.lower()))
    if _has_loop(without_numbers, _MAX_UNIT_WORDS, _STEP_WORDS, _STEP_REPEATS, _STEP_WORDS):
        return True
    return _has_few_distinct_triples(without_numbers)


def mixes_languages(response: str, *, allowed: Iterable[str] = ()) -> bool:
    """Return True if more than a quotation is in a script that the allowed texts do not use.

    Latin letters occur in formulas and names of every language, so they count only if they are the majority.
    """
    counts = _count_letters(response)
    allowed_scripts = {script for text in allowed for script in _count_letters(text)}
    if not allowed_scripts and counts:
        allowed_scripts = {max(counts, key=lambda script: counts[script])}
    foreign = {script: count for script, count in counts.items() if script not in allowed_scripts}
    latin = foreign.pop("latin", 0)
    return any(count > _QUOTABLE_LETTERS for count in foreign.values()) or latin > sum(counts.values()) / 2


def _count_letters(text: str) -> dict[str, int]:
    text_without_formulas = _FORMULA.sub(" ", text)
    counts = {script: len(pattern.findall(text_without_formulas)) for script, pattern in _SCRIPTS.items()}
    return {script: count for script, count in counts.items() if count}


def _has_loop(items: Sequence[str], max_unit: int, min_length: int, repeats: int, min_without_letters: int) -> bool:
    """Return True if a unit of items repeats over at least max(min_length, repeats * unit) items.

    Args:
        min_without_letters: min_length for a unit without any letter.
    """
    import numpy as np

    if len(items) < min_length:
        return False
    codes = {item: number for number, item in enumerate(dict.fromkeys(items))}
    sequence = np.fromiter((codes[item] for item in items), dtype=np.int64, count=len(items))
    for unit in range(1, min(max_unit, len(items) // repeats) + 1):
        different = np.flatnonzero(sequence[unit:] != sequence[:-unit])
        edges = np.concatenate(([-1], different, [len(sequence) - unit]))
        lengths = np.diff(edges) - 1 + unit
        for run in np.flatnonzero(lengths >= max(min_length, repeats * unit)):
            start = int(edges[run]) + 1
            has_letters = any(character.isalpha() for item in items[start : start + unit] for character in item)
            if has_letters or lengths[run] >= min_without_letters:
                return True
    return False


def _has_few_distinct_triples(words: Sequence[str]) -> bool:
    """Return True if some window of words consists of few different triples."""
    triples = list(zip(words, words[1:], words[2:], strict=False))
    counts: Counter[tuple[str, str, str]] = Counter()
    for at, triple in enumerate(triples):
        counts[triple] += 1
        if at >= _WINDOW_WORDS:
            oldest = triples[at - _WINDOW_WORDS]
            counts[oldest] -= 1
            if not counts[oldest]:
                del counts[oldest]
        if at >= _WINDOW_WORDS - 1 and len(counts) < _MIN_DISTINCT * _WINDOW_WORDS:
            return True
    return False
