"""Text: how alike two strings are (RLR³, table 7, `text_verify`)."""

import unicodedata
from functools import cache, lru_cache
from typing import Any

from rubricworks.verifiers.failure import LONGEST, CannotVerify, needed, shown, text_of
from rubricworks.verifiers.latex import canonical_latex


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

    Without flags the strings are compared as they are. Each flag is one normalisation of both sides, in this order:

    =============  ==========================================  =======================================
    use_latex      LaTeX to one spelling (see `latex`)         "\\dfrac12" and "\\frac{1}{2}"
    ignore_st      traditional Chinese to simplified (OpenCC)  "頭髮" and "头发"
    ignore_case    Unicode case folding                        "STRASSE" and "straße"
    ignore_punc    drop Unicode punctuation (categories P*)    "co-op" and "coop"; "$5" keeps its sign
    ignore_space   drop all white space                        "Bus Stop" and "BusStop"
    =============  ==========================================  =======================================

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
    if use_latex or ignore_st or ignore_case or ignore_punc or ignore_space:
        flags = bool(use_latex), bool(ignore_st), bool(ignore_case), bool(ignore_punc), bool(ignore_space)
        predicted = _normalised(predicted, flags)
        texts = [(_remembered if len(text) <= 1000 else _normalised)(text, flags) for text in texts]
    similarity = similarity_function()
    return max([similarity(predicted, text) for text in texts])


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


def _normalised(text: str, flags: tuple[bool, ...]) -> str:
    use_latex, ignore_st, ignore_case, ignore_punc, ignore_space = flags
    if use_latex:
        text = canonical_latex(text)
    if ignore_st and not text.isascii():
        text = _simplified(text)
    if ignore_case:
        text = text.casefold()
    if ignore_punc:
        text = "".join(character for character in text if unicodedata.category(character)[0] != "P")
    if ignore_space:
        text = "".join(text.split())
    return text


_remembered = lru_cache(maxsize=1024)(_normalised)


def _simplified(text: str) -> str:
    try:
        return _converter().convert(text)
    except UnicodeEncodeError:  # half a character
        return text


@cache
def _converter() -> Any:
    # tw2s: t2s and Taiwan's variants (看著 = 看着); characters only, no vocabulary.
    return needed("opencc", "OpenCC").OpenCC("tw2s")
