"""Checklist lint: drop faulty criteria by rules that need no image, each with a reason.

The rules are RLR³'s (section 4.1, appendices B.1 and C): the reference alone holds the truth, and no visible text
that of another item's verifier; a verifier checks a
value and not a judgment, only the task's verifiers are used, a target can be read, an item is one assertion, weights
are 1 to 3. A faulty item does not affect the others; a checklist without an essential item is no rubric, because
nothing could fail a wrong response. The two rules about wording (`is_judgment`, `joins_assertions`) are heuristics with
few false alarms: the faults they miss are left to the merger's majority and to dual verification.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from rubricworks.rubrics import Checklist, ChecklistItem
from rubricworks.synthesis.checklist_prompts import ChecklistDraft
from rubricworks.synthesis.leaks import gives_away
from rubricworks.synthesis.targets import reference_call, target_fault, target_texts
from rubricworks.verifiers import VerifierCall

INCOMPLETE = "it is not a criterion with a text, a reference and a weight"
WEIGHT = "its weight is not 1, 2 or 3"
VERIFIER = "its verifier is not one of its task's"
JUDGMENT = "it checks a judgment with a verifier"
LEAK = "it gives its answer away"
SIBLING_LEAK = "it states what another criterion's verifier is to find"
JOINED = "it joins several assertions"
REPEATED = "it repeats an earlier criterion"
NOTHING_ESSENTIAL = "no essential criterion is left"
"""Reasons for dropping a criterion; those about its target are in `targets`."""

DroppedCriterion = tuple[str, str]
"""A criterion's text, cut to `_TITLE_CHARS`, and the reason for dropping it."""
_TITLE_CHARS = 300

_JUDGMENTS = frozenset({"yes", "no", "true", "false", "correct", "incorrect", "wrong", "valid", "invalid"})
_SHORT_JUDGMENTS = frozenset({"1", "0", "y", "n", "t", "f", "pass", "fail", "ok"})
"""Words for values; words for judgments if the criterion asks for one."""
_JUDGING = re.compile(r"\b(?:correctly|accurately|properly|rightly)\s+\w+\s+that\b|\bwhether\b")
_WORD = re.compile(r"\w+")
_ASSERT = (
    r"(?:acknowledges?|adds?|advises?|asks?|calculates?|cites?|comments?|computes?|concludes?|contains?|counts?|"
    r"derives?|describes?|determines?|discuss(?:es)?|explains?|finds?|flags?|gives?|identif(?:ies|y)|includes?|"
    r"indicates?|lists?|mentions?|names?|notes?|outlines?|points? out|provides?|reads?|recogni[sz]es?|recommends?|"
    r"reports?|says?|shows?|specif(?:ies|y)|states?|suggests?|warns?)"
)
_FIRST_ASSERTION = rf"\b{_ASSERT}\s+(?!and\b)\S+"
_SECOND_ASSERTION = re.compile(
    rf"{_FIRST_ASSERTION}.*?\b(?:and|as well as|but|while|plus)(?:,(?:\s\w+){{1,4}},)?\s+"
    rf"(?:also\s+|then\s+)?(?:{_ASSERT}|that|whether|how)\b"
)
"""States … and gives …; states that … and that …. Two verbs with one object ("finds and names the star") are one."""
_NEXT_CLAUSE = re.compile(
    rf"{_FIRST_ASSERTION}.*?(?:;|\s[-/\u2013\u2014]|\b(?:then|also|further|additionally|moreover)|"
    rf"(?<!\bthat )(?<!\bwhat )(?<!\bhow )(?<!\bwhere )(?<!\bwhen )(?<!\bif )\bit|"
    rf"(?<=[.;] )the (?:final )?(?:response|answer|caption))\s+(?:also\s+|further\s+)?{_ASSERT}\b"
)
"""States …; it also gives …: a clause of its own."""
_OBJECT = r"(?:an?|the|its|each|every|any|that|how|why|what|whether)\b"
"""Words that follow a verb, and hardly ever a plural noun."""
_NO_CONTENT = r"(?:(?!\b(?:that|which|who|how|why|if)\b).)"
_JOINED_VERBS = re.compile(
    rf"^{_NO_CONTENT}*?(?:"
    rf"\w+s\s+(?!and\b){_NO_CONTENT}+?\band\s+(?:\w+ly\s+)?\w+[^\Ws]s\s+{_OBJECT}|"
    rf"\b(?:should|must|has to)\s+\w+\s+(?!and\b){_NO_CONTENT}+?\band\s+(?:\w+ly\s+)?(?!{_OBJECT})[a-z]+\s+{_OBJECT})"
)
"""Weighs … and covers the …; should weigh … and cover the …: two verbs of any kind, each with its object."""
_PARTICIPLE = re.compile(r",\s(?:\w+\s)?\w+ing\s+(?:that|how|why|what|whether|each|every)\b")
"""Names …, explaining what …: a participle with an object clause asks for something of its own."""
_EXAMPLES = re.compile(
    r"\([^()]{3,}\)|\(?\bjustification:.*|\b(?:representative )?examples?\b[^:.]{0,80}:.*|"
    r"\bfor (?:example|instance)\b.*"
)
"""Parts of a criterion without a requirement: brackets, examples and reasons."""
_NEXT_DEMAND = re.compile(r"\b(?:should|must|has to)\b[^.]*\.\s.*\b(?:should|must|has to)\b")
_ENUMERATION = re.compile(r"(?:\(1\)|\b1[.)]\s|\bstep 1\b).*(?:\(2\)|\b2[.)]\s|\bstep 2\b)")
_JOINTS = (_SECOND_ASSERTION, _NEXT_CLAUSE, _JOINED_VERBS, _PARTICIPLE, _NEXT_DEMAND, _ENUMERATION)


def lint_checklist(
    checklist: ChecklistDraft | Checklist,
    *,
    answer: str | Sequence[str] | None = None,
    question: str = "",
    allowed: Collection[str] | None = None,
) -> tuple[Checklist | None, list[DroppedCriterion]]:
    """Split a checklist into the criteria that keep the rules, unchanged, and the dropped ones with reasons.

    Args:
        checklist: a model's draft, or a valid checklist.
        answer: the reference answer, or several ways to write it: no essential criterion may state it.
        question: words that it contains do not count as a leak; see `leaks.gives_away`.
        allowed: names of the verifiers that the task may use; None means all.
    Returns:
        None for the checklist if no essential criterion is left; the last reason says so.
    """
    answers = () if answer is None else (answer,) if isinstance(answer, str) else tuple(answer)
    essentials: list[ChecklistItem] = []
    additionals: list[ChecklistItem] = []
    dropped: list[DroppedCriterion] = []
    wordings: set[str] = set()
    for essential, raw in _items(checklist):
        item = _parse_item(raw)
        if isinstance(item, str):
            dropped.append((_title(raw), item))
            continue
        reason = _find_fault(item, answers if essential else (), question, allowed)
        if not reason and _plain_words(item.criterion) in wordings:
            reason = REPEATED
        if reason:
            dropped.append((_title(raw), reason))
            continue
        (essentials if essential else additionals).append(item)
        wordings.add(_plain_words(item.criterion))
    leaking = _sibling_leaks([*essentials, *additionals], question)
    dropped += [(_title(item), SIBLING_LEAK) for item in leaking]
    essentials, additionals = ([item for item in items if item not in leaking] for items in (essentials, additionals))
    if not essentials:
        return None, [*dropped, ("", NOTHING_ESSENTIAL)]
    return Checklist(essential=tuple(essentials), additional=tuple(additionals)), dropped


def repair_message(dropped: Sequence[DroppedCriterion]) -> str:
    """Repair request for a checklist with no essential criterion left: lists the faults, quotes none of the items."""
    reasons = "; ".join(dict.fromkeys(reason for _, reason in dropped if reason != NOTHING_ESSENTIAL))
    return "essential: nothing usable is left" + (f" (faults of the items: {reasons})" if reasons else "")


def _items(checklist: ChecklistDraft | Checklist) -> Iterator[tuple[bool, Any]]:
    for essential, items in ((True, checklist.essential), (False, checklist.additional)):
        for item in items:
            yield essential, item


def _parse_item(raw: Any) -> ChecklistItem | str:
    """Return the item, or the reason why it cannot be read. Unknown fields are ignored; a weight of 2.0 is 2."""
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


def _find_fault(item: ChecklistItem, answers: Sequence[str], question: str, allowed: Collection[str] | None) -> str:
    """Return the reason for dropping an item, regardless of the others; empty if there is none."""
    if not _plain_words(item.criterion) or not item.reference.strip():
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


def _sibling_leaks(items: Sequence[ChecklistItem], question: str) -> list[ChecklistItem]:
    """Items whose visible text states the target of another one's verifier.

    All items are shown in one request: each criterion, and of those without a verifier the reference too. So an
    extractor could read a target there and never look for it in the response.
    """
    calls = [(item, call) for item in items if isinstance(call := reference_call(item.reference), VerifierCall)]
    verified = [item for item, _ in calls]
    leaking = []
    for item in items:
        shown = [item.criterion] if item in verified else [item.criterion, item.reference]
        hidden = {text for other, call in calls if other is not item for text in target_texts(call)}
        if any(gives_away(text, secret, question) for text in shown for secret in hidden):
            leaking.append(item)
    return leaking


def is_judgment(criterion: str, call: VerifierCall) -> bool:
    """Return True if a verifier would check the extractor's opinion of the response instead of a value in it."""
    if call.name not in ("expr_verify", "text_verify"):
        return False
    target, candidates = call.arguments.get("target"), call.arguments.get("candidates")
    values = [target, *(candidates if isinstance(candidates, tuple) else ())]
    words = {_plain_words(str(value)) for value in values if value is not None}
    return bool(words & _JUDGMENTS or (words & _SHORT_JUDGMENTS and _JUDGING.search(criterion.lower())))


def joins_assertions(criterion: str) -> bool:
    """Return True if a criterion makes several assertions, of which a response may meet only some."""
    text = _EXAMPLES.sub("", " ".join(criterion.lower().split()))
    return any(pattern.search(text) for pattern in _JOINTS)


def _plain_words(text: str) -> str:
    """Return only a text's words, case-folded: equal for two criteria that differ in case and punctuation."""
    return " ".join(_WORD.findall(text.casefold()))


def _title(raw: Any) -> str:
    """Return an item's criterion for the record, whatever its type."""
    text = (
        raw.criterion if isinstance(raw, ChecklistItem) else raw.get("criterion") if isinstance(raw, Mapping) else raw
    )
    return str(text or "")[:_TITLE_CHARS]
