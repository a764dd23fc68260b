"""Verifier guide of the checklist writers' prompts (RLR³, appendix C and table 7).

A verifier compares a value extracted from the response with a target, by rule. Writers that see all verifiers use them
for everything, so each request shows only those that its task allows; where none is, it asks for references in words.
"""

from collections.abc import Sequence
from types import MappingProxyType
from typing import NamedTuple

from rubricworks.errors import UserError
from rubricworks.verifiers.calls import SIGNATURES


class Guide(NamedTuple):
    """Description of one verifier for checklist writers."""

    signature: str
    """Signature without `predict`, which the extractor fills in."""
    use: str
    examples: tuple[str, ...]


GUIDES = MappingProxyType(
    {
        "text_verify": Guide(
            "text_verify(target: str = None, candidates: List[str] = None, use_latex: bool = False, "
            "ignore_space: bool = False, ignore_punc: bool = False, ignore_case: bool = False, "
            "ignore_st: bool = False)",
            "Text that the response copies from the image letter by letter (OCR), or a LaTeX transcription with "
            "use_latex. Scores how alike the texts are; of several candidates the best counts. ignore_st: traditional "
            "and simplified Chinese are one. Never for meaning, and never for an answer that no text in the image "
            "holds.",
            (
                "text_verify(target='Export Volume', ignore_space=True, ignore_case=True)",
                "text_verify(candidates=['Main St', 'Main Street'], ignore_punc=True)",
            ),
        ),
        "expr_verify": Guide(
            "expr_verify(target: str)",
            "A raw value that the response states: the letter of an option, a number, a formula, in LaTeX where "
            "needed. Full credit if it is mathematically the same, else none. Units and the context stay in the "
            "criterion, outside the target. Never for a judgment: no yes or no, true or false, correct or incorrect.",
            (r"expr_verify(target=r'\frac{4}{6}')", "expr_verify(target='B')"),
        ),
        "time_verify": Guide(
            "time_verify(target: str, tformat: str)",
            "A date or a time; tformat is its format in the directives of Python's datetime. Full credit if both name "
            "the same moment, else none. No names of weekdays.",
            (
                "time_verify(target='18:15', tformat='%H:%M')",
                "time_verify(target='3 May 2021', tformat='%d %B %Y')",
            ),
        ),
        "list_verify": Guide(
            "list_verify(target: List[str] = None, candidates: List[List[str]] = None)",
            "Several texts that the response copies from the image, in any order. Each of the candidates is one "
            "complete right list; the best counts.",
            ("list_verify(target=['M-30', 'M-31', 'M-31UK'])",),
        ),
        "bbox_verify": Guide(
            "bbox_verify(target: List[List[int]])",
            "Boxes around objects, one or several: [x1, y1, x2, y2] each, from the top left, in thousandths of the "
            "image's width and height. Scores how far the boxes overlap.",
            ("bbox_verify(target=[[531, 118, 892, 435]])",),
        ),
        "point_verify": Guide(
            "point_verify(target: List[List[int]])",
            "Points on objects, one or several: [x, y] each, from the top left, in thousandths of the image's width "
            "and height. Scores how near the points are.",
            ("point_verify(target=[[591, 234]])",),
        ),
    }
)


def guide_text(allowed: Sequence[str]) -> str:
    """Text about the allowed verifiers for a request: their entries between tags, or one sentence if there are none."""
    if not allowed:
        return "Verifiers: none for this task. Every reference is a ground truth in words."
    parts = [_entry(name) for name in allowed]
    return "\n".join(["<verifiers>", *parts, "</verifiers>"])


def check_verifiers(names: Sequence[str], where: str) -> None:
    """Check that names are known verifiers, each listed once.

    Raises:
        UserError: an unknown or repeated name; the message starts with `where`.
    """
    for name in names:
        if name not in SIGNATURES:
            raise UserError(f"{where}: {name!r} is no verifier; there are {', '.join(SIGNATURES)}")
        if list(names).count(name) > 1:
            raise UserError(f"{where}: {name} stands twice")


def _entry(name: str) -> str:
    guide = GUIDES[name]
    return "\n".join([guide.signature, f"  Use: {guide.use}", f"  Example: {'; '.join(guide.examples)}"])
