"""Whether a response keeps its form: no repetition loop, no other language (RLR³, section 4.3.2, m_format).

The paper names the two violations and not their thresholds; these are ours.
"""

import re
from collections.abc import Iterable

_LOOP_WORDS, _LOOP_TURNS, _LONGEST_UNIT = 24, 5, 64
"""A loop: a unit of up to 64 words that comes back five times or more, over at least 24 words."""
_LOOP_LETTERS, _LOOP_LETTER_TURNS, _LONGEST_LETTER_UNIT = 64, 8, 16
"""The same within one word or where words are not parted: eight times or more, over at least 64 letters."""
_FOREIGN_LETTERS = 3
"""Letters of a foreign script that are not yet another language; a name or a sign may be quoted."""

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
"""Greek is left out: it is mathematics in every language. Kana counts with Han."""
_FORMULA = re.compile(r"\\[A-Za-z]+|\b[A-Za-z]\b")
"""LaTeX commands and one-letter variables belong to no language."""


def format_mask(response: str, *, allowed: Iterable[str] = ()) -> bool:
    """m_format: True unless the response runs in a loop or mixes languages.

    Args:
        allowed: texts whose scripts the response may use: the question, and the references if they quote foreign text.
            Without any, the response's most frequent script is its language.
    """
    return not runs_in_a_loop(response) and not mixes_languages(response, allowed=allowed)


def runs_in_a_loop(response: str) -> bool:
    """Whether some sequence of words, or of letters, comes back again and again without a break."""
    words = response.split()
    if _longest_return(words, _LONGEST_UNIT, _LOOP_WORDS, _LOOP_TURNS):
        return True
    letters = [letter for letter in response if letter.isalpha()]
    return _longest_return(letters, _LONGEST_LETTER_UNIT, _LOOP_LETTERS, _LOOP_LETTER_TURNS)


def mixes_languages(response: str, *, allowed: Iterable[str] = ()) -> bool:
    """Whether more than a quotation is written in a script that the allowed texts do not use.

    Latin letters stand in formulas and names everywhere, so they count as another language only where they are most of
    the letters.
    """
    counts = _letters_of(response)
    at_home = {script for text in allowed for script in _letters_of(text)}
    if not at_home and counts:
        at_home = {max(counts, key=lambda script: counts[script])}
    foreign = {script: count for script, count in counts.items() if script not in at_home}
    latin = foreign.pop("latin", 0)
    return any(count > _FOREIGN_LETTERS for count in foreign.values()) or latin > sum(counts.values()) / 2


def _letters_of(text: str) -> dict[str, int]:
    plain = _FORMULA.sub(" ", text)
    counts = {script: len(pattern.findall(plain)) for script, pattern in _SCRIPTS.items()}
    return {script: count for script, count in counts.items() if count}


def _longest_return(items: list[str], longest_unit: int, least: int, turns: int) -> bool:
    """Whether the items equal those `unit` places before them over at least max(least, turns * unit) places."""
    import numpy as np

    if len(items) < least:
        return False
    numbers = {item: number for number, item in enumerate(dict.fromkeys(items))}
    sequence = np.fromiter((numbers[item] for item in items), dtype=np.int64, count=len(items))
    for unit in range(1, min(longest_unit, len(items) // turns) + 1):
        different = np.flatnonzero(sequence[unit:] != sequence[:-unit])
        edges = np.concatenate(([-1], different, [len(sequence) - unit]))
        if int(np.diff(edges).max()) - 1 >= max(least, turns * unit) - unit:
            return True
    return False
