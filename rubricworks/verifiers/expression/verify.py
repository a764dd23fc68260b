"""Expressions: whether two are mathematically equivalent (RLR³, table 7, `expr_verify`)."""

import math
import re
from functools import lru_cache

from rubricworks.verifiers.expression.worker_pool import WORKER, Outcome
from rubricworks.verifiers.failure import CannotVerify, shown, text_of

_LONGEST = 20_000
"""Characters: an answer is a value, but may come with the sentence that says it."""
_SHORT = 500
_MATHEMATICS = re.compile(r"[\d\\$^_=<>|{}()\[\]!+*/]|[^\x00-\x7f]")
_WORDS = re.compile(r"(?<![A-Za-z])[A-Za-z]{2,}+[^A-Za-z]++[A-Za-z]{2}")


def expr_verify(predict: object, *, target: object, timeout: float = 2.0) -> float:
    """1.0 if the two expressions are mathematically equivalent, else 0.0.

    Option letters, numbers, fractions, percentages, radicals, polynomials, tuples, sets, intervals, equations and
    simple inequalities are compared by exact arithmetic, in this process. The rest (functions, sums, integrals,
    matrices, an answer within a sentence) goes to Math-Verify's parser in a worker process, which may be killed.

    - $...$, \\boxed{...}, fonts, spacing and the separators of thousands do not count; x = 5 says 5.
    - Decimals are exact: 0.333 is not 1/3; from six places on, a rounded or cut one is what it was rounded from.
    - 10% is 0.1, not 10. A unit on one side only does not count; where both have one, 5 m is 500 cm, not 5 cm.
    - Letters mean the same in either case unless an answer uses both.

    Args:
        predict: the expression that the response gives; empty, unreadable, or too slow to compute: 0.0.
        target: the right expression.
        timeout: seconds that the worker may take, target and answer together. Starting it, once, comes on top.
    Raises:
        CannotVerify: the target cannot be read, or takes too long.
        UserError: math-verify is missing and needed.

    >>> expr_verify("2/3", target=r"\\frac{4}{6}")
    1.0
    >>> expr_verify(r"\\frac{1}{2006!}", target=r"\\frac{1}{2004!}")
    0.0
    """
    # Loaded with the first expression: rubrics, and so every stage, know the verifiers, and few compare by this one.
    from rubricworks.verifiers.expression.answers import read_answer
    from rubricworks.verifiers.expression.sameness import same

    if type(timeout) not in (int, float) or not 0 < timeout < math.inf:
        raise ValueError(f"timeout {timeout!r} is not a positive number of seconds")
    predicted, wanted = text_of(predict), text_of(target)
    if wanted is None or not wanted.strip() or len(wanted) > _LONGEST:
        raise CannotVerify(f"target {shown(target)} is no expression")
    if predicted is None or not predicted.strip() or len(predicted) > _LONGEST:
        return 0.0
    right = read_answer(wanted)
    if right is None and _is_prose(wanted):
        raise CannotVerify(f"target {shown(target)} is no expression")
    if right is not None:
        answer = read_answer(predicted)
        equal = None if answer is None else same(right, answer)
        if equal is not None:
            return float(equal)
        if _is_prose(predicted):
            return 0.0
    short = len(wanted) <= _SHORT and len(predicted) <= _SHORT
    outcome = (_remembered if short else WORKER.compare)(wanted, predicted, float(timeout))
    if right is None and outcome == "target unreadable":
        raise CannotVerify(f"target {shown(target)} cannot be read")
    if right is None and outcome == "target late":
        raise CannotVerify(f"target {shown(target)} takes longer than {timeout:g} seconds to compute")
    return float(outcome == "equal")


def _is_prose(text: str) -> bool:
    """Words without a digit or a sign of mathematics: nothing that a parser would find."""
    return _WORDS.search(text) is not None and _MATHEMATICS.search(text) is None


def _remembered(target: str, predict: str, seconds: float) -> Outcome:
    try:
        return _compared(target, predict, seconds)
    except _Late as late:
        return late.outcome


@lru_cache(maxsize=4096)
def _compared(target: str, predict: str, seconds: float) -> Outcome:
    outcome = WORKER.compare(target, predict, seconds)
    if outcome.endswith("late"):
        raise _Late(outcome)  # not remembered: another time the machine may be less busy
    return outcome


class _Late(Exception):
    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
