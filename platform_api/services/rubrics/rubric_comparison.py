"""Comparison of rubrics: two versions of one, or the sets of two runs sample by sample."""

import difflib
import re
from typing import Literal, NamedTuple

from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import RunTable
from rubricworks.platform_api.services.rubrics.rubric_sets import standing_rubrics
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.runs.store import RunStore

Change = Literal["added", "removed", "changed", "same"]
_COMPARED = ("weight", "essential", "description", "evaluation_rule", "reference", "key")
_ORDER: tuple[Change, ...] = ("changed", "added", "removed", "same")


class CriterionChange(NamedTuple):
    """One criterion in two versions of a rubric."""

    criterion: str
    change: Change
    fields: list["FieldChange"]


class FieldChange(NamedTuple):
    """One field of a criterion, as pieces of text that both, the earlier or the later version has."""

    field: str
    pieces: list[tuple[Literal["same", "removed", "added"], str]]


class SampleChange(NamedTuple):
    """One sample's rubric in two sets, with the numbers of its criteria, which are matched by title."""

    sample_id: str
    change: Change
    added: int
    removed: int
    changed: int
    same: int


async def compare_sets(session: AsyncSession, store: RunStore, before: RunTable, after: RunTable) -> list[SampleChange]:
    """Samples of two sets, each with the version that stands: those that differ first, then by name."""
    old, new = [await standing_rubrics(session, store, one) for one in (before, after)]
    found = [_sample_change(sample, old.get(sample), new.get(sample)) for sample in {**new, **old}]
    return sorted(found, key=lambda one: (_ORDER.index(one.change), one.sample_id))


def _sample_change(sample: str, before: Rubric | None, after: Rubric | None) -> SampleChange:
    old, new = ({one.criterion: one for one in rubric.criteria} if rubric else {} for rubric in (before, after))
    both = old.keys() & new.keys()
    same = sum(not _different_fields(old[title], new[title]) for title in both)
    added, removed, changed = len(new) - len(both), len(old) - len(both), len(both) - same
    change: Change = "changed" if added or removed or changed else "same"
    if before is None or after is None:
        change = "added" if before is None else "removed"
    return SampleChange(sample, change, added, removed, changed, same)


def compare(before: Rubric, after: Rubric) -> list[CriterionChange]:
    """Criteria of two versions, matched by title, in the order of the later one; removed ones come last."""
    old = {one.criterion: one for one in before.criteria}
    new = {one.criterion for one in after.criteria}
    changes = [_change(old.get(one.criterion), one) for one in after.criteria]
    return changes + [_change(one, None) for one in before.criteria if one.criterion not in new]


def _change(before: Criterion | None, after: Criterion | None) -> CriterionChange:
    either = after or before
    assert either is not None
    fields = [FieldChange(field, _pieces(*texts)) for field, texts in _different_fields(before, after).items()]
    if before is None or after is None:
        return CriterionChange(either.criterion, "added" if before is None else "removed", fields)
    return CriterionChange(either.criterion, "changed" if fields else "same", fields)


def _different_fields(before: Criterion | None, after: Criterion | None) -> dict[str, tuple[str, str]]:
    """Field → its texts before and after, if they differ."""
    texts = {
        field: ("" if before is None else _text(before, field), "" if after is None else _text(after, field))
        for field in _COMPARED
    }
    return {field: (old, new) for field, (old, new) in texts.items() if old != new}


def _pieces(before: str, after: str) -> list[tuple[Literal["same", "removed", "added"], str]]:
    old, new = re.findall(r"\s+|\S+", before), re.findall(r"\s+|\S+", after)
    pieces: list[tuple[Literal["same", "removed", "added"], str]] = []
    for kind, *places in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        from_old, from_new = "".join(old[places[0] : places[1]]), "".join(new[places[2] : places[3]])
        if kind == "equal":
            pieces.append(("same", from_old))
            continue
        pieces += [("removed", from_old)] if from_old else []
        pieces += [("added", from_new)] if from_new else []
    return pieces


def _text(criterion: Criterion, field: str) -> str:
    value = getattr(criterion, field)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
