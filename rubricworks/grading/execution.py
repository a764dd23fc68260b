"""Execution of a scoring: verdicts from the judge's credits, and from verifiers run on the extracted values.

A verifier's target never leaves this process; only here is it compared with the extracted value (RLR³, section 4.2).
"""

import asyncio
import re

from rubricworks.errors import UserError
from rubricworks.grading.scoring_answers import ScoredItem, Scoring
from rubricworks.rubrics import Criterion, ErrorClass, Rubric, Verdict
from rubricworks.verifiers import CannotVerify, run_verifier

_QUICK_LENGTH = 400
_QUICK_EXPRESSION = re.compile(r"expr_verify\(\w+=r?(['\"]?)(?:[A-Za-z]|[-+]?\d{1,15}(?:[./]\d{1,15})?|)\1\)")
"""An option's letter or a plain number, which is compared without Math-Verify's worker."""


def verdicts_of(scoring: Scoring, rubric: Rubric) -> tuple[Verdict, ...]:
    """Compute one verdict per criterion, in the rubric's order. Running the verifiers may take seconds: see `execute`.

    Args:
        scoring: an answer that has passed `check_scoring`.
    Raises:
        ValueError: the scoring has a different number of criteria.
        UserError: a verifier's package is missing.
    """
    return tuple(_verdict(criterion, item) for criterion, item in _pair_criteria(scoring, rubric))


async def execute(scoring: Scoring, rubric: Rubric) -> tuple[Verdict, ...]:
    """Compute the verdicts from an event loop, in a thread if a verifier may be slow."""
    if all(_is_quick(criterion, item) for criterion, item in _pair_criteria(scoring, rubric)):
        return verdicts_of(scoring, rubric)
    return await asyncio.to_thread(verdicts_of, scoring, rubric)


def _pair_criteria(scoring: Scoring, rubric: Rubric) -> list[tuple[Criterion, ScoredItem]]:
    counts = (sum(rubric.essential), len(rubric.criteria) - sum(rubric.essential))
    if (len(scoring.essential), len(scoring.additional)) != counts:
        raise ValueError(
            f"the scoring has {len(scoring.essential)} essential and {len(scoring.additional)} additional criteria, "
            f"the rubric {counts[0]} and {counts[1]}"
        )
    essential, additional = iter(scoring.essential), iter(scoring.additional)
    return [(criterion, next(essential if criterion.essential else additional)) for criterion in rubric.criteria]


def _verdict(criterion: Criterion, item: ScoredItem) -> Verdict:
    name, call = criterion.criterion, item.credit
    if not isinstance(call, str):
        return Verdict(criterion=name, credit=call, reasoning=item.rationale)
    try:
        credit = run_verifier(criterion.reference, call)
    except CannotVerify as error:
        return Verdict(criterion=name, error=ErrorClass.UNVERIFIABLE, reasoning=str(error), call=call)
    except UserError:
        raise
    except ValueError as error:
        return Verdict(criterion=name, error=ErrorClass.MALFORMED, reasoning=str(error), call=call)
    return Verdict(criterion=name, credit=credit, reasoning=item.rationale, call=call)


def _is_quick(criterion: Criterion, item: ScoredItem) -> bool:
    call = item.credit
    if not isinstance(call, str):
        return True
    if len(call) + len(criterion.reference) > _QUICK_LENGTH:
        return False
    calls = (call, criterion.reference)
    return not call.startswith("expr_verify") or all(_QUICK_EXPRESSION.fullmatch(text) for text in calls)
