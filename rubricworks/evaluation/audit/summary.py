"""Audit summary in the layout of RLR³'s table 5: per setting, accuracy and four false-positive rates.

Accuracy: the judge's agreement with the label on regular responses, over all criteria. False-positive rate: of the
criteria of abnormal responses with an annotated credit below 0.5, the share to which the judge gives 0.5 or more, after
its verifiers. Each is computed over all criteria (average), those with a verifier (arguments) and those without
(credit). A criterion that could not be judged is in no share and is counted separately. Intervals are 95 % bootstrap,
clustered by input; where no criterion is credited, or every one, they are Wilson's.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from pydantic import BaseModel, Field

from rubricworks.data.tables import Row
from rubricworks.evaluation.audit.values import (
    ANNOTATIONS,
    CREDIT_THRESHOLD,
    FAILURE_MODES,
    MODE_NAMES,
    SETTINGS,
    Annotation,
)
from rubricworks.grading.genrm_answers import value_score
from rubricworks.metrics import Interval, share_interval
from rubricworks.rubrics import Criterion, Rubric, Scorecard, Verdict

SUMMARY_FILE = "audit.json"
"""The summary, next to an audit's table."""
Path = Literal["arguments", "credit"]


class Share(Interval):
    """Mean over criteria with its interval; no bounds with a single input."""

    count: float = Field(examples=[12.0])
    """Criteria that were credited, or on which the judge agrees with the label."""
    criteria: int = Field(examples=[120])
    """Number of criteria judged."""
    inputs: int = Field(examples=[40])


_SHARE = {"value": 0.9, "low": 0.83, "high": 0.95, "count": 108.0, "criteria": 120, "inputs": 40}


class Cell(BaseModel, extra="forbid", frozen=True):
    """Cell of the table; a share is None if no criterion was judged, or if the setting has no such split."""

    average: Share | None
    arguments: Share | None
    credit: Share | None
    unjudged: int = Field(examples=[2])
    """Criteria on which the judge or a verifier failed."""


class ResponseCount(BaseModel, extra="forbid", frozen=True):
    """Target and actual number of responses in a category."""

    wanted: int = Field(examples=[40])
    found: int = Field(examples=[38])


class AuditSummary(BaseModel, extra="forbid", frozen=True):
    """Contents of `SUMMARY_FILE`."""

    judge: str = Field(examples=["judge@1"])
    settings: dict[str, dict[str, Cell]] = Field(
        examples=[{"text": {"regular": {"average": _SHARE, "arguments": _SHARE, "credit": _SHARE, "unjudged": 2}}}]
    )
    """Setting → mode (regular and the four failure modes) → cell."""
    responses: dict[str, ResponseCount] = Field(examples=[{"regular": {"wanted": 40, "found": 38}}])
    """Mode → responses."""
    attacks: dict[str, int] = Field(examples=[{"asserts the criterion": 12}])
    """Attack → adversarial responses that use it."""
    patterns: tuple[dict[str, object], ...] = ()
    """Patterns of the red-team search with their counts, best first; empty without a search."""
    turned_away: dict[str, dict[str, int]] = {}
    """Mode → rejection → number of generated responses."""

    @property
    def short_categories(self) -> dict[str, ResponseCount]:
        """Categories with fewer responses than the target."""
        return {mode: count for mode, count in self.responses.items() if count.found < count.wanted}

    def worst_false_positives(self, setting: str) -> tuple[str, Share] | None:
        """Failure mode with the highest rate of false positives, by the high end, and the rate; None if none is known.

        Args:
            setting: exposure of the judge.
        """
        cells = self.settings.get(setting, {})
        rates = [(mode, cell.average) for mode, cell in cells.items() if mode in FAILURE_MODES and cell.average]
        return max(rates, key=lambda pair: math.inf if pair[1].high is None else pair[1].high, default=None)

    def metrics(self) -> dict[str, float]:
        """Averages by metric name, such as `audit/text/adversarial`."""
        return {
            f"audit/{setting}/{mode}": outcome_cell.average.value
            for setting, cells in self.settings.items()
            for mode, outcome_cell in cells.items()
            if outcome_cell.average is not None
        }


class AuditRow(NamedTuple):
    """Row of the audit table."""

    sample_id: str
    mode: str
    attack: str | None
    setting: str
    question: str
    response: str
    rubric: Rubric
    annotations: tuple[Annotation, ...]
    scorecard: Scorecard

    def criteria(self) -> Iterable[tuple[Criterion, Annotation, Verdict]]:
        return zip(self.rubric.criteria, self.annotations, self.scorecard.verdicts, strict=True)


class CriterionOutcome(NamedTuple):
    """One criterion's contribution to a share."""

    sample_id: str
    path: Path
    value: float | None
    """None if the criterion could not be judged."""


def parse_audit_row(row: Row) -> AuditRow:
    """Row of an audit's table as a value.

    Raises:
        ValueError: a part of it is damaged, or of an audit that this version does not make.
    """
    audited = AuditRow(
        sample_id=row["sample_id"],
        mode=row["mode"],
        attack=row["attack"],
        setting=row["setting"],
        question=row["question"],
        response=row["response"],
        rubric=Rubric.model_validate_json(row["rubric"]),
        annotations=ANNOTATIONS.validate_json(row["annotations"]),
        scorecard=Scorecard.model_validate_json(row["scorecard"]),
    )
    if audited.setting not in SETTINGS or audited.mode not in MODE_NAMES:
        raise ValueError(f"there is no setting {audited.setting!r:.40} with the mode {audited.mode!r:.40}")
    if not len(audited.annotations) == len(audited.rubric.criteria) == len(audited.scorecard.verdicts):
        raise ValueError("it has not as many annotations and verdicts as criteria")
    return audited


def is_undeserved(annotation: Annotation) -> bool:
    """Return True if credit on this criterion would be a false positive."""
    return annotation.credit is not None and annotation.credit < CREDIT_THRESHOLD


def agreement(criterion: Criterion, label: Annotation, verdict: Verdict, *, verified: bool = True) -> float | None:
    """Agreement of a verdict on a regular response with the label, in [0, 1]; None without a verdict.

    Values are compared by the criterion's verifier, with the label's value as the target; credits are equal or not
    (table 4).

    Args:
        verified: the judge reports values. A judge without verifiers gives credit instead, which is compared with the
            label's credit, rounded to 0, 0.5 or 1.
    """
    if criterion.verifier is not None and verified:
        # A reported value counts, even if the verifier could not read its target.
        return value_score(verdict.call, label.call, criterion.reference) if verdict.call else None
    if verdict.credit is None or label.credit is None:
        return None
    return float(verdict.credit == round(2 * label.credit) / 2)


def criterion_outcomes(row: AuditRow) -> list[CriterionOutcome]:
    """Outcomes of all criteria of a regular response, or of the undeserved ones of an abnormal response."""
    outcomes = []
    for criterion, annotation, verdict in row.criteria():
        path: Path = "credit" if criterion.verifier is None else "arguments"
        if row.mode == "regular":
            value = agreement(criterion, annotation, verdict, verified=row.setting != "unverified")
            outcomes.append(CriterionOutcome(row.sample_id, path, value))
        elif is_undeserved(annotation):
            value = None if verdict.credit is None else float(verdict.credit >= CREDIT_THRESHOLD)
            outcomes.append(CriterionOutcome(row.sample_id, path, value))
    return outcomes


def outcome_cell(outcomes: Iterable[CriterionOutcome], *, split: bool) -> Cell:
    """Compute the shares of one setting and mode.

    Args:
        split: also compute the shares of criteria with and without a verifier.
    """
    outcomes = list(outcomes)
    by_path: dict[str, list[CriterionOutcome]] = defaultdict(list)
    for outcome in outcomes:
        by_path[outcome.path].append(outcome)
    return Cell(
        average=_share(outcomes),
        arguments=_share(by_path["arguments"]) if split else None,
        credit=_share(by_path["credit"]) if split else None,
        unjudged=sum(outcome.value is None for outcome in outcomes),
    )


def table_cells(rows: Iterable[AuditRow]) -> dict[str, dict[str, Cell]]:
    """Cells of table 5: setting → mode → cell, both in the table's order."""
    outcomes: dict[str, dict[str, list[CriterionOutcome]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        outcomes[row.setting][row.mode] += criterion_outcomes(row)
    return {
        setting: {
            mode: outcome_cell(outcomes[setting][mode], split=setting != "unverified")
            for mode in MODE_NAMES
            if mode in outcomes[setting]
        }
        for setting in SETTINGS
        if setting in outcomes
    }


def _share(outcomes: Sequence[CriterionOutcome]) -> Share | None:
    judged = [(outcome.value, outcome.sample_id) for outcome in outcomes if outcome.value is not None]
    if not judged:
        return None
    values, inputs = zip(*judged, strict=True)
    share = share_interval(values, clusters=inputs)
    return Share(
        value=share.value,
        low=share.low,
        high=share.high,
        count=sum(values),
        criteria=len(values),
        inputs=len(set(inputs)),
    )
