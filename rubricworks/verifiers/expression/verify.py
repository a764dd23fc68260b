"""`expr_verify`: mathematical equivalence of two expressions (RLR³, table 7)."""

import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from rubricworks.verifiers.expression.worker_pool import WORKERS
from rubricworks.verifiers.failure import CannotVerify, shown, text_of

if TYPE_CHECKING:
    from rubricworks.verifiers.expression.values import Answer

_SPACE = re.compile(r"(?<!\w)\s+|\s+(?!\w)")
_ONE_IN_BRACES = re.compile(r"\{(\w)\}(?!\w)")
_NUMBER_IN_WORDS = re.compile(r"[^\\]*[\d=<>][^\\]*")
_LONGEST = 20_000
"""Characters: an answer is a value, but may come with the solution that leads to it."""


def expr_verify(predict: object, *, target: object, timeout: float = 2.0) -> float:
    """1.0 if the two expressions are mathematically equivalent, else 0.0.

    Both texts are read into typed answers: numbers, quantities, expressions, intervals and sets, tuples, matrices,
    relations, functions, choices, lists, words. Two are equal if their values agree at random points, with unknown
    functions and derivatives as symbols of their own, or if they have the same form; relations, if they have the same
    solutions. SymPy computes integrals, sums, limits and derivatives only, in worker processes, which may be killed.

    - $...$, \\boxed{...}, fonts, spacing and the separators of thousands do not count; x = 5 says 5.
    - Decimals are exact: 0.333 is not 1/3; one of six places and digits or more is what it is rounded from.
    - 10% is 0.1, not 10; 5 million is 5,000,000, not 5; three is 3.
    - A unit, or the things counted, on one side only do not count; where both have one, 5 m is 500 cm, not 5 cm.
      Words that are neither count: at least 5, 5 more, 5 m up are not 5.
    - Times, dates and ranges are no sums: 3:45 is not 1/15, 2010-2012 not -2.
    - 3,4 is a list; 1,25, with two digits or more after the comma, is 1.25 beside another decimal.
    - Letters mean the same in either case unless an answer uses both; CO is not Co, AB not BA, but xy is yx.
    - Where only one side has a real value, they differ: ln |x| is not ln x, |x| not e^(ln x).
    - 1=2, x=x, the empty set and what has no value equal their own form and nothing else.
    - In a sentence or a solution the value counts that is stated last, unless it is denied or doubted.

    Args:
        predict: the expression that the response gives; empty, unreadable, or too slow to compute: 0.0.
        target: the right expression.
        timeout: seconds of the processor that a worker may use, target and answer together. Starting it, once, comes
            on top.
    Raises:
        CannotVerify: the target cannot be read, or takes too long.
        UserError: mpmath or SymPy is missing and needed.

    >>> expr_verify("2/3", target=r"\\frac{4}{6}")
    1.0
    >>> expr_verify(r"\\frac{1}{2006!}", target=r"\\frac{1}{2004!}")
    0.0
    """
    # Loaded with the first expression: rubrics, and so every stage, know the verifiers, and few compare by this one.
    from rubricworks.verifiers.expression.equality import same

    if type(timeout) not in (int, float) or not 0 < timeout < math.inf:
        raise ValueError(f"timeout {timeout!r} is not a positive number of seconds")
    predicted, wanted = text_of(predict), text_of(target)
    if wanted is None or not wanted.strip() or len(wanted) > _LONGEST:
        raise CannotVerify(f"target {shown(target)} is no expression")
    if predicted is None or not predicted.strip() or len(predicted) > _LONGEST:
        return 0.0
    right, answer = _read(wanted), _read(predicted)
    if not right.form or right.is_prose:
        raise CannotVerify(f"target {shown(target)} is no expression")
    if right.form == answer.form:
        return 1.0
    if right.answer is None or answer.answer is None:
        return 0.0
    equal = same(right.answer, answer.answer)
    if equal is None:
        equal = _compare_by_worker(right.text, answer.text, target, float(timeout))
    return float(equal)


class _Reading(NamedTuple):
    answer: "Answer | None"
    """The value, if the text states one."""
    text: str
    """The text that states it."""
    form: str
    """The only spelling; empty if nothing is stated."""
    is_prose: bool = False
    """Words without a number, or with a formula that is refused."""


@lru_cache(maxsize=8192)
def _read(text: str) -> _Reading:
    from rubricworks.verifiers.expression.amounts import NoValue
    from rubricworks.verifiers.expression.reading import read_answer
    from rubricworks.verifiers.expression.statement import is_form, is_name, stated_value
    from rubricworks.verifiers.expression.tokens import TooLarge

    try:
        answer, is_sure = read_answer(text), True
        if _is_phrase(answer) and not is_form(text) and not is_name(text):
            is_sure = False
            if (stated := stated_value(text)) is not None:
                answer, text, is_sure = read_answer(stated), stated, is_form(stated)
    except (TooLarge, NoValue):
        return _Reading(None, "", "")
    is_prose = not is_sure and _is_phrase(answer) and _NUMBER_IN_WORDS.fullmatch(getattr(answer, "text", "")) is None
    return _Reading(answer, text, form_of(text) if answer is not None or is_form(text) else "", is_prose)


def _is_phrase(answer: "Answer | None") -> bool:
    from rubricworks.verifiers.expression.values import Word

    return answer is None or (isinstance(answer, Word) and answer.phrase)


def form_of(text: str) -> str:
    """The text without its surface and the spaces that mean nothing."""
    from rubricworks.verifiers.expression.surface import strip_surface

    return _SPACE.sub("", _ONE_IN_BRACES.sub(r" \1", strip_surface(text).body))


def _compare_by_worker(wanted: str, predicted: str, target: object, seconds: float) -> bool:
    outcome = WORKERS.compare(wanted, predicted, seconds)
    if outcome == "target unreadable":
        raise CannotVerify(f"target {shown(target)} cannot be read")
    if outcome == "target late":
        raise CannotVerify(f"target {shown(target)} takes longer than {seconds:g} seconds to compute")
    return outcome == "equal"
