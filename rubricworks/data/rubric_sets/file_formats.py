"""Formats with one rubric a file: rewardkit's judge TOML (Harbor) and verifiers' criteria in TOML or JSON.

- `rewardkit`: `[[criterion]]` tables of `description`, `name`, `weight`, `type`, `negate`, `optional`, beside `[judge]`
  and `[scoring]` (harbor-rewardkit 0.2). Its pitfalls are negative weights under `aggregation = "weighted-sum"`. Its
  gates know no weights: where all that must pass passes, the score is 1 (`required-pass`, `all-pass`). A must-have
  beside weights is therefore an annotation, `essential`, which rewardkit takes and does not enforce.
- `verifiers`: `criteria` of `name`, `text`, `weight`, `choices` from worst to best (verifiers 0.4, `RubricJudge`). It
  knows no negative weight.

A criterion with more than two levels is met at the best one here. A negated criterion keeps its positive weight and
gets the rule `entries.NEGATED`.
"""

import json
import re
from collections.abc import Mapping
from datetime import date, time
from math import isfinite
from typing import Any

from rubricworks.data.rubric_sets.entries import (
    NEGATED,
    Note,
    RubricEntry,
    criteria_list,
    description,
    make_entry,
    required,
    table,
    text_of,
    without_negation,
)
from rubricworks.errors import UserError
from rubricworks.rubrics import Criterion

_NO_YES = ["no", "yes"]
_NAME = re.compile(r"[^a-zA-Z0-9_-]+")
_MAX_NAME = 64
_AGGREGATIONS = ("weighted-mean", "weighted-sum", "all-pass", "required-pass")
"""Aggregations with a counterpart here."""
_GATES = ("all-pass", "required-pass")


def read_rewardkit(document: Mapping[str, object], where: str, sample_id: str, note: Note) -> RubricEntry:
    """Read a judge TOML.

    Raises:
        UserError: a criterion is invalid, or scoring needs what is not there.
    """
    scoring = table(document.get("scoring"), "scoring", where)
    aggregation = str(scoring.get("aggregation", "weighted-mean")).replace("_", "-")
    if not isinstance(scoring.get("aggregation", ""), str):
        raise UserError(f"{where}: scoring.aggregation is {scoring['aggregation']!r:.60}, not a name")
    if aggregation not in _AGGREGATIONS:
        note(f"aggregation {aggregation!r} has no counterpart; the weighted mean is the reward here")
    criteria = []
    for number, item in enumerate(criteria_list(document.get("criterion"), where), start=1):
        place = f"{where}: criterion {number}"
        description = text_of(required(item, "description", place), "description", place)
        annotations = table(item.get("annotations"), "annotations", place)
        importance, polarity = (str(annotations.get(name, "")).lower() for name in ("importance", "type"))
        optional = _boolean(item, "optional", "optional" in importance, place)
        fields = {
            "criterion": text_of(annotations.get("title") or item.get("name"), "title or name", place) or description,
            "description": description,
            "weight": item.get("weight", 1.0),
            "essential": aggregation == "all-pass"
            or (not optional and (aggregation == "required-pass" or annotations.get("essential") is True)),
        }
        if _boolean(item, "negate", "negative" in polarity, place):
            fields["evaluation_rule"] = NEGATED
        elif best := _best_level(item, place):
            fields["evaluation_rule"] = f"Passes at the best level only: {best}."
            note("criteria with several levels (likert, numeric, rubric) are met at the best one here")
        known = ("description", "weight", "negate", "optional", "annotations")
        aside = {name: value for name, value in item.items() if name not in known}
        criteria.append((fields, aside | ({"annotations": annotations} if annotations else {})))
    return make_entry(
        "rewardkit", where, sample_id, criteria, row={name: document[name] for name in document if name != "criterion"}
    )


def write_rewardkit(entry: RubricEntry, note: Note) -> str:
    """Write a judge TOML. Weights of a rubric with pitfalls are divided by the sum of the positive ones."""
    aside = entry.row_extras("rewardkit") or {"judge": {"mode": "batched"}}
    criteria = entry.rubric.criteria
    where = f"sample {entry.sample_id!r}"
    scoring = table(aside.pop("scoring", None), "scoring", where)
    total = 1.0
    if entry.rubric.has_pitfalls:
        if str(scoring.get("aggregation", "")).replace("_", "-") != "weighted-sum":
            total = sum(weight for weight in entry.rubric.weights if weight > 0)
            note("weights of a rubric with pitfalls are divided by the sum of the positive ones")
        scoring = {**scoring, "aggregation": "weighted-sum"}
    elif not scoring:
        scoring = {"aggregation": "weighted-mean"}
    aggregation = str(scoring.get("aggregation", "weighted-mean")).replace("_", "-")
    if aggregation == "required-pass" and not any(entry.rubric.essential):
        note("required-pass needs an essential criterion, and none is: the weighted mean is written")
        aggregation = "weighted-mean"
        scoring = {**scoring, "aggregation": aggregation}
    has_gate = aggregation in _GATES
    if any(entry.rubric.essential) and not has_gate:
        note(f"{aggregation} of rewardkit has no gate: must-haves are marked (annotations.essential), not enforced")
    sections = {name: value for name, value in aside.items() if isinstance(value, Mapping)} | {"scoring": scoring}
    lines = _pairs({name: value for name, value in aside.items() if name not in sections})
    lines += [line for name, section in sections.items() for line in (f"[{_key(name)}]", *_pairs(section), "")]
    names: list[str] = []
    for criterion in criteria:
        extras = entry.criterion_extras("rewardkit", criterion)
        names.append(_safe_name(str(extras.pop("name", None) or criterion.criterion), names))
        annotations = table(extras.pop("annotations", None), "annotations", where)
        if criterion.criterion != names[-1]:
            annotations["title"] = criterion.criterion
        annotations.pop("essential", None)
        if criterion.essential and not has_gate:
            annotations["essential"] = True
        fields = {
            "name": names[-1],
            "description": _without_level(criterion, extras),
            **extras,
            "weight": criterion.weight / total,
        }
        # A field stands before the annotation that says it of another source's criterion.
        if criterion.evaluation_rule == NEGATED or "negative" in str(annotations.get("type", "")).lower():
            fields["negate"] = criterion.evaluation_rule == NEGATED
        if not criterion.essential or "optional" in str(annotations.get("importance", "")).lower():
            fields["optional"] = not criterion.essential
        if annotations:
            fields["annotations"] = annotations
        lines += ["[[criterion]]", *_pairs(fields), ""]
    return "\n".join(lines)


def read_verifiers(document: Any, where: str, sample_id: str, note: Note) -> RubricEntry:
    """Read the criteria of a `RubricJudge`: a document with `criteria`, or a bare list.

    Raises:
        UserError: a criterion is invalid.
    """
    items = document if isinstance(document, list) else table(document, "the document", where).get("criteria")
    criteria = []
    for number, item in enumerate(criteria_list(items, where), start=1):
        place = f"{where}: criterion {number}"
        choices = _NO_YES if item.get("choices") is None else item["choices"]
        fields = {
            "criterion": text_of(required(item, "name", place), "name", place),
            "description": text_of(required(item, "text", place), "text", place),
            "weight": item.get("weight", 1.0),
            "essential": False,
        }
        if choices == _NO_YES[::-1]:
            fields["evaluation_rule"] = NEGATED
        elif not isinstance(choices, list) or not choices or not all(isinstance(choice, str) for choice in choices):
            raise UserError(f"{place}: choices are {choices!r:.60}; give a list of texts, from worst to best")
        elif choices != _NO_YES:
            fields["evaluation_rule"] = f"Passes at the best level only: {choices[-1]}."
            note("criteria with several choices are met at the best one here")
        known = ("name", "text", "weight")
        criteria.append((fields, {name: item[name] for name in item if name not in known and item[name] is not None}))
    row = {name: document[name] for name in document if name != "criteria"} if isinstance(document, Mapping) else {}
    return make_entry("verifiers", where, sample_id, criteria, row=row)


def verifiers_document(entry: RubricEntry, note: Note) -> dict[str, Any]:
    """Criteria for a `RubricJudge`. A pitfall earns its weight by not being met: the same order, other values."""
    if entry.rubric.has_pitfalls:
        note("verifiers knows no negative weight: a pitfall is written to earn by not being met")
    items = []
    for criterion in entry.rubric.criteria:
        extras = entry.criterion_extras("verifiers", criterion)
        item = {"name": criterion.criterion, "text": _without_level(criterion, extras), "weight": abs(criterion.weight)}
        if (criterion.weight < 0) != (criterion.evaluation_rule == NEGATED):
            extras["choices"] = _NO_YES[::-1]
        items.append(item | extras)
    return {**entry.row_extras("verifiers"), "criteria": items}


def write_verifiers(entry: RubricEntry, note: Note) -> str:
    document = verifiers_document(entry, note)
    lines = [line for item in document.pop("criteria") for line in ("[[criteria]]", *_pairs(item), "")]
    return "\n".join([*_pairs(document), *lines])


def _boolean(item: Mapping[str, Any], name: str, default: bool, where: str) -> bool:
    value = item.get(name, default)
    if not isinstance(value, bool):
        raise UserError(f"{where}: {name} is {value!r:.40}; write true or false, without quotes")
    return value


def _best_level(item: Mapping[str, object], where: str) -> str:
    match item.get("type", "binary"):
        case "binary":
            return ""
        case "likert":
            points = item.get("points", 5)
            if isinstance(points, bool) or not isinstance(points, int) or points < 2:
                raise UserError(f"{where}: points are {points!r:.40}; give a whole number from 2 on")
            return f"{points} of {points}"
        case "numeric":
            bounds = item.get("max", 1.0), item.get("min", 0.0)
            if any(
                isinstance(bound, bool) or not isinstance(bound, int | float) or not isfinite(bound) for bound in bounds
            ):
                raise UserError(f"{where}: the scale ends at {bounds[0]!r:.40} and {bounds[1]!r:.40}; give numbers")
            return f"{bounds[0]:g} on a scale from {bounds[1]:g}"
        case "rubric":
            levels = item.get("levels")
            if not isinstance(levels, list) or not levels or not all(isinstance(level, str) for level in levels):
                raise UserError(f"{where}: levels are {levels!r:.60}; give a list of texts, from worst to best")
            return str(levels[-1])
        case other:
            raise UserError(f"{where}: type is {other!r:.40}; choose binary, likert, numeric or rubric")


def _without_level(criterion: Criterion, extras: Mapping[str, object]) -> str:
    """Text of a criterion; the rule that a several-level criterion got here is not repeated beside its levels."""
    if extras.get("type", "binary") != "binary" or extras.get("choices", _NO_YES) != _NO_YES:
        return criterion.description or criterion.criterion
    return description(without_negation(criterion))


def _safe_name(title: str, taken: list[str]) -> str:
    """Name that rewardkit takes, of letters, digits, `_` and `-`, unlike the others."""
    stem = _NAME.sub("_", title).strip("_")[:_MAX_NAME].strip("_") or "criterion"
    name, number = stem, 1
    while name in taken:
        number += 1
        name = f"{stem[: _MAX_NAME - 5]}_{number}"
    return name


def _pairs(fields: Mapping[str, object]) -> list[str]:
    """Lines `key = value` of a TOML table, which has no null."""
    return [f"{_key(name)} = {_value(value)}" for name, value in fields.items() if value is not None]


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(_pairs(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value if item is not None) + "]"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, date | time):
        return value.isoformat()
    # A JSON string is a TOML string, but for DEL, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False, default=str).replace("\x7f", "\\u007f")
