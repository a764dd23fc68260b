"""Comparison of rubrics: two versions of one, or the sets of two runs sample by sample."""

import difflib
import re

from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import RunTable
from rubricworks.platform_api.schemas.rubrics import (
    Change,
    CriterionChangeBody,
    FieldChangeBody,
    Piece,
    RubricDiff,
    SampleChangeBody,
)
from rubricworks.platform_api.services.rubrics.rubric_sets import FIRST, standing_rubrics
from rubricworks.platform_api.services.rubrics.rubric_versions import rubric_of
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.runs.store import RunStore

_COMPARED = ("weight", "essential", "description", "evaluation_rule", "reference", "key")
_LONGEST_COMPARED = 20_000
"""Characters of a text that is compared word by word, which takes the square of their number."""
_ORDER: tuple[Change, ...] = ("changed", "added", "removed", "same")


async def compare_sets(
    session: AsyncSession, store: RunStore, before: RunTable, after: RunTable
) -> list[SampleChangeBody]:
    """Samples of two sets with their current versions: differing ones first, then by name."""
    old, new = [await standing_rubrics(session, store, table) for table in (before, after)]
    changes = [_sample_change(sample, old.get(sample), new.get(sample)) for sample in {**new, **old}]
    return sorted(changes, key=lambda change: (_ORDER.index(change.change), change.sample_id))


async def compare_versions(
    session: AsyncSession,
    store: RunStore,
    sample_id: str,
    before: tuple[RunTable, int | None],
    after: tuple[RunTable, int | None],
) -> RubricDiff:
    """Compare versions of a sample's rubric, of one set or of two.

    Args: before: a set and a number; by default the stage's own version, or another set's current one. after: a set and
        a number; by default the current version.
    """
    table, number = before
    if number is None and (table.run, table.path) == (after[0].run, after[0].path):
        number = FIRST
    first, old = await rubric_of(session, store, table, sample_id, number)
    second, new = await rubric_of(session, store, after[0], sample_id, after[1])
    return RubricDiff(before=first, after=second, criteria=compare(old, new))


def compare(before: Rubric, after: Rubric) -> list[CriterionChangeBody]:
    """Criteria of two versions, matched by title, in the order of the later one; removed ones come last."""
    old = {criterion.criterion: criterion for criterion in before.criteria}
    new = {criterion.criterion for criterion in after.criteria}
    changes = [_change(old.get(criterion.criterion), criterion) for criterion in after.criteria]
    return changes + [_change(criterion, None) for title, criterion in old.items() if title not in new]


def _sample_change(sample: str, before: Rubric | None, after: Rubric | None) -> SampleChangeBody:
    old, new = (
        {criterion.criterion: criterion for criterion in rubric.criteria} if rubric else {}
        for rubric in (before, after)
    )
    both = old.keys() & new.keys()
    same = sum(not _different_fields(old[title], new[title]) for title in both)
    added, removed, changed = len(new) - len(both), len(old) - len(both), len(both) - same
    change: Change = "changed" if added or removed or changed else "same"
    if before is None or after is None:
        change = "added" if before is None else "removed"
    return SampleChangeBody(sample_id=sample, change=change, added=added, removed=removed, changed=changed, same=same)


def _change(before: Criterion | None, after: Criterion | None) -> CriterionChangeBody:
    either = after or before
    assert either is not None
    texts = _different_fields(before, after)
    fields = [FieldChangeBody(field=field, pieces=_pieces(old, new)) for field, (old, new) in texts.items()]
    change: Change = "changed" if fields else "same"
    if before is None or after is None:
        change = "added" if before is None else "removed"
    return CriterionChangeBody(criterion=either.criterion, change=change, fields=fields)


def _different_fields(before: Criterion | None, after: Criterion | None) -> dict[str, tuple[str, str]]:
    """Field → its texts before and after, if they differ."""
    texts = {
        field: ("" if before is None else _text(before, field), "" if after is None else _text(after, field))
        for field in _COMPARED
    }
    return {field: (old, new) for field, (old, new) in texts.items() if old != new}


def _pieces(before: str, after: str) -> list[Piece]:
    if max(len(before), len(after)) > _LONGEST_COMPARED:
        return [("removed", before), ("added", after)]
    old, new = re.findall(r"\s+|\S+", before), re.findall(r"\s+|\S+", after)
    pieces: list[Piece] = []
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
