"""What code can tell of a checklist without looking at the image: faulty criteria are dropped, each with a reason.

The rules are RLR³'s (section 4.1, appendices B.1 and C): the truth stands in the reference alone, a verifier checks a
value and not a judgment, only the task's verifiers are used, a target can be read, an item is one assertion, weights
are 1 to 3. A faulty item costs itself alone; a checklist without an essential item is no rubric, because nothing could
fail a wrong response.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from rubricworks.rubrics import Checklist, ChecklistItem
from rubricworks.synthesis.checklist_prompts import ChecklistDraft
from rubricworks.synthesis.checklist_wording import is_judgment, joins_assertions, plain_words
from rubricworks.synthesis.leaks import gives_away
from rubricworks.synthesis.targets import reference_call, target_fault, target_texts
from rubricworks.verifiers import VerifierCall

INCOMPLETE = "it is not a criterion with a text, a reference and a weight"
WEIGHT = "its weight is not 1, 2 or 3"
VERIFIER = "its verifier is not one of its task's"
JUDGMENT = "it checks a judgment with a verifier"
LEAK = "it gives its answer away"
JOINED = "it joins several assertions"
REPEATED = "it repeats an earlier criterion"
NOTHING_ESSENTIAL = "no essential criterion is left"
"""Reasons; a target's own are in `targets`."""

Dropped = tuple[str, str]
"""A criterion's text, cut short, and why it was dropped."""
_SHOWN = 300


def lint_checklist(
    checklist: ChecklistDraft | Checklist,
    *,
    answer: str | Sequence[str] | None = None,
    question: str = "",
    allowed: Collection[str] | None = None,
) -> tuple[Checklist | None, list[Dropped]]:
    """The criteria that keep the rules, as they were written, and the others with reasons.

    Args:
        checklist: as a model wrote it (`ChecklistDraft`), or one that is a checklist already.
        answer: the reference answer, or several ways to write it: no essential criterion may state it.
        question: what it holds gives nothing away; see `leaks.gives_away`.
        allowed: names of the verifiers that the task may use; None means all.
    Returns:
        None for the checklist where no essential criterion is left; the last reason says so.
    """
    answers = () if answer is None else (answer,) if isinstance(answer, str) else tuple(answer)
    kept: dict[bool, list[ChecklistItem]] = {True: [], False: []}
    dropped: list[Dropped] = []
    seen: set[str] = set()
    for essential, raw in _items(checklist):
        item = _read(raw)
        if isinstance(item, str):
            dropped.append((_title(raw), item))
            continue
        reason = _fault(item, answers if essential else (), question, allowed)
        if not reason and plain_words(item.criterion) in seen:
            reason = REPEATED
        if reason:
            dropped.append((_title(raw), reason))
            continue
        kept[essential].append(item)
        seen.add(plain_words(item.criterion))
    if not kept[True]:
        return None, [*dropped, ("", NOTHING_ESSENTIAL)]
    return Checklist(essential=tuple(kept[True]), additional=tuple(kept[False])), dropped


def complaint(dropped: Sequence[Dropped]) -> str:
    """What a model is told whose checklist has nothing essential left: the faults, without its own words."""
    reasons = "; ".join(dict.fromkeys(reason for _, reason in dropped if reason != NOTHING_ESSENTIAL))
    return "essential: nothing usable is left" + (f" (faults of the items: {reasons})" if reasons else "")


def _items(checklist: ChecklistDraft | Checklist) -> Iterator[tuple[bool, Any]]:
    for essential, items in ((True, checklist.essential), (False, checklist.additional)):
        for item in items:
            yield essential, item


def _read(raw: Any) -> ChecklistItem | str:
    """The item, or why it is none. Fields that were not asked for are passed over; 2.0 is 2."""
    if isinstance(raw, ChecklistItem):
        return raw
    if not isinstance(raw, Mapping):
        return INCOMPLETE
    weight = raw.get("weight")
    if weight is None:
        return INCOMPLETE
    if type(weight) not in (int, float) or weight not in (1, 2, 3):
        return WEIGHT
    try:
        return ChecklistItem(criterion=raw.get("criterion"), reference=raw.get("reference"), weight=int(weight))
    except ValidationError:
        return INCOMPLETE


def _fault(item: ChecklistItem, answers: Sequence[str], question: str, allowed: Collection[str] | None) -> str:
    """What is wrong with an item by itself; empty if nothing."""
    if not plain_words(item.criterion) or not item.reference.strip():
        return INCOMPLETE
    call = reference_call(item.reference)
    if isinstance(call, str):
        return call
    if call is not None:
        if allowed is not None and call.name not in allowed:
            return VERIFIER
        if is_judgment(item.criterion, call):
            return JUDGMENT
        if fault := target_fault(call):
            return fault
    if any(gives_away(item.criterion, secret, question) for secret in _secrets(item, call, answers)):
        return LEAK
    return JOINED if joins_assertions(item.criterion) else ""


def _secrets(item: ChecklistItem, call: VerifierCall | None, answers: Sequence[str]) -> Iterator[str]:
    yield from (item.reference,) if call is None else target_texts(call)
    yield from answers


def _title(raw: Any) -> str:
    """An item's criterion for the record, whatever was given."""
    text = (
        raw.criterion if isinstance(raw, ChecklistItem) else raw.get("criterion") if isinstance(raw, Mapping) else raw
    )
    return str(text or "")[:_SHOWN]
