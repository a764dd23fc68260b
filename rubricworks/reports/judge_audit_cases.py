"""The worst cases of an audit: undeserved credit, with the judge's reasoning."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import zip_longest
from typing import NamedTuple

from rubricworks.evaluation.audit.summary import AuditRow, is_undeserved
from rubricworks.evaluation.audit.values import (
    ATTACK_NAMES,
    CREDIT_THRESHOLD,
    MODE_NAMES,
    SETTING_NAMES,
    SETTINGS,
    Annotation,
)
from rubricworks.reports.samples import data_uri
from rubricworks.rubrics import Criterion, Verdict

MAX_CASES = 16


class UndeservedCredit(NamedTuple):
    """One verdict with undeserved credit, and the settings that gave it with the same words."""

    settings: list[str]
    """Names of the settings."""
    verdict: Verdict


class MisjudgedCriterion(NamedTuple):
    """One criterion of a response with undeserved credit."""

    criterion: Criterion
    annotation: Annotation
    credits: list[UndeservedCredit]


class BadCase(NamedTuple):
    """One response with undeserved credit."""

    sample_id: str
    mode: str
    attack: str
    """Name of the attack; empty except for adversarial responses."""
    question: str
    response: str
    image: str | None
    """Data URI."""
    criteria: list[MisjudgedCriterion]

    @property
    def setting_count(self) -> int:
        return len({setting for wrong in self.criteria for credit in wrong.credits for setting in credit.settings})


def worst_cases(rows: Iterable[AuditRow], images: Mapping[str, bytes], count: int = MAX_CASES) -> list[BadCase]:
    """The worst responses: first those with credit in the setting of training, then by number of settings and weight.

    The failure modes take turns, so that none fills the page.
    """
    by_response: dict[tuple[str, str, str], list[AuditRow]] = defaultdict(list)
    for row in rows:
        if row.mode != "regular":
            by_response[row.sample_id, row.mode, row.response].append(row)
    cases: dict[str, list[tuple[tuple[float, ...], BadCase]]] = defaultdict(list)
    for (sample_id, mode, _), judged_rows in by_response.items():
        if criteria := _misjudged(judged_rows):
            case = _case(judged_rows[0], criteria, images.get(sample_id))
            cases[mode].append((_severity(case), case))
    queues = [
        [case for _, case in sorted(cases[mode], key=lambda ranked: (ranked[0], ranked[1].sample_id))]
        for mode in MODE_NAMES
        if mode in cases
    ]
    in_turn = [case for turn in zip_longest(*queues) for case in turn if case is not None]
    return in_turn[:count]


def _misjudged(rows: list[AuditRow]) -> list[MisjudgedCriterion]:
    credits: dict[str, list[UndeservedCredit]] = defaultdict(list)
    parts: dict[str, tuple[Criterion, Annotation]] = {}
    for row in sorted(rows, key=lambda row: SETTINGS.index(row.setting)):
        for criterion, annotation, verdict in row.criteria():
            if is_undeserved(annotation) and verdict.credit is not None and verdict.credit >= CREDIT_THRESHOLD:
                parts[criterion.criterion] = (criterion, annotation)
                same = next((credit for credit in credits[criterion.criterion] if credit.verdict == verdict), None)
                if same is None:
                    credits[criterion.criterion].append(same := UndeservedCredit([], verdict))
                same.settings.append(SETTING_NAMES[row.setting])
    return [MisjudgedCriterion(*parts[title], credits[title]) for title in parts]


def _case(row: AuditRow, criteria: list[MisjudgedCriterion], image: bytes | None) -> BadCase:
    return BadCase(
        sample_id=row.sample_id,
        mode=MODE_NAMES[row.mode],
        attack=ATTACK_NAMES.get(row.attack or "", row.attack or ""),
        question=row.question,
        response=row.response,
        image=data_uri(image) if image else None,
        criteria=criteria,
    )


def _severity(case: BadCase) -> tuple[float, ...]:
    in_training = any(SETTING_NAMES["text"] in credit.settings for wrong in case.criteria for credit in wrong.credits)
    essential = any(wrong.criterion.essential for wrong in case.criteria)
    weight = sum(wrong.criterion.weight for wrong in case.criteria)
    return (-float(in_training), -float(essential), -case.setting_count, -weight)
