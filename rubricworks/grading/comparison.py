"""Two raters side by side: how far they agree, criterion by criterion, and what could not be compared.

Errors and ties are counted, never compared as numbers; so is what only one of the two has rated.
"""

from collections import Counter
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict

from rubricworks.grading.ratings import Item, Ratings
from rubricworks.metrics import Agreement, Estimate, alpha_estimate, confusion, pair_agreement


class Rater(BaseModel):
    """A judge, or the people, and what was read of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    source: str
    items: int
    responses: int
    left_out: dict[str, int]
    """Items without a number, by reason: classes of error, "tied" between people."""
    repeated: int
    """Verdicts on an item that had its credit already; the first counts."""


class CriterionAgreement(BaseModel):
    """The verdicts of some criteria."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    criteria: tuple[str, ...]
    agreement: Agreement


class ConfusionCell(BaseModel):
    """How often the first rater gave one credit where the second gave the other."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    first: float
    second: float
    count: int


class Comparison(BaseModel):
    """Two raters."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    first: str
    second: str
    in_common: int
    """Items that both have, with a credit or without."""
    left_out_first: dict[str, int]
    """Of those, the ones to which the first rater gave no credit, by reason."""
    left_out_second: dict[str, int]
    only_first: int
    """Items that the second rater does not have."""
    only_second: int
    overall: Agreement
    criteria: tuple[CriterionAgreement, ...]
    """Criteria with enough verdicts, one each, the most frequent first."""
    others: CriterionAgreement | None
    """The rest, pooled."""
    confusion: tuple[ConfusionCell, ...]


class Group(BaseModel):
    """More than two raters together: what at least two of them gave a credit to."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    raters: tuple[str, ...]
    units: int
    responses: int
    alpha_nominal: Estimate | None
    alpha_interval: Estimate | None


def compare(first: Ratings, second: Ratings, *, min_count: int) -> Comparison:
    """Two raters on the items that both have.

    Args:
        min_count: criteria with fewer verdicts are pooled: a rubric of its own for each sample has thousands of them.
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


def together(raters: list[Ratings]) -> Group:
    """Several raters, each item rated by any of them."""
    counts = Counter(item for rater in raters for item in rater.credits)
    items = [item for item, count in counts.items() if count > 1]
    ratings = [[rater.credits.get(item) for item in items] for rater in raters]
    responses = [_response(item) for item in items]
    return Group(
        raters=tuple(rater.name for rater in raters),
        units=len(items),
        responses=len(set(responses)),
        alpha_nominal=alpha_estimate(ratings, responses, scale="nominal"),
        alpha_interval=alpha_estimate(ratings, responses, scale="interval"),
    )


def summary(ratings: Ratings) -> Rater:
    return Rater(
        name=ratings.name,
        source=ratings.source,
        items=len(ratings),
        responses=len({_response(item) for item in ratings}),
        left_out=_reasons(ratings, ratings.left_out),
        repeated=ratings.repeated,
    )


def why_apart(first: Ratings, second: Ratings) -> str:
    """What two raters without a common item do not share, with an example of each."""
    ones, others = next(iter(first)), next(iter(second))
    parts = (
        ("sample_id", lambda item: item.sample_id),
        ("criterion of a common sample", lambda item: (item.sample_id, item.criterion)),
        ("response of a common sample", _response),
    )
    for words, part in parts:
        known = {part(item): item for item in second}
        alike = next(((item, known[part(item)]) for item in first if part(item) in known), None)
        if alike is None:
            return f"no {words} is in both: {first.name} has {_shown(ones)}; {second.name} has {_shown(others)}"
        ones, others = alike
    return f"no item is in both: {first.name} has {_shown(ones)}; {second.name} has {_shown(others)}"


def _shown(item: Item) -> str:
    cut = [text if len(text) <= 40 else text[:39] + "…" for text in item]
    return f"sample {cut[0]!r}, criterion {cut[2]!r}, response {cut[1]!r}"


def _agreement(first: Ratings, second: Ratings, items: list[Item]) -> Agreement:
    return pair_agreement(_credits(first, items), _credits(second, items), [_response(item) for item in items])


def _credits(rater: Ratings, items: list[Item]) -> list[float]:
    return [rater.credits[item] for item in items]


def _response(item: Item) -> tuple[str, str]:
    return item.sample_id, item.response


def _reasons(rater: Ratings, items: Iterable[Item]) -> dict[str, int]:
    return dict(sorted(Counter(rater.left_out[item] for item in items if item in rater.left_out).items()))
