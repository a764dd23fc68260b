"""Errors of a judge by people's labels: shares with intervals that its verdicts on unlabelled items make narrower."""

from pydantic import BaseModel, ConfigDict

from rubricworks.grading.ratings import Item, Ratings
from rubricworks.metrics import Interval, error_rates


class JudgeErrors(BaseModel):
    """Error rates of one judge whose credits are 0 or 1."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    judge: str
    labelled: int
    """Items with a label and a verdict."""
    unlabelled: int
    """Further items with a verdict."""
    false_positive: Interval | None
    """Share of what people do not credit that the judge credits; None if they credit everything."""
    false_negative: Interval | None
    """Share of what people credit that the judge does not."""
    judged_met: float
    """Share of all its verdicts that the judge credits."""
    truly_met: Interval
    """Share of the same items that people would credit."""


def judge_errors(people: Ratings, judge: Ratings) -> JudgeErrors | None:
    """Compare a judge with people on the labelled items, and carry that over to the others it judged.

    None if they have no item in common, or a credit is neither 0 nor 1.
    """
    labelled = [item for item in people.credits if item in judge.credits]
    others = [item for item in judge.credits if item not in people.credits]
    credits = [people.credits[item] for item in labelled] + list(judge.credits.values())
    if not labelled or any(credit not in (0, 1) for credit in credits):
        return None
    rates = error_rates(
        [people.credits[item] for item in labelled],
        [judge.credits[item] for item in labelled],
        [judge.credits[item] for item in others],
        clusters=[_response(item) for item in labelled],
        other_clusters=[_response(item) for item in others],
    )
    return JudgeErrors(
        judge=judge.name,
        labelled=len(labelled),
        unlabelled=len(others),
        false_positive=rates.false_positive,
        false_negative=rates.false_negative,
        judged_met=sum(judge.credits.values()) / len(judge.credits),
        truly_met=rates.pass_rate,
    )


def _response(item: Item) -> tuple[str, str]:
    return item.sample_id, item.response
