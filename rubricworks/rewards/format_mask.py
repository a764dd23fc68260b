"""Format mask: rejects repetition loops and mixed languages (RLR³, section 4.3.2, m_format).

The paper names the two violations without thresholds; the thresholds are ours.
"""

import re
from collections.abc import Iterable

_LOOP_WORDS, _LOOP_REPEATS, _MAX_UNIT_WORDS = 24, 5, 64
"""A loop: a unit of up to 64 words repeated five times or more, over at least 24 words."""
_LOOP_LETTERS, _LOOP_LETTER_REPEATS, _MAX_UNIT_LETTERS = 64, 8, 16
"""A loop of letters, within one word or in unspaced text: eight times or more, over at least 64 letters."""
_QUOTABLE_LETTERS = 3
"""Letters of a foreign script that still pass as a quoted name or sign."""

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
    """Return True if a sequence of words or letters repeats without a break."""
    words = response.split()
    if _has_loop(words, _MAX_UNIT_WORDS, _LOOP_WORDS, _LOOP_REPEATS):
        return True
    letters = [letter for letter in response if letter.isalpha()]
    return _has_loop(letters, _MAX_UNIT_LETTERS, _LOOP_LETTERS, _LOOP_LETTER_REPEATS)


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


def _has_loop(items: list[str], max_unit: int, min_length: int, repeats: int) -> bool:
    """Return True if a unit of items repeats over at least max(min_length, repeats * unit) items."""
    import numpy as np

    if len(items) < min_length:
        return False
    codes = {item: number for number, item in enumerate(dict.fromkeys(items))}
    sequence = np.fromiter((codes[item] for item in items), dtype=np.int64, count=len(items))
    for unit in range(1, min(max_unit, len(items) // repeats) + 1):
        different = np.flatnonzero(sequence[unit:] != sequence[:-unit])
        edges = np.concatenate(([-1], different, [len(sequence) - unit]))
        if int(np.diff(edges).max()) - 1 >= max(min_length, repeats * unit) - unit:
            return True
    return False
