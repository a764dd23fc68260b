"""Labels of a GenRM: per criterion, the median of several teachers' scorings (RLR³, section 4.4).

A teacher's call counts by the credit that the verifier gives it, and the label stores the call itself. A label keeps
reasoning as in the scoring schema (appendix A.2), so that SFT does not teach a GenRM to score without thinking: each
rationale is one of a teacher that had the label's credit and value, the thought that of the teacher that agrees with
the label on most criteria.
"""

import json
from collections import Counter
from collections.abc import Sequence

from rubricworks.grading.execution import verdicts_of
from rubricworks.grading.scoring_answers import ScoredItem, Scoring
from rubricworks.rubrics import Rubric, Verdict


def median_label(scorings: Sequence[Scoring], rubric: Rubric, *, reasoning: bool = True) -> Scoring:
    """Merge several scorings that passed `check_scoring` into one.

    The credit is the median; of an even number of credits, the lower median. For a criterion with a verifier, the value
    is the most frequent one among the teachers with that credit; among equals, the first teacher's. A call that cannot
    be run does not count.

    Args:
        reasoning: keep the teachers' thought and rationales; otherwise both are empty.
    Raises:
        ValueError: there is no scoring, or a criterion has no runnable call.
    """
    if not scorings:
        raise ValueError("no teacher scored the response; a label takes at least one scoring")
    by_teacher = [verdicts_of(scoring, rubric) for scoring in scorings]
    thought, items = "", []
    agreements = [0] * len(scorings)
    for criterion, votes in zip(rubric.criteria, zip(*by_teacher, strict=True), strict=True):
        credit = _median(votes, criterion.verifier is not None)
        agreeing = [at for at, vote in enumerate(votes) if credit == (vote.call if criterion.verifier else vote.credit)]
        for at in agreeing:
            agreements[at] += 1
        rationale = votes[agreeing[0]].reasoning if reasoning else ""
        items.append(ScoredItem(criterion=criterion.criterion, rationale=rationale, credit=credit))
    if reasoning:
        thought = scorings[agreements.index(max(agreements))].thought
    essential, additional = (
        tuple(item for item, flag in zip(items, rubric.essential, strict=True) if flag is essential_list)
        for essential_list in (True, False)
    )
    return Scoring(thought=thought, essential=essential, additional=additional)


def loses_credit(label: Scoring, rubric: Rubric) -> bool:
    """Return True if the response misses full credit on any criterion; the data is balanced by this."""
    return any(verdict.credit != 1 for verdict in verdicts_of(label, rubric))


def write_scoring(scoring: Scoring) -> str:
    """Write a scoring as a GenRM does: the JSON object of appendix A.2, with whole credits as integers."""
    lists = {name: [_item_json(item) for item in getattr(scoring, name)] for name in ("essential", "additional")}
    return json.dumps({"thought": scoring.thought, **lists}, ensure_ascii=False)


def _item_json(item: ScoredItem) -> dict[str, str | float]:
    credit = item.credit
    if isinstance(credit, float) and credit.is_integer():
        credit = int(credit)
    return {"criterion": item.criterion, "rationale": item.rationale, "credit": credit}


def _median(votes: Sequence[Verdict], verifiable: bool) -> float | str:
    valid = [(vote.credit, vote.call) for vote in votes if vote.credit is not None]
    if not valid:
        raise ValueError(f"criterion {votes[0].criterion!r}: {votes[0].reasoning}")
    median = sorted(credit for credit, _ in valid)[(len(valid) - 1) // 2]
    if not verifiable:
        return median
    return Counter(call for credit, call in valid if credit == median).most_common(1)[0][0]
