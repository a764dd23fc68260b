"""Comparison of two raters: agreement overall and by criterion, and counts of items without a comparison.

Errors and ties are counted, never compared as numbers, and so are items that only one of the two has rated.
"""

from collections import Counter
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, Field

from rubricworks.grading.agreement.ratings import Item, Ratings
from rubricworks.metrics import Agreement, Interval, alpha_estimate, confusion, pair_agreement


class Rater(BaseModel):
    """A judge, or people, with counts of its ratings."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(examples=["people"])
    source: str = Field(examples=["labels.csv"])
    items: int = Field(examples=[120])
    responses: int = Field(examples=[40])
    left_out: dict[str, int] = Field(examples=[{"tied": 2}])
    """Items without a credit, by reason: error class, or "tied" between people."""
    repeated: int = Field(examples=[0])
    """Verdicts on an item that already had a credit; the first counts."""


class CriterionAgreement(BaseModel):
    """Agreement on one criterion, or on several pooled ones."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    criteria: tuple[str, ...] = Field(examples=[["Names the red star"]])
    agreement: Agreement


class ConfusionCell(BaseModel):
    """Number of items with this pair of credits."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    first: float = Field(examples=[1.0])
    second: float = Field(examples=[0.0])
    count: int = Field(examples=[6])


class Comparison(BaseModel):
    """Comparison of two raters."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    first: str = Field(examples=["people"])
    second: str = Field(examples=["judge@1"])
    in_common: int = Field(examples=[120])
    """Items that both have, with or without a credit."""
    left_out_first: dict[str, int] = Field(examples=[{"tied": 2}])
    """Common items without a credit from the first rater, by reason."""
    left_out_second: dict[str, int] = Field(examples=[{"malformed": 1}])
    only_first: int = Field(examples=[0])
    """Items that the second rater does not have."""
    only_second: int = Field(examples=[840])
    overall: Agreement
    criteria: tuple[CriterionAgreement, ...]
    """Criteria with enough verdicts, the most frequent first."""
    others: CriterionAgreement | None
    """The remaining criteria, pooled."""
    confusion: tuple[ConfusionCell, ...]


class GroupAgreement(BaseModel):
    """Agreement of more than two raters, on items with a credit from at least two of them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    raters: tuple[str, ...] = Field(examples=[["ada", "grace"]])
    units: int = Field(examples=[60])
    responses: int = Field(examples=[20])
    alpha_nominal: Interval | None
    alpha_interval: Interval | None


def compare(first: Ratings, second: Ratings, *, min_count: int) -> Comparison:
    """Compare two raters on their common items.

    Args:
        min_count: criteria with fewer verdicts are pooled: rubrics written per sample have thousands of them.
    """
    common = [item for item in first if item in second]
    by_criterion: dict[str, list[Item]] = {}
    for item in common:
        if item in first.credits and item in second.credits:
            by_criterion.setdefault(item.criterion, []).append(item)
    compared = [item for items in by_criterion.values() for item in items]
    frequent = sorted(
        (title for title, items in by_criterion.items() if len(items) >= min_count),
        key=lambda title: (-len(by_criterion[title]), title),
    )
    rare = sorted(by_criterion.keys() - set(frequent))
    pooled = [item for title in rare for item in by_criterion[title]]
    cells = confusion(_credits(first, compared), _credits(second, compared))
    return Comparison(
        first=first.name,
        second=second.name,
        in_common=len(common),
        left_out_first=_reasons(first, common),
        left_out_second=_reasons(second, common),
        only_first=len(first) - len(common),
        only_second=len(second) - len(common),
        overall=_agreement(first, second, compared),
        criteria=tuple(
            CriterionAgreement(criteria=(title,), agreement=_agreement(first, second, by_criterion[title]))
            for title in frequent
        ),
        others=CriterionAgreement(criteria=tuple(rare), agreement=_agreement(first, second, pooled)) if rare else None,
        confusion=tuple(ConfusionCell(first=a, second=b, count=count) for (a, b), count in cells.items()),
    )


def group_agreement(raters: list[Ratings]) -> GroupAgreement:
    """Compute the agreement of several raters on the items that at least two have rated."""
    counts = Counter(item for rater in raters for item in rater.credits)
    items = [item for item, count in counts.items() if count > 1]
    ratings = [[rater.credits.get(item) for item in items] for rater in raters]
    responses = [_response(item) for item in items]
    return GroupAgreement(
        raters=tuple(rater.name for rater in raters),
        units=len(items),
        responses=len(set(responses)),
        alpha_nominal=alpha_estimate(ratings, responses, scale="nominal"),
        alpha_interval=alpha_estimate(ratings, responses, scale="interval"),
    )


def rater_summary(ratings: Ratings) -> Rater:
    return Rater(
        name=ratings.name,
        source=ratings.source,
        items=len(ratings),
        responses=len({_response(item) for item in ratings}),
        left_out=_reasons(ratings, ratings.unrated),
        repeated=ratings.repeated,
    )


def explain_no_overlap(first: Ratings, second: Ratings) -> str:
    """Explain by the first differing field, with examples, why two raters have no common item."""
    parts = (
        ("sample_id", lambda item: item.sample_id),
        ("criterion of a common sample", lambda item: (item.sample_id, item.criterion)),
        ("response of a common sample", _response),
    )
    examples = next(iter(first)), next(iter(second))
    for label, part in parts:
        second_by_part = {part(item): item for item in second}
        match = next(((item, second_by_part[part(item)]) for item in first if part(item) in second_by_part), None)
        if match is None:
            return _no_overlap(label, first, second, examples)
        examples = match
    return _no_overlap("item", first, second, examples)


def _no_overlap(label: str, first: Ratings, second: Ratings, examples: tuple[Item, Item]) -> str:
    of_first, of_second = map(_describe, examples)
    return f"no {label} is in both: {first.name} has {of_first}; {second.name} has {of_second}"


def _describe(item: Item) -> str:
    shortened = [text if len(text) <= 40 else text[:39] + "…" for text in item]
    return f"sample {shortened[0]!r}, criterion {shortened[2]!r}, response {shortened[1]!r}"


def _agreement(first: Ratings, second: Ratings, items: list[Item]) -> Agreement:
    return pair_agreement(_credits(first, items), _credits(second, items), [_response(item) for item in items])


def _credits(rater: Ratings, items: list[Item]) -> list[float]:
    return [rater.credits[item] for item in items]


def _response(item: Item) -> tuple[str, str]:
    return item.sample_id, item.response


def _reasons(rater: Ratings, items: Iterable[Item]) -> dict[str, int]:
    return dict(sorted(Counter(rater.unrated[item] for item in items if item in rater.unrated).items()))
