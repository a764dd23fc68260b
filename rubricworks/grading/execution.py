"""From a scoring to verdicts: credit as the judge gave it, or what the verifier makes of what the extractor found.

A verifier's target never left this process; here it meets the extracted value for the first time (RLR³, section 4.2).
"""

import asyncio
import re

from rubricworks.errors import UserError
from rubricworks.grading.scoring_answers import ScoredItem, Scoring
from rubricworks.rubrics import Criterion, ErrorClass, Rubric, Verdict
from rubricworks.verifiers import CannotVerify, run_verifier

_QUICK_LENGTH = 400
_QUICK_EXPRESSION = re.compile(r"expr_verify\(\w+=r?(['\"]?)(?:[A-Za-z]|[-+]?\d{1,15}(?:[./]\d{1,15})?|)\1\)")
"""An option's letter or a plain number: compared here, without Math-Verify's worker."""


def verdicts_of(scoring: Scoring, rubric: Rubric) -> tuple[Verdict, ...]:
    """One verdict per criterion, in the rubric's order; runs the verifiers, which may take seconds: see `execute`.

    Args:
        scoring: an answer that `check_scoring` has passed.
    Raises:
        ValueError: the scoring has another number of criteria.
        UserError: a verifier's package is missing.
    """
    return tuple(_verdict(criterion, scored) for criterion, scored in _paired(scoring, rubric))


async def execute(scoring: Scoring, rubric: Rubric) -> tuple[Verdict, ...]:
    """The same from an event loop: in a thread of its own where a verifier may be slow."""
    if all(_is_quick(criterion, scored) for criterion, scored in _paired(scoring, rubric)):
        return verdicts_of(scoring, rubric)
    return await asyncio.to_thread(verdicts_of, scoring, rubric)


def _paired(scoring: Scoring, rubric: Rubric) -> list[tuple[Criterion, ScoredItem]]:
    counts = (sum(rubric.essential), len(rubric.criteria) - sum(rubric.essential))
    if (len(scoring.essential), len(scoring.additional)) != counts:
        raise ValueError(
            f"the scoring has {len(scoring.essential)} essential and {len(scoring.additional)} additional criteria, "
            f"the rubric {counts[0]} and {counts[1]}"
        )
    essential, additional = iter(scoring.essential), iter(scoring.additional)
    return [(criterion, next(essential if criterion.essential else additional)) for criterion in rubric.criteria]


def _verdict(criterion: Criterion, scored: ScoredItem) -> Verdict:
    name, call = criterion.criterion, scored.credit
    if not isinstance(call, str):
        return Verdict(criterion=name, credit=call, reasoning=scored.rationale)
    try:
        credit = run_verifier(criterion.reference, call)
    except CannotVerify as error:
        return Verdict(criterion=name, error=ErrorClass.UNVERIFIABLE, reasoning=str(error), call=call)
    except UserError:
        raise
    except ValueError as error:
        return Verdict(criterion=name, error=ErrorClass.MALFORMED, reasoning=str(error), call=call)
    return Verdict(criterion=name, credit=credit, reasoning=scored.rationale, call=call)


def _is_quick(criterion: Criterion, scored: ScoredItem) -> bool:
    call = scored.credit
    if not isinstance(call, str):
        return True
    if len(call) + len(criterion.reference) > _QUICK_LENGTH:
        return False
    both = (call, criterion.reference)
    return not call.startswith("expr_verify") or all(_QUICK_EXPRESSION.fullmatch(text) for text in both)
