"""The figures of an audit in the layout of RLR³'s table 5: settings by accuracy and four false-positive rates.

Regular responses: how far the judge agrees with the label, over all criteria. Abnormal ones: of the criteria whose
annotated credit is below 0.5, the share to which the judge gives 0.5 or more, after its verifiers. Each is told for all
criteria (average), those with a verifier (arguments) and those without (credit). A criterion that could not be judged
is in no share; it is counted apart. Intervals are 95 % bootstrap, inputs drawn whole.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from rubricworks.evaluation.audit.annotations import ANNOTATIONS, Annotation
from rubricworks.evaluation.audit.values import DESERVED, MODE_NAMES, SETTINGS
from rubricworks.grading.genrm_answers import same_value
from rubricworks.metrics import clustered_interval
from rubricworks.rubrics import Criterion, Rubric, Scorecard, Verdict

Path = Literal["arguments", "credit"]


class Share(BaseModel):
    """A mean over criteria with its interval; no bounds where one input is all there is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    value: float
    low: float | None
    high: float | None
    count: float
    """Criteria that were credited, or on which the judge agrees with the label."""
    criteria: int
    """Out of so many."""
    inputs: int


class Cell(BaseModel):
    """One entry of the table; a part is None where nothing was judged, or where there is no such split."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    average: Share | None
    arguments: Share | None
    credit: Share | None
    unjudged: int
    """Criteria that the judge or a verifier failed on."""


class Collected(BaseModel):
    """How many responses a category was to have and has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    wanted: int
    found: int


class AuditFigures(BaseModel):
    """What `audit.json` holds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    judge: str
    settings: dict[str, dict[str, Cell]]
    """Setting → mode (regular and the four failure modes) → figures."""
    responses: dict[str, Collected]
    """Mode → responses."""
    attacks: dict[str, int]
    """Attack → adversarial responses that use it."""
    patterns: tuple[dict[str, Any], ...] = ()
    """What the red-team search tried, the best first, with counts; empty without a search."""
    turned_away: dict[str, dict[str, int]] = {}
    """Mode → why a generated response was not used → how often."""

    @property
    def short(self) -> dict[str, Collected]:
        """Categories with fewer responses than wanted."""
        return {mode: one for mode, one in self.responses.items() if one.found < one.wanted}

    def metrics(self) -> dict[str, float]:
        """The averages by name, such as `audit/text/adversarial`."""
        return {
            f"audit/{setting}/{mode}": cell.average.value
            for setting, cells in self.settings.items()
            for mode, cell in cells.items()
            if cell.average is not None
        }


class Judged(NamedTuple):
    """A row of the audit table."""

    sample_id: str
    mode: str
    attack: str | None
    setting: str
    question: str
    response: str
    rubric: Rubric
    annotations: tuple[Annotation, ...]
    card: Scorecard

    def criteria(self) -> Iterable[tuple[Criterion, Annotation, Verdict]]:
        return zip(self.rubric.criteria, self.annotations, self.card.verdicts, strict=True)


class Finding(NamedTuple):
    """What one criterion adds to a share."""

    sample_id: str
    path: Path
    value: float | None
    """None where it could not be judged."""


def judged(row: Mapping[str, Any]) -> Judged:
    return Judged(
        sample_id=row["sample_id"],
        mode=row["mode"],
        attack=row["attack"],
        setting=row["setting"],
        question=row["question"],
        response=row["response"],
        rubric=Rubric.model_validate_json(row["rubric"]),
        annotations=ANNOTATIONS.validate_json(row["annotations"]),
        card=Scorecard.model_validate_json(row["scorecard"]),
    )


def is_undeserved(annotation: Annotation) -> bool:
    """Whether credit on this criterion would be a false positive."""
    return annotation.credit is not None and annotation.credit < DESERVED


def agreement(criterion: Criterion, label: Annotation, verdict: Verdict, *, verified: bool = True) -> float | None:
    """How far a verdict on a regular response is the label's, in [0, 1]; None without a verdict.

    Values are compared by the criterion's own verifier, with the label's in the target's place; credits are equal or
    not (table 4).

    Args:
        verified: whether the judge reports values. One without verifiers gives credit instead, which is held against
            that of the label's value, rounded to 0, 0.5 or 1.
    """
    if criterion.verifier is not None and verified:
        # A value that was reported counts, also where the verifier could not read its target.
        return same_value(verdict.call, label.call, criterion.reference) if verdict.call else None
    if verdict.credit is None or label.credit is None:
        return None
    return float(verdict.credit == round(2 * label.credit) / 2)


def findings(row: Judged) -> list[Finding]:
    """One for each criterion that counts: all of a regular response, the undeserved ones of an abnormal one."""
    found = []
    for criterion, annotation, verdict in row.criteria():
        path: Path = "credit" if criterion.verifier is None else "arguments"
        if row.mode == "regular":
            value = agreement(criterion, annotation, verdict, verified=row.setting != "unverified")
            found.append(Finding(row.sample_id, path, value))
        elif is_undeserved(annotation):
            value = None if verdict.credit is None else float(verdict.credit >= DESERVED)
            found.append(Finding(row.sample_id, path, value))
    return found


def cell(found: Iterable[Finding], *, split: bool) -> Cell:
    """The shares of one setting and mode.

    Args:
        split: whether criteria with and without a verifier are told apart.
    """
    everything = list(found)
    by_path: dict[str, list[Finding]] = defaultdict(list)
    for one in everything:
        by_path[one.path].append(one)
    return Cell(
        average=_share(everything),
        arguments=_share(by_path["arguments"]) if split else None,
        credit=_share(by_path["credit"]) if split else None,
        unjudged=sum(one.value is None for one in everything),
    )


def table_cells(rows: Iterable[Judged]) -> dict[str, dict[str, Cell]]:
    """Setting → mode → cell, both in the table's order."""
    found: dict[str, dict[str, list[Finding]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row.setting][row.mode] += findings(row)
    return {
        setting: {
            mode: cell(found[setting][mode], split=setting != "unverified")
            for mode in MODE_NAMES
            if mode in found[setting]
        }
        for setting in SETTINGS
        if setting in found
    }


def _share(found: list[Finding]) -> Share | None:
    known = [(one.value, one.sample_id) for one in found if one.value is not None]
    if not known:
        return None
    values, inputs = zip(*known, strict=True)
    estimate = clustered_interval(values, inputs)
    return Share(
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        count=sum(values),
        criteria=len(values),
        inputs=len(set(inputs)),
    )
