"""What a GenRM is trained towards: of each criterion the median of what several teachers made (RLR³, section 4.4).

A teacher's call counts by the credit that the verifier makes of it, and the label keeps the call itself. `thought` and
`rationale` are not supervised, so labels leave them empty.
"""

import json
from collections import Counter
from collections.abc import Sequence

from rubricworks.grading.execution import verdicts_of
from rubricworks.grading.scoring_answers import ScoredItem, Scoring
from rubricworks.rubrics import Rubric, Verdict


def median_label(scorings: Sequence[Scoring], rubric: Rubric) -> Scoring:
    """One scoring of several, all of which `check_scoring` has passed.

    The credit is the median, the lower one when their number is even. Where a verifier checks, the value is the one
    that most of the teachers with that credit found, the first teacher's among equals. A teacher whose call could not
    be run leaves that criterion to the others.

    Raises:
        ValueError: no scoring, or a criterion for which no teacher's can be run.
    """
    if not scorings:
        raise ValueError("no teacher scored the response; a label takes at least one scoring")
    by_teacher = [verdicts_of(scoring, rubric) for scoring in scorings]
    items = [
        ScoredItem(criterion=criterion.criterion, rationale="", credit=_median(votes, criterion.verifier is not None))
        for criterion, votes in zip(rubric.criteria, zip(*by_teacher, strict=True), strict=True)
    ]
    essential, additional = (
        tuple(item for item, flag in zip(items, rubric.essential, strict=True) if flag is wanted)
        for wanted in (True, False)
    )
    return Scoring(thought="", essential=essential, additional=additional)


def loses_credit(label: Scoring, rubric: Rubric) -> bool:
    """Whether the response falls short of full credit on any criterion: what the data is balanced by."""
    return any(verdict.credit != 1 for verdict in verdicts_of(label, rubric))


def write_scoring(scoring: Scoring) -> str:
    """The scoring as a GenRM writes it: the JSON object of appendix A.2, whole credits without a decimal point."""
    lists = {name: [_written(item) for item in getattr(scoring, name)] for name in ("essential", "additional")}
    return json.dumps({"thought": scoring.thought, **lists}, ensure_ascii=False)


def _written(item: ScoredItem) -> dict[str, str | float]:
    credit = item.credit
    if isinstance(credit, float) and credit.is_integer():
        credit = int(credit)
    return {"criterion": item.criterion, "rationale": item.rationale, "credit": credit}


def _median(votes: Sequence[Verdict], verifiable: bool) -> float | str:
    kept = [(vote.credit, vote.call) for vote in votes if vote.credit is not None]
    if not kept:
        raise ValueError(f"criterion {votes[0].criterion!r}: {votes[0].reasoning}")
    credit = sorted(credit for credit, _ in kept)[(len(kept) - 1) // 2]
    if not verifiable:
        return credit
    return Counter(call for own, call in kept if own == credit).most_common(1)[0][0]
