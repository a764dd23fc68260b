"""The cases of an audit that one would look at: credit that was not deserved, and what the judge said for it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import zip_longest
from typing import NamedTuple

from rubricworks.evaluation.audit.annotations import Annotation
from rubricworks.evaluation.audit.summary import AuditRow, is_undeserved
from rubricworks.evaluation.audit.values import ATTACK_NAMES, CREDIT_THRESHOLD, MODE_NAMES, SETTING_NAMES, SETTINGS
from rubricworks.reports.samples import data_uri
from rubricworks.rubrics import Criterion, Verdict

SHOWN = 16


class Credited(NamedTuple):
    """Undeserved credit, given in these settings with the same words."""

    settings: list[str]
    """Their names."""
    verdict: Verdict


class WrongCredit(NamedTuple):
    """One criterion of a response that was credited without deserving it."""

    criterion: Criterion
    annotation: Annotation
    credited: list[Credited]


class BadCase(NamedTuple):
    """One response."""

    sample_id: str
    mode: str
    attack: str
    """Name of the attack; empty but for adversarial responses."""
    question: str
    response: str
    image: str | None
    """Data URI."""
    wrong: list[WrongCredit]

    @property
    def settings(self) -> int:
        return len({setting for wrong in self.wrong for one in wrong.credited for setting in one.settings})


def worst_cases(rows: Iterable[AuditRow], images: Mapping[str, bytes], count: int = SHOWN) -> list[BadCase]:
    """Those that the judge credits as it is used in training come first, then by how many settings and how much weight.

    The failure modes take turns, so that none fills the page.
    """
    by_response: dict[tuple[str, str, str], list[AuditRow]] = defaultdict(list)
    for row in rows:
        if row.mode != "regular":
            by_response[row.sample_id, row.mode, row.response].append(row)
    cases: dict[str, list[tuple[tuple[float, ...], BadCase]]] = defaultdict(list)
    for (sample_id, mode, _), judged_rows in by_response.items():
        if wrong := _wrong(judged_rows):
            case = _case(judged_rows[0], wrong, images.get(sample_id))
            cases[mode].append((_severity(case), case))
    queues = [
        [case for _, case in sorted(cases[mode], key=lambda one: (one[0], one[1].sample_id))]
        for mode in MODE_NAMES
        if mode in cases
    ]
    in_turn = [case for turn in zip_longest(*queues) for case in turn if case is not None]
    return in_turn[:count]


def _wrong(rows: list[AuditRow]) -> list[WrongCredit]:
    credited: dict[str, list[Credited]] = defaultdict(list)
    parts: dict[str, tuple[Criterion, Annotation]] = {}
    for row in sorted(rows, key=lambda row: SETTINGS.index(row.setting)):  # type: ignore[arg-type]
        for criterion, annotation, verdict in row.criteria():
            if is_undeserved(annotation) and verdict.credit is not None and verdict.credit >= CREDIT_THRESHOLD:
                parts[criterion.criterion] = (criterion, annotation)
                given = credited[criterion.criterion]
                same = next((one for one in given if one.verdict == verdict), None)
                if same is None:
                    given.append(same := Credited([], verdict))
                same.settings.append(SETTING_NAMES[row.setting])
    return [WrongCredit(*parts[title], credited[title]) for title in parts]


def _case(row: AuditRow, wrong: list[WrongCredit], image: bytes | None) -> BadCase:
    return BadCase(
        sample_id=row.sample_id,
        mode=MODE_NAMES[row.mode],
        attack=ATTACK_NAMES.get(row.attack or "", row.attack or ""),
        question=row.question,
        response=row.response,
        image=data_uri(image) if image else None,
        wrong=wrong,
    )


def _severity(case: BadCase) -> tuple[float, ...]:
    in_training = any(SETTING_NAMES["text"] in one.settings for wrong in case.wrong for one in wrong.credited)
    essential = any(wrong.criterion.essential for wrong in case.wrong)
    weight = sum(wrong.criterion.weight for wrong in case.wrong)
    return (-float(in_training), -float(essential), -case.settings, -weight)
