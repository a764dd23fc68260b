"""Losses of an export: the entry as it was against the one that its written form reads as, field by field.

Weights count by their proportions and by what earns: a pitfall and a negated criterion of the opposite weight order
responses alike, and the writers say where they turn one into the other.
"""

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from rubricworks.data.rubric_sets.entries import NEGATED, RubricEntry
from rubricworks.rubrics import Criterion

_TEXTS = ("criterion", "description", "evaluation_rule")
_OTHERS = tuple(name for name in Criterion.model_fields if name not in (*_TEXTS, "weight"))
_EMPTY = ("null", '""', "[]", "{}")


def losses(before: RubricEntry, after: RubricEntry, format: str) -> Iterator[str]:
    """Messages about what `format` does not hold of an entry, each once."""
    if before.sample_id != after.sample_id:
        yield f"{format} has no place for such a sample_id: it becomes a name of a file, or the number of a row"
    for name in ("prompt", "reference"):
        if getattr(before, name) != getattr(after, name):
            yield f"{format} has no place for a sample's {name}"
    yield from (f"{format} has no place for {source}'s {name}" for source, name in _lost_extras(before, after))
    if len(before.rubric.criteria) != len(after.rubric.criteria):
        yield f"{format} does not hold these criteria one by one: their texts or weights read as others"
        return
    pairs = list(zip(before.rubric.criteria, after.rubric.criteria, strict=True))
    for name in _OTHERS:
        if any(getattr(criterion, name) != getattr(other, name) for criterion, other in pairs):
            yield f"{format} has no place for a criterion's {name}"
    for name in _TEXTS:
        moved = [(criterion, other) for criterion, other in pairs if _text(criterion, name) != _text(other, name)]
        if any(_text(criterion, name) not in _all_text(other) for criterion, other in moved):
            yield f"{format} has no place for a criterion's {name}"
        elif any(getattr(criterion, name) for criterion, _ in moved):
            yield f"{format} holds a criterion's {name} joined to its other text"
    if not _proportional([_earned(criterion) for criterion, _ in pairs], [_earned(other) for _, other in pairs]):
        yield f"{format} has no place for such a weight"


def _text(criterion: Criterion, name: str) -> str:
    text: str = getattr(criterion, name)
    return "" if text == NEGATED else text


def _all_text(criterion: Criterion) -> str:
    return "\n".join(getattr(criterion, name) for name in _TEXTS)


def _earned(criterion: Criterion) -> float:
    """Weight of the statement being true."""
    return -criterion.weight if criterion.evaluation_rule == NEGATED else criterion.weight


def _proportional(before: Sequence[float], after: Sequence[float]) -> bool:
    factor = sum(map(abs, before)) / sum(map(abs, after))
    return all(math.isclose(earned, other * factor, rel_tol=1e-9) for earned, other in zip(before, after, strict=True))


def _lost_extras(before: RubricEntry, after: RubricEntry) -> list[tuple[str, str]]:
    """Fields of the entry's source that are not in what was written, as (source, field)."""
    source = str(before.extras.get("format"))
    held = before.extras.get("format") == after.extras.get("format")
    rows = [(before.extras.get("row"), after.extras.get("row") if held else None)]
    several, others = before.extras.get("criteria") or {}, (after.extras.get("criteria") or {}) if held else {}
    rows += [(fields, others.get(title)) for title, fields in several.items()]
    names = [
        name
        for fields, stored in rows
        for name, value in (fields or {}).items()
        if not _is_in_the_prompt(name, value) and _text_of(value) not in (_text_of((stored or {}).get(name)), *_EMPTY)
    ]
    return [(source, name) for name in dict.fromkeys(names)]


def _text_of(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _is_in_the_prompt(name: str, value: Any) -> bool:
    """Return True for a conversation of one message, which the entry's prompt holds."""
    return name == "prompt" and isinstance(value, list | tuple) and len(value) == 1
