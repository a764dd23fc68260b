"""Errors of a judge by people's labels: shares with intervals that its verdicts on unlabelled items make narrower."""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from rubricworks.grading.agreement.ratings import Item, Ratings
from rubricworks.metrics import ErrorRates, Interval, error_rates


class WeightErrors(BaseModel):
    """Error rates on the criteria of one weight."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    weight: float = Field(examples=[3.0])
    labelled: int = Field(examples=[40])
    unlabelled: int = Field(examples=[280])
    false_positive: Interval | None
    false_negative: Interval | None


class JudgeErrors(BaseModel):
    """Error rates of one judge whose credits are 0 or 1."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    judge: str = Field(examples=["judge@1"])
    labelled: int = Field(examples=[118])
    """Items with a label and a verdict."""
    unlabelled: int = Field(examples=[840])
    """Further items with a verdict."""
    false_positive: Interval | None
    """Share of the items not credited by people that the judge credits; None if people credit all items."""
    false_negative: Interval | None
    """Share of what people credit that the judge does not."""
    judged_met: float = Field(examples=[0.71])
    """Share of all its verdicts that the judge credits."""
    truly_met: Interval
    """Share of the same items that people would credit."""
    by_weight: tuple[WeightErrors, ...] = ()
    """Error rates by weight, the heaviest first; of criteria with a known weight."""


def judge_errors(
    people: Ratings, judge: Ratings, weights: Mapping[tuple[str, str], float] | None = None
) -> JudgeErrors | None:
    """Compare a judge with people on the labelled items, and carry that over to the others it judged.

    None if they have no item in common, or a credit is neither 0 nor 1.

    Args:
        weights: (sample_id, criterion) → weight, for rates by weight.
    """
    labelled = [item for item in people.credits if item in judge.credits]
    others = [item for item in judge.credits if item not in people.credits]
    credits = [people.credits[item] for item in labelled] + list(judge.credits.values())
    if not labelled or any(credit not in (0, 1) for credit in credits):
        return None
    rates = _rates(people, judge, labelled, others)
    weight_of = {item: weights.get((item.sample_id, item.criterion)) for item in judge.credits} if weights else {}
    by_weight = []
    for weight in sorted({weight for weight in weight_of.values() if weight is not None}, reverse=True):
        mine = [[item for item in items if weight_of[item] == weight] for items in (labelled, others)]
        if mine[0]:
            of_weight = _rates(people, judge, *mine)
            by_weight.append(
                WeightErrors(
                    weight=weight,
                    labelled=len(mine[0]),
                    unlabelled=len(mine[1]),
                    false_positive=of_weight.false_positive,
                    false_negative=of_weight.false_negative,
                )
            )
    return JudgeErrors(
        judge=judge.name,
        labelled=len(labelled),
        unlabelled=len(others),
        false_positive=rates.false_positive,
        false_negative=rates.false_negative,
        judged_met=sum(judge.credits.values()) / len(judge.credits),
        truly_met=rates.pass_rate,
        by_weight=tuple(by_weight),
    )


def _rates(people: Ratings, judge: Ratings, labelled: list[Item], others: list[Item]) -> ErrorRates:
    return error_rates(
        [people.credits[item] for item in labelled],
        [judge.credits[item] for item in labelled],
        [judge.credits[item] for item in others],
        clusters=[_response(item) for item in labelled],
        other_clusters=[_response(item) for item in others],
    )


def _response(item: Item) -> tuple[str, str]:
    return item.sample_id, item.response
