"""Options of a multiple-choice question: `B`, `(B)`, `B. the red one`, `Option B`."""

import re

from rubricworks.verifiers.expression.doubt import DOUBTS

_PREFIX = r"(?:(?:the\s+)?(?:correct\s+|right\s+|final\s+)?(?:option|choice|answer)\s*(?:is\s+)?:?\s*)?"
_OPTION = re.compile(
    rf"{_PREFIX}(?:[(\[]\s*(?P<bracketed>[A-Ja-j])\s*[)\]](?:[.:]\s*|\s+|(?=$))|(?P<marked>[A-Ja-j])(?:\s*[.)]\s*|:\s+)"
    r"|(?P<dashed>[A-J])\s+--?\s+(?=[A-Za-z])|(?P<alone>[A-J])(?=\s*$))(?P<text>.*)",
    re.IGNORECASE | re.DOTALL,
)
_OTHER_OPTION = re.compile(r"(?<![A-Za-z])(?:[(\[][A-Ja-j][)\]]|[A-J][.):]\s|(?:option|choice)\s+[A-J]\b)")
_JOINED = re.compile(r"\W*(?:(?:and|or|but|not|nor|&|/|,)(?![A-Za-z])|[A-Za-z]\W*$|[-+=<>^*/])", re.IGNORECASE)


def read_option(text: str) -> tuple[str, str] | None:
    """The letter in upper case, and the text that follows it; None if the text names no option, or two, or doubts it.

    >>> read_option("(b) the red one"), read_option("A or B"), read_option("A dog")
    (('B', 'the red one'), None, None)
    """
    match = _OPTION.fullmatch(text.strip())
    if match is None:
        return None
    letter = match["bracketed"] or match["marked"] or match["dashed"] or match["alone"]
    rest = match["text"].strip(" .")
    if rest and (_JOINED.match(rest) or _OTHER_OPTION.search(rest) or DOUBTS.search(rest) or "?" in rest):
        return None
    if match["marked"] and re.match(r"\d", rest) and ":" in match[0][:2]:  # a: 5 gives a its value
        return None
    return letter.upper(), rest
