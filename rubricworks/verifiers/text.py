"""Text: how alike two strings are (RLR³, table 7, `text_verify`)."""

import re
import unicodedata
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from rubricworks.verifiers.failure import LONGEST, CannotVerify, needed, shown, text_of
from rubricworks.verifiers.latex import canonical_latex

Flags = tuple[bool, bool, bool, bool, bool]
"""use_latex, ignore_st, ignore_case, ignore_punc, ignore_space"""

_HALF_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: " "}
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_DASH = re.compile("[\u2010-\u2015]")
_DATE = re.compile(r"\d+(?:[-./:]\d+){2,}")
"""Dates, telephone numbers, versions: which sign parts them does not count."""
_SEPARATOR = re.compile("[-./:]")
_OF_A_NUMBER = re.compile(
    r"(?<=\d)[^\w\s](?=\d)|(?<![^\s(\[{])[-.](?=\.?\d)|(?<=[-.])\.(?=\d)|(?<=\d)[%‰]|(?<=\d\s)[%‰]"
)
"""A sign between digits, before the first, or a percent sign after the last."""


def text_verify(
    predict: object,
    *,
    target: object = None,
    candidates: object = None,
    use_latex: bool = False,
    ignore_space: bool = False,
    ignore_punc: bool = False,
    ignore_case: bool = False,
    ignore_st: bool = False,
) -> float:
    """1 - Levenshtein distance / length of the longer text, in [0, 1]; two empty texts are alike: 1.

    Without flags the strings are compared as they are, but for canonically equivalent characters (Unicode's NFC: é in
    one code point or two). Each flag is one normalisation of both sides, in this order:

    =============  ===========================================  =======================================
    use_latex      LaTeX to one spelling (see `latex`)          "\\dfrac12" and "\\frac{1}{2}"
    ignore_st      traditional Chinese to simplified (OpenCC),  "頭髮" and "头发"
                   full width to half width
    ignore_case    Unicode case folding                         "STRASSE" and "straße"
    ignore_punc    drop Unicode punctuation (categories P*)     "co-op" and "coop"; "$5" keeps its sign
    ignore_space   drop all white space                         "Bus Stop" and "BusStop"
    =============  ===========================================  =======================================

    Texts that only ignore_punc makes alike differ where the punctuation belongs to a number (3.1 and 31, -5 and 5, 5%
    and 5), and where there is nothing else (!!! and ...).

    Args:
        predict: the text that the response gives; a number counts as its digits, anything else scores 0, as does a text
            of more than 100,000 characters.
        target: the right text.
        candidates: several right texts; the best score counts.
    Raises:
        CannotVerify: there is neither target nor candidates, or one is not text, or is too long.

    >>> text_verify("24 CARAT CAKE", target="24 CARROT CAKE")
    0.857...
    >>> text_verify("export volume", target="Export Volume", ignore_space=True, ignore_case=True)
    1.0
    """
    texts = _alternatives(target, candidates)
    predicted = text_of(predict)
    if predicted is None or len(predicted) > LONGEST:
        return 0.0
    flags = bool(use_latex), bool(ignore_st), bool(ignore_case), bool(ignore_punc), bool(ignore_space)
    similarity = similarity_function()
    if not any(flags):
        predicted = composed(predicted)
        return max([float(similarity(predicted, composed(text))) for text in texts])
    normalised = _normalise(predicted, flags)
    return max([_similarity(similarity, predicted, normalised, text, flags) for text in texts])


def _similarity(similarity: Any, predicted: str, normalised: str, text: str, flags: Flags) -> float:
    wanted = (_normalise_cached if len(text) <= 1000 else _normalise)(text, flags)
    score = float(similarity(normalised, wanted))
    if score < 1 or not flags[3]:
        return score
    # Alike without punctuation: not if it parted the digits of a number, or was all there is.
    keep = _keep_punctuation if wanted == "" else _keep_number_punctuation
    stripped, other = (_normalise(side, flags, keep) for side in (predicted, text))
    return float(similarity(stripped, other)) if stripped and other else score


def composed(text: str) -> str:
    """One spelling of canonically equivalent characters (NFC)."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


@cache
def similarity_function() -> Any:
    """1 - Levenshtein distance / length of the longer text, of two texts."""
    return needed("rapidfuzz.distance.Levenshtein", "RapidFuzz").normalized_similarity


def _alternatives(target: object, candidates: object) -> list[str]:
    wanted = [] if target is None else [target]
    if candidates is not None:
        if not isinstance(candidates, list | tuple):
            raise CannotVerify(f"candidates {shown(candidates)} is not a list of texts")
        wanted += candidates
    if not wanted:
        raise CannotVerify("text_verify has neither a target nor candidates")
    texts = []
    for value in wanted:
        if (text := text_of(value)) is None:
            raise CannotVerify(f"target {shown(value)} is not text")
        if len(text) > LONGEST:
            raise CannotVerify(f"target has {len(text):,} characters; at most {LONGEST:,} are compared")
        texts.append(text)
    return texts


def _drop_punctuation(text: str) -> str:
    return "".join(character for character in text if unicodedata.category(character)[0] != "P")


def _keep_punctuation(text: str) -> str:
    return text


def _keep_number_punctuation(text: str) -> str:
    """Drop punctuation but in numbers: decimal points, signs, fractions, times, percent; separators of thousands go."""
    text = _DATE.sub(lambda date: _SEPARATOR.sub("·", date[0]), _DASH.sub("-", _THOUSANDS.sub("", text)))
    inside_numbers = {match.start() for match in _OF_A_NUMBER.finditer(text)}
    return "".join(
        character
        for at, character in enumerate(text)
        if at in inside_numbers or unicodedata.category(character)[0] != "P"
    )


def _normalise(text: str, flags: Flags, without_punctuation: Callable[[str], str] = _drop_punctuation) -> str:
    use_latex, ignore_st, ignore_case, ignore_punc, ignore_space = flags
    text = composed(text)
    if use_latex:
        text = canonical_latex(text)
    if ignore_st and not text.isascii():
        text = _simplified(text).translate(_HALF_WIDTH)
    if ignore_case:
        text = text.casefold()
    if ignore_punc:
        text = without_punctuation(text)
    if ignore_space:
        text = "".join(text.split())
    return text


_normalise_cached = lru_cache(maxsize=1024)(_normalise)


def _simplified(text: str) -> str:
    try:
        return str(_converter().convert(text))
    except UnicodeEncodeError:  # half a character
        return text


@cache
def _converter() -> Any:
    # tw2s: t2s and Taiwan's variants (看著 = 看着); characters only, no vocabulary.
    return needed("opencc", "OpenCC").OpenCC("tw2s")
