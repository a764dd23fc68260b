"""Final answers: the content of a response's last box, and the verifier that a reference answer calls for.

This is the non-parametric extractor E of RLVR (RLR³, section 4.5): no model reads the response.
"""

import json
import re

from rubricworks.verifiers.calls import parse_verifier_call
from rubricworks.verifiers.expression.numerals import in_digits
from rubricworks.verifiers.expression.surface import boxes, strip_surface
from rubricworks.verifiers.expression.words import read_option
from rubricworks.verifiers.failure import LONGEST
from rubricworks.verifiers.run import run_verifier

_TEXT = re.compile(r"\\(?:text|mathrm|textbf)\{([^{}]*)\}")
_BOXES = re.compile(r"\s*\[\s*\[[-+\d.,\s\[\]]*\]\s*\]\s*")
_NUMERAL = re.compile(r"[-\d./]+")
_WORDS = re.compile(r"(?:[Aa]\s+)?[^\W\d_]{2}[^\\^_=+*/(){}<>|$]*")
"""Begins with a word, perhaps after an article, and holds nothing of a formula."""


def last_boxed(response: str) -> str | None:
    """The content of the last `\\boxed{…}`, braces matched, trimmed; None without a closed one.

    >>> last_boxed(r"so x is \\boxed{3}, no: \\boxed{\\frac{1}{2}}")
    '\\\\frac{1}{2}'
    """
    spans = boxes(response[-LONGEST:])
    return spans[-1].content if spans else None


def answer_call(answer: str, *, options: bool = False) -> str:
    """The verifier's call that checks a final answer against the reference answer.

    A letter of a multiple-choice question, a number, in words too, or a formula: `expr_verify`; boxes
    `[[x1, y1, x2, y2], …]`: `bbox_verify`; words: `text_verify`, without regard to case, spaces and punctuation.

    >>> answer_call("2/3")
    "expr_verify(target='2/3')"
    """
    plain = answer.strip()
    if _BOXES.fullmatch(plain):
        return f"bbox_verify(target={json.dumps(json.loads(plain))})"
    if options or not _WORDS.fullmatch(plain) or _NUMERAL.fullmatch(in_digits(plain)):
        return f"expr_verify(target={plain!r})"
    return f"text_verify(target={plain!r}, ignore_space=True, ignore_punc=True, ignore_case=True)"


def answer_predict(response: str, reference: str) -> str:
    """The call with the response's final answer, as an extractor would write it; an empty predict without one.

    >>> answer_predict(r"It is \\boxed{B. the red one}", "expr_verify(target='B')")
    "expr_verify(predict='B')"
    """
    call = parse_verifier_call(reference)
    content = last_boxed(response) or ""
    if call.name in ("bbox_verify", "point_verify"):
        return f"{call.name}(predict={_coordinates(content)})"
    if call.name == "list_verify":
        return f"list_verify(predict={[item.strip() for item in content.split(',') if item.strip()]!r})"
    if call.name == "time_verify":
        return f"time_verify(predict={content!r}, pformat={call.arguments.get('tformat', '')!r})"
    target = str(call.arguments.get("target"))
    if call.name == "expr_verify" and len(target) == 1 and target.isalpha():
        option = read_option(strip_surface(content).body)
        content = option[0] if option else content
    if call.name == "text_verify" and (wrapped := _TEXT.fullmatch(content)):
        content = wrapped[1].strip()
    return f"{call.name}(predict={content!r})"


def score_answer(response: str, answer: str, *, options: bool = False) -> float:
    """The score of a response's final answer by rules, in [0, 1]: the overlap for boxes, otherwise 0 or 1.

    Raises:
        CannotVerify: the reference answer cannot be read.
    """
    reference = answer_call(answer, options=options)
    score = run_verifier(reference, answer_predict(response, reference))
    return score if reference.startswith("bbox") else float(score == 1)


def _coordinates(text: str) -> str:
    """The lists of numbers in the text, as JSON; the verifier says whether they are boxes."""
    lists = re.findall(r"\[([^\[\]]*)\]", text)
    rows = [[float(number) for number in re.findall(r"[-+]?\d+(?:\.\d+)?", row)] for row in lists]
    return json.dumps([[int(number) if number.is_integer() else number for number in row] for row in rows if row])
