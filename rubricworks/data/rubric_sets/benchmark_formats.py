"""Rubrics of benchmarks with one sample a row: HealthBench Professional, PRBench, ProfBench, FrontierScience, RACE.

- `healthbench_professional`: `id`, `conversation.messages`, `rubric_items` of `criterion_text`, `points`, and
  `physician_response`, the reference (openai/healthbench-professional). Its score is lowered for long answers, by no
  criterion.
- `prbench`: `task`, `prompt_0` … with `response_0` …, `rubric` of `title` and `annotations`, whose `weight_class` names
  the field that counts (ScaleAI/PRBench, criteria.py).
- `profbench`: `task_id`, `prompt`, `rubrics` of `criterion_description`, `criterion_weight` (Critical 4, Major 3, Minor
  2, Additional 1), `criterion_type` (nvidia/ProfBench, score_report_generation.py).
- `frontierscience`: `problem` and `answer`, which of a research task is a list "Points: 1.0, Item: …", and of an
  Olympiad problem the answer (openai/frontierscience).
- `deepresearchbench`: RACE's criteria.jsonl, `prompt`, `dimension_weight`, `criterions` by dimension, of `criterion`,
  `explanation`, `weight`; a criterion weighs its share of its dimension times that one's. FACT has no criteria.

What a row holds beside that waits in `extras`. Where nothing was changed, an export writes the source's own fields.
"""

import math
import re
from collections.abc import Mapping, Sequence

from rubricworks.data.rubric_sets.entries import (
    Note,
    RubricEntry,
    earning_criteria,
    make_entry,
    required,
    sample_name,
    signed_criteria,
    split_negation,
    statement,
    table,
    text_of,
)
from rubricworks.data.rubric_sets.row_formats import (
    Row,
    conversation_text,
    name_of,
    placed_criteria,
    plain_number,
    point_criteria,
    row_name,
    weight_of,
)
from rubricworks.errors import UserError
from rubricworks.rubrics import Criterion

_IMPORTANCE = ((8, "critically"), (4, ""), (0, "slightly"))
"""Classes of PRBench by the least weight that an export gives them."""
_PROFBENCH = {"Critical": 4, "Major": 3, "Minor": 2, "Additional": 1}
_ITEM = re.compile(r"^\s*Points:\s*([-+0-9.eE]+)\s*,\s*Item:\s*", re.MULTILINE)
_NO_DIMENSION = "criteria"
"""Dimension of criteria that have no key."""
_OLYMPIAD = "The final answer is equivalent to the reference answer."


def read_healthbench_professional(row: Row, where: str, number: int, note: Note) -> RubricEntry:
    note("HealthBench Professional lowers the score of long answers, which no criterion says: left out")
    messages = table(row.get("conversation"), "conversation", where).get("messages")
    return make_entry(
        "healthbench_professional",
        where,
        sample_name(row, "id", where),
        point_criteria(row.get("rubric_items"), where, text_field="criterion_text"),
        prompt=conversation_text(messages),
        reference=text_of(row.get("physician_response"), "physician_response", where),
        row=_without(row, "id", "rubric_items", "physician_response"),
    )


def write_healthbench_professional(entry: RubricEntry, number: int, note: Note) -> dict[str, object]:
    aside = entry.row_extras("healthbench_professional")
    conversation = table(aside.pop("conversation", None), "conversation", entry.sample_id)
    if conversation_text(conversation.get("messages")) != entry.prompt:
        conversation = {"messages": [{"role": "user", "content": entry.prompt}]}
    items = [
        {
            "criterion_text": statement(criterion),
            "points": plain_number(criterion.weight),
            **entry.criterion_extras("healthbench_professional", criterion),
        }
        for criterion in signed_criteria(entry, "healthbench_professional", note)
    ]
    answer = entry.reference or None
    return {
        "id": entry.sample_id,
        "conversation": conversation,
        **aside,
        "rubric_items": items,
        "physician_response": answer,
    }


def read_prbench(row: Row, where: str, number: int, note: Note) -> RubricEntry:
    criteria = []
    for place, item in placed_criteria(row.get("rubric"), where):
        given = item.get("annotations")
        annotations = table(given[0] if isinstance(given, list) and given else given, "annotations", place)
        kind = text_of(required(annotations, "weight_class", place), "weight_class", place)
        weight = weight_of(annotations, f"{kind.replace(' ', '_')}_weight", place)
        title, rule = split_negation(
            text_of(item.get("title") or annotations.get("criteria_description"), "title", place)
        )
        fields = {
            "criterion": title,
            "evaluation_rule": rule,
            "weight": -abs(weight) if "detrimental" in kind else weight,
            "essential": False,
            "key": text_of(annotations.get("criteria_category"), "criteria_category", place)[:200],
        }
        criteria.append((fields, _without(item, "title")))
    return make_entry(
        "prbench",
        where,
        sample_name(row, "task", where),
        criteria,
        prompt=_prbench_prompt(row),
        row=_without(row, "task", "rubric"),
    )


def write_prbench(entry: RubricEntry, number: int, note: Note) -> dict[str, object]:
    aside = entry.row_extras("prbench")
    if _prbench_prompt(aside) != entry.prompt:
        aside = {
            name: value for name, value in aside.items() if not re.match(r"(prompt|response|reference_texts)_", name)
        }
        aside |= {"prompt_0": entry.prompt, "turns": 1}
    rubric = []
    for criterion in signed_criteria(entry, "prbench", note):
        item = entry.criterion_extras("prbench", criterion)
        annotations = table(item.get("annotations"), "annotations", entry.sample_id)
        kind = str(annotations.get("weight_class", ""))
        if annotations.get(f"{kind.replace(' ', '_')}_weight") != criterion.weight:
            degree = next(name for least, name in _IMPORTANCE if abs(criterion.weight) >= least)
            kind = f"{degree} {'important' if criterion.weight > 0 else 'detrimental'}".strip()
            annotations = {name: value for name, value in annotations.items() if not name.endswith("_weight")}
            annotations |= {"weight_class": kind, f"{kind.replace(' ', '_')}_weight": plain_number(criterion.weight)}
        if criterion.key:
            annotations = {**annotations, "criteria_category": criterion.key}
        rubric.append({**item, "title": statement(criterion), "annotations": annotations})
    return {"task": entry.sample_id, **aside, "rubric": rubric}


def _prbench_prompt(row: Row) -> str:
    """Conversation of a row, its reference texts before the prompts, as PRBench's process_reference_texts has them."""
    turns = []
    for number in range(10):
        texts = row.get(f"reference_texts_{number}")
        texts = texts if isinstance(texts, list) else []
        references = "".join(f"Reference Text {at}:\n{text}\n\n" for at, text in enumerate(texts))
        for role, name in (("user", f"prompt_{number}"), ("assistant", f"response_{number}")):
            if isinstance(row.get(name), str) and row[name].strip():
                turns.append({"role": role, "content": (references if role == "user" else "") + row[name]})
    return conversation_text(turns)


def read_profbench(row: Row, where: str, number: int, note: Note) -> RubricEntry:
    if row.get("filepaths"):
        note("documents of ProfBench (filepaths) are shown to no judge here")
    criteria = []
    for place, item in placed_criteria(row.get("rubrics"), where):
        name = text_of(required(item, "criterion_weight", place), "criterion_weight", place)
        if name not in _PROFBENCH:
            raise UserError(f"{place}: criterion_weight is {name!r:.40}; it is one of {', '.join(_PROFBENCH)}")
        text = text_of(required(item, "criterion_description", place), "criterion_description", place)
        text, rule = split_negation(text)
        fields = {"criterion": text, "evaluation_rule": rule, "weight": _PROFBENCH[name], "essential": False}
        criteria.append((fields, _without(item, "criterion_description", "criterion_weight")))
    return make_entry(
        "profbench",
        where,
        sample_name(row, "task_id", where),
        criteria,
        prompt=text_of(row.get("prompt"), "prompt", where),
        row=_without(row, "task_id", "prompt", "rubrics"),
    )


def write_profbench(entry: RubricEntry, number: int, note: Note) -> dict[str, object]:
    rubrics = [
        {
            "criterion_description": statement(criterion),
            "criterion_weight": min(_PROFBENCH, key=lambda name: abs(_PROFBENCH[name] - criterion.weight)),
            **entry.criterion_extras("profbench", criterion),
        }
        for criterion in earning_criteria(entry, "profbench", note)
    ]
    return {"task_id": entry.sample_id, "prompt": entry.prompt, **entry.row_extras("profbench"), "rubrics": rubrics}


def read_frontierscience(row: Row, where: str, number: int, note: Note) -> RubricEntry:
    answer = text_of(required(row, "answer", where), "answer", where)
    items = list(_ITEM.finditer(answer))
    criteria: list[tuple[dict[str, object], dict[str, object]]] = []
    if items:
        note("an item of FrontierScience earns parts of its points there; here it is met or not")
        ends = [*(item.start() for item in items[1:]), len(answer)]
        for item, end in zip(items, ends, strict=True):
            text, rule = split_negation(answer[item.end() : end].strip())
            points = weight_of({"points": _number(item[1])}, "points", where)
            criteria.append(({"criterion": text, "evaluation_rule": rule, "weight": points, "essential": False}, {}))
    else:
        note("an Olympiad problem of FrontierScience has one criterion here: that the answer is the reference")
        criteria.append(({"criterion": _OLYMPIAD, "weight": 1.0, "reference": answer}, {}))
    return make_entry(
        "frontierscience",
        where,
        name_of(row, "id", number, where),
        criteria,
        prompt=text_of(required(row, "problem", where), "problem", where),
        row=_without(row, "id", "problem"),
    )


def write_frontierscience(entry: RubricEntry, number: int, note: Note) -> dict[str, object]:
    aside = entry.row_extras("frontierscience")
    named = {} if entry.sample_id == row_name(number) else {"id": entry.sample_id}
    row = {**named, "problem": entry.prompt, **aside}
    if aside and read_frontierscience(row, "", number, str).rubric == entry.rubric:
        return row
    criteria = earning_criteria(entry, "frontierscience", note)
    lines = [f"Points: {criterion.weight!r}, Item: {statement(criterion)}" for criterion in criteria]
    is_answer = len(criteria) == 1 and criteria[0].criterion == _OLYMPIAD
    return row | {"answer": criteria[0].reference if is_answer else "\n".join(lines)}


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def read_deepresearchbench(row: Row, where: str, number: int, note: Note) -> RubricEntry:
    note("RACE rates each criterion from 0 to 10 beside a reference article; here it is met or not, by itself")
    shares = table(row.get("dimension_weight"), "dimension_weight", where)
    dimensions = table(row.get("criterions"), "criterions", where)
    all_shares = math.fsum(weight_of(shares, name, f"{where}: dimension_weight") for name in dimensions)
    criteria = []
    for name, items in dimensions.items():
        placed = list(placed_criteria(items, f"{where}: {name}"))
        total = math.fsum(weight_of(item, "weight", place) for place, item in placed)
        if not total > 0 or not all_shares > 0:
            raise UserError(f"{where}: the weights of {name} have no sum above 0")
        for place, item in placed:
            text, rule = split_negation(text_of(item.get("explanation"), "explanation", place))
            fields = {
                "criterion": text_of(required(item, "criterion", place), "criterion", place),
                "description": text,
                "evaluation_rule": rule,
                "weight": shares[name] / all_shares * item["weight"] / total,
                "essential": False,
                "key": "" if name == _NO_DIMENSION else name[:200],
            }
            criteria.append((fields, _without(item, "criterion", "explanation", "weight")))
    return make_entry(
        "deepresearchbench",
        where,
        sample_name(row, "id", where),
        criteria,
        prompt=text_of(row.get("prompt"), "prompt", where),
        row=_without(row, "id", "prompt"),
    )


def write_deepresearchbench(entry: RubricEntry, number: int, note: Note) -> dict[str, object]:
    aside = entry.row_extras("deepresearchbench")
    name = int(entry.sample_id) if aside and entry.sample_id.isdecimal() else entry.sample_id
    row = {"id": name, "prompt": entry.prompt, **aside}
    if aside and read_deepresearchbench(row, "", number, str).rubric == entry.rubric:
        return row
    by_key: dict[str, list[Criterion]] = {}
    for criterion in earning_criteria(entry, "deepresearchbench", note):
        by_key.setdefault(criterion.key or _NO_DIMENSION, []).append(criterion)
    note("weights of deepresearchbench are shares: they are divided by their sum")
    sums = {key: math.fsum(criterion.weight for criterion in several) for key, several in by_key.items()}
    criterions = {
        key: [
            {
                "criterion": criterion.criterion,
                "explanation": "\n".join(filter(None, (criterion.description, criterion.evaluation_rule))),
                "weight": criterion.weight / sums[key],
                **entry.criterion_extras("deepresearchbench", criterion),
            }
            for criterion in several
        ]
        for key, several in by_key.items()
    }
    return row | {"dimension_weight": sums, "criterions": criterions}


def _without(row: Mapping[str, object], *names: str) -> dict[str, object]:
    return {name: value for name, value in row.items() if name not in names}


def fact_problem(row: Mapping[str, object]) -> str:
    """Reason why a row of FACT, DeepResearchBench's other half, is no rubric; empty for any other row."""
    fields: Sequence[str] = ("citations", "citations_deduped")
    if "article" in row and any(name in row for name in fields):
        return (
            "it is an article with its citations, as DeepResearchBench's FACT has it, and FACT has no criteria; give "
            "RACE's criteria.jsonl"
        )
    return ""
