"""Agreement of people and judges, each with each, as one value."""

import itertools
from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field

from rubricworks.errors import UserError
from rubricworks.grading.agreement.comparison import (
    Comparison,
    GroupAgreement,
    Rater,
    compare,
    explain_no_overlap,
    group_agreement,
    rater_summary,
)
from rubricworks.grading.agreement.judge_errors import JudgeErrors, judge_errors
from rubricworks.grading.agreement.judge_probe import JudgeProbe
from rubricworks.grading.agreement.labels import majority
from rubricworks.grading.agreement.ratings import Ratings
from rubricworks.llm.identity import PinnedEntry


class JudgeIdentity(BaseModel):
    """Pinned identities of the models of one judge."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rater: str = Field(examples=["judge@1"])
    """Name of the rater that it is of."""
    judge: str = Field(examples=["judge@1"])
    """Name of the grading model, as its scorecards have it."""
    entries: tuple[PinnedEntry, ...]


class AgreementReport(BaseModel):
    """Everything that `rubricworks agreement` prints, in full precision."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    raters: tuple[Rater, ...]
    """The people, if there are labels, then the judges."""
    empty_labels: int = Field(examples=[0])
    groups: tuple[GroupAgreement, ...]
    """Agreement among the people, and among the judges if there are at least three."""
    comparisons: tuple[Comparison, ...]
    errors: tuple[JudgeErrors, ...] = ()
    """Error rates of each judge against people's labels, without judges that give credits other than 0 and 1."""
    identities: tuple[JudgeIdentity, ...] = ()
    """Identities of the judges whose tables are in their run's folder."""
    probe: JudgeProbe | None = None
    """Figures of a judge that was called again."""


def report_agreement(
    people: Sequence[Ratings],
    judges: Sequence[Ratings],
    *,
    empty_labels: int = 0,
    min_count: int,
    weights: Mapping[tuple[str, str], float] | None = None,
) -> tuple[AgreementReport, list[str]]:
    """Compare the majority of the people and every judge with each other.

    Args:
        weights: (sample_id, criterion) → weight, for error rates by weight.
    Returns:
        the report, and for each comparison the reason why it has no item, or "".
    Raises:
        UserError: no two of them have an item in common.
    """
    raters = [majority(list(people)), *judges] if people else list(judges)
    pairs = list(itertools.combinations(raters, 2))
    comparisons = [compare(first, second, min_count=min_count) for first, second in pairs]
    notes = [
        "" if comparison.in_common else explain_no_overlap(*pair)
        for comparison, pair in zip(comparisons, pairs, strict=True)
    ]
    if all(notes) and notes:
        raise UserError(notes[0])
    several = [list(group) for group, least in ((people, 2), (judges, 3)) if len(group) >= least]
    report = AgreementReport(
        raters=tuple(rater_summary(rater) for rater in raters),
        empty_labels=empty_labels,
        groups=tuple(group_agreement(group) for group in several),
        comparisons=tuple(comparisons),
        errors=tuple(filter(None, (judge_errors(raters[0], judge, weights) for judge in judges))) if people else (),
        identities=tuple(
            JudgeIdentity(rater=judge.name, judge=judge.judge, entries=judge.identities)
            for judge in judges
            if judge.identities
        ),
    )
    return report, notes
