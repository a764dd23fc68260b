"""The verifier table: what there is to know of each verifier, once, as data (RLR³, table 7 and appendix C).

Parsing, scoring, the scorer's prompt and the checklist writers' prompt are served by it. A new verifier is its function
and its entry here. Names stand in stored rubrics: an entry is added or changed, never renamed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from rubricworks.verifiers.boxes import bbox_verify
from rubricworks.verifiers.expression.verify import expr_verify
from rubricworks.verifiers.lists import list_verify
from rubricworks.verifiers.points import point_verify
from rubricworks.verifiers.text import text_verify
from rubricworks.verifiers.times import time_verify


@dataclass(frozen=True)
class Verifier:
    """One deterministic score of an extracted value against its target."""

    score: Callable[..., float]
    """Called with the arguments of both calls as keywords."""
    extraction: str
    """Entry of the scorer's prompt: the call of the model that reads the response, its use and an example."""
    signature: str
    """Entry of the writers' prompt: the call of a rubric."""
    use: str
    examples: tuple[str, ...]
    target: frozenset[str] = frozenset({"target"})
    """Arguments that the rubric's call may give."""
    required: tuple[str, ...] = ("target",)
    """Required target arguments; `candidates` may replace them."""
    predict: frozenset[str] = frozenset({"predict"})
    """Arguments that the extractor's call gives."""


VERIFIERS: Mapping[str, Verifier] = MappingProxyType(
    {
        "text_verify": Verifier(
            text_verify,
            extraction="text_verify(predict: str) - text as it is read in the image, or LaTeX; copy it character for "
            "character. Example: text_verify(predict='Export Volume')",
            signature="text_verify(target: str = None, candidates: List[str] = None, use_latex: bool = False, "
            "ignore_space: bool = False, ignore_punc: bool = False, ignore_case: bool = False, "
            "ignore_st: bool = False)",
            use="Text that the response copies from the image letter by letter (OCR), or a LaTeX transcription with "
            "use_latex. Scores how alike the texts are; of several candidates the best counts. ignore_st: traditional "
            "and simplified Chinese are one. Never for meaning, and never for an answer that no text in the image "
            "holds.",
            examples=(
                "text_verify(target='Export Volume', ignore_space=True, ignore_case=True)",
                "text_verify(candidates=['Main St', 'Main Street'], ignore_punc=True)",
            ),
            target=frozenset(
                {"target", "candidates", "use_latex", "ignore_space", "ignore_punc", "ignore_case", "ignore_st"}
            ),
        ),
        "expr_verify": Verifier(
            expr_verify,
            extraction="expr_verify(predict: str) - a number, an option's letter, a formula, a LaTeX expression. "
            "Example: expr_verify(predict='2/3')",
            signature="expr_verify(target: str)",
            use="A raw value that the response states: the letter of an option, a number, a formula, in LaTeX where "
            "needed. Full credit if it is mathematically the same, else none. Units and the context stay in the "
            "criterion, outside the target. Never for a judgment: no yes or no, true or false, correct or incorrect.",
            examples=(r"expr_verify(target=r'\frac{4}{6}')", "expr_verify(target='B')"),
        ),
        "time_verify": Verifier(
            time_verify,
            extraction="time_verify(predict: str, pformat: str) - a date or time, and the Python datetime format that "
            "it is written in. Example: time_verify(predict='18:15', pformat='%H:%M') Without a time: "
            "time_verify(predict='', pformat='')",
            signature="time_verify(target: str, tformat: str)",
            use="A date or a time; tformat is its format in the directives of Python's datetime. Full credit if both "
            "name the same moment, else none. No names of weekdays.",
            examples=(
                "time_verify(target='18:15', tformat='%H:%M')",
                "time_verify(target='3 May 2021', tformat='%d %B %Y')",
            ),
            target=frozenset({"target", "tformat"}),
            required=("target", "tformat"),
            predict=frozenset({"predict", "pformat"}),
        ),
        "list_verify": Verifier(
            list_verify,
            extraction="list_verify(predict: List[str]) - several texts that are read in the image. Example: "
            "list_verify(predict=['M-30', 'M-31'])",
            signature="list_verify(target: List[str] = None, candidates: List[List[str]] = None)",
            use="Several texts that the response copies from the image, in any order. Each of the candidates is one "
            "complete right list; the best counts.",
            examples=("list_verify(target=['M-30', 'M-31', 'M-31UK'])",),
            target=frozenset({"target", "candidates"}),
        ),
        "bbox_verify": Verifier(
            bbox_verify,
            extraction="bbox_verify(predict: List[List[int]]) - boxes, each [x1, y1, x2, y2]. Example: "
            "bbox_verify(predict=[[529, 119, 890, 433]])",
            signature="bbox_verify(target: List[List[int]])",
            use="Boxes around objects, one or several: [x1, y1, x2, y2] each, from the top left, in thousandths of "
            "the image's width and height. Scores how far the boxes overlap.",
            examples=("bbox_verify(target=[[531, 118, 892, 435]])",),
        ),
        "point_verify": Verifier(
            point_verify,
            extraction="point_verify(predict: List[List[int]]) - points, each [x, y]. Example: "
            "point_verify(predict=[[589, 236]])",
            signature="point_verify(target: List[List[int]])",
            use="Points on objects, one or several: [x, y] each, from the top left, in thousandths of the image's "
            "width and height. Scores how near the points are.",
            examples=("point_verify(target=[[591, 234]])",),
            target=frozenset({"target", "radius"}),
        ),
    }
)
"""Name → verifier."""
