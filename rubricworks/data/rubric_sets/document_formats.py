"""Rubrics of projects that keep one JSON document for each: PaperBench's trees, and autorubric's rubrics and data sets.

- `paperbench`: nodes of `id`, `requirements`, `weight`, `sub_tasks`, `task_category` (openai/frontier-evals). A leaf is
  a criterion, and weighs the product of the shares that the nodes on its path have of their siblings. Its `key` is its
  category, its description the requirements above it. A node of weight 0 is left out, as it changes no score.
- `autorubric` (autorubric 1.6): criteria of `requirement`, `weight` (10 by default), `name`, `options`, as a list, in
  `sections`, or in a data set with `prompt` and `items`. Its items are responses, which are left out; an item with a
  rubric or a prompt of its own is a sample of its own. A criterion with options is met at the best of them.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from rubricworks.data.rubric_sets.entries import (
    Note,
    RubricEntry,
    criteria_list,
    description,
    earning_criteria,
    make_entry,
    required,
    signed_criteria,
    split_negation,
    statement,
    table,
    text_of,
)
from rubricworks.data.rubric_sets.row_formats import Row, name_of, plain_number, row_name, weight_of
from rubricworks.errors import UserError
from rubricworks.rubrics import Criterion

_LONGEST_TITLE = 2_000
_LONGEST_PATH = 4_000
_DEFAULT_WEIGHT = 10.0
_ABOVE = " > "


def read_paperbench(row: Row, where: str, number: int, note: Note) -> RubricEntry:
    criteria = []
    try:
        leaves = list(_leaves(row, 1.0, [], where, note))
    except RecursionError:
        raise UserError(f"{where}: its tree is too deep") from None
    for leaf, weight, above in leaves:
        text, rule = split_negation(text_of(required(leaf, "requirements", where), "requirements", where))
        path = f"Part of: {_ABOVE.join(above)}" if above else ""
        fields = {
            "criterion": text,
            "description": text if len(text) > _LONGEST_TITLE else path[:_LONGEST_PATH],
            "evaluation_rule": rule,
            "weight": weight,
            "essential": False,
            "key": text_of(leaf.get("task_category"), "task_category", where)[:200],
        }
        known = ("requirements", "weight", "sub_tasks", "task_category")
        criteria.append((fields, {name: leaf[name] for name in leaf if name not in known}))
    return make_entry("paperbench", where, name_of(row, "id", number, where), criteria, row={"tree": dict(row)})


def _leaves(
    node: Row, weight: float, above: list[str], where: str, note: Note
) -> Iterator[tuple[Row, float, list[str]]]:
    """Leaves below a node, each with its share of the whole and the requirements above it, the root's first."""
    nodes = node.get("sub_tasks") or []
    if not nodes:
        yield node, weight, above
        return
    nodes = criteria_list(nodes, where)
    place = f"{where}: node {node.get('id')!s:.60}"
    weights = [weight_of(node, "weight", place) for node in nodes]
    if any(weight < 0 for weight in weights):
        raise UserError(f"{place}: a weight below it is negative; PaperBench's are 0 or more")
    total = math.fsum(weights)
    if not total:
        raise UserError(f"{place}: all weights below it are 0")
    for child, own in zip(nodes, weights, strict=True):
        if own:
            path = [*above, text_of(node.get("requirements"), "requirements", place)]
            yield from _leaves(child, weight * own / total, path, where, note)
        else:
            note("nodes of PaperBench of weight 0 are left out")


def write_paperbench(entry: RubricEntry, number: int, note: Note) -> dict[str, object]:
    tree = table(entry.row_extras("paperbench").get("tree"), "tree", entry.sample_id)
    if tree and read_paperbench(tree, "", number, str).rubric == entry.rubric:
        return tree
    note("weights of paperbench are shares: they are divided by their sum")
    if tree:
        note("the rubric was changed: PaperBench's tree is written flat, its leaves below one node")
    leaves = [
        {
            "id": f"{entry.sample_id}-{place}",
            "requirements": statement(criterion),
            "weight": plain_number(criterion.weight),
            "sub_tasks": [],
            "task_category": criterion.key or None,
            **entry.criterion_extras("paperbench", criterion),
        }
        for place, criterion in enumerate(earning_criteria(entry, "paperbench", note), start=1)
    ]
    root = {"id": entry.sample_id, "requirements": entry.prompt or "All requirements are met", "weight": 1}
    return root | {"sub_tasks": leaves, "task_category": None}


def autorubric_criteria(value: Any) -> list[Any]:
    """Criteria of autorubric's list, sections or document; empty for what is none."""
    for name in ("rubric", "sections"):
        value = value[name] if isinstance(value, Mapping) and name in value else value
    items = value if isinstance(value, list) else []
    inner = [
        item["criteria"] if isinstance(item, Mapping) and isinstance(item.get("criteria"), list) else [item]
        for item in items
    ]
    criteria = [criterion for several in inner for criterion in several]
    return criteria if criteria and isinstance(criteria[0], Mapping) and "requirement" in criteria[0] else []


def autorubric_rows(document: Any, name: str) -> list[dict[str, object]]:
    """Rows of autorubric's document, one a sample; empty for any other.

    Args:
        name: of a document that has none.
    """
    rubric = autorubric_criteria(document)
    fields = document if isinstance(document, Mapping) else {}
    items = fields.get("items")
    own = [
        (at, item)
        for at, item in enumerate(items if isinstance(items, list) else [])
        if isinstance(item, Mapping) and (autorubric_criteria(item.get("rubric")) or item.get("prompt"))
    ]
    if not rubric and not any(autorubric_criteria(item.get("rubric")) for _, item in own):
        return []
    named = text_of(fields.get("name"), "name", name) or name
    shared = {key: fields[key] for key in ("prompt", "reference_submission") if fields.get(key) is not None}
    rows = []
    if rubric and (not own or len(own) < len(items or [])):
        rows.append({"name": named, **shared, "rubric": rubric, "items": items or []})
    for at, item in own:
        given = {key: item[key] for key in ("prompt", "reference_submission") if item.get(key) is not None}
        criteria = autorubric_criteria(item.get("rubric")) or rubric
        rows.append({"name": f"{named}-{at}", **shared, **given, "rubric": criteria, "items": [item]})
    return rows


def read_autorubric(row: Row, where: str, number: int, note: Note) -> RubricEntry:
    if row.get("items"):
        note("items of autorubric (submissions and their labels) are responses: left out")
    criteria = []
    for place_number, item in enumerate(criteria_list(autorubric_criteria(row), where), start=1):
        place = f"{where}: criterion {place_number}"
        text, rule = split_negation(text_of(required(item, "requirement", place), "requirement", place))
        weight = weight_of(item, "weight", place) if item.get("weight") is not None else _DEFAULT_WEIGHT
        if item.get("options") and not rule:
            rule = f"Passes at the best level only: {_best_option(item['options'], place)}."
            note("criteria of autorubric with options are met at the best one here")
        fields = {
            "criterion": text_of(item.get("name"), "name", place) or text,
            "description": text,
            "evaluation_rule": rule,
            "weight": weight,
            "essential": False,
        }
        known = ("name", "requirement", "weight")
        criteria.append((fields, {name: item[name] for name in item if name not in known}))
    return make_entry(
        "autorubric",
        where,
        name_of(row, "name", number, where),
        criteria,
        prompt=text_of(row.get("prompt"), "prompt", where),
        reference=text_of(row.get("reference_submission"), "reference_submission", where),
    )


def _best_option(options: Any, where: str) -> str:
    """Label of the option of the highest value, which of a negative weight is the worst."""
    listed = [criterion for criterion in criteria_list(options, f"{where}: options") if not criterion.get("na")]
    if not listed:
        raise UserError(f"{where}: each of its options is marked as not applicable")
    best = max(listed, key=lambda criterion: weight_of(criterion, "value", f"{where}: option"))
    return text_of(required(best, "label", where), "label", where)


def write_autorubric(entry: RubricEntry, number: int, note: Note) -> dict[str, object]:
    rubric = []
    for criterion in signed_criteria(entry, "autorubric", note):
        extras = entry.criterion_extras("autorubric", criterion)
        text = _requirement(criterion, bool(extras.get("options")))
        rubric.append({"name": criterion.criterion, "weight": criterion.weight, "requirement": text, **extras})
    named = {} if entry.sample_id == row_name(number) else {"name": entry.sample_id}
    answer = {"reference_submission": entry.reference} if entry.reference else {}
    return {**named, "prompt": entry.prompt, "rubric": rubric, **answer, "items": []}


def _requirement(criterion: Criterion, has_options: bool) -> str:
    """Text of a criterion; the rule that one with options got here is not repeated beside them."""
    return description(criterion.model_copy(update={"evaluation_rule": ""}) if has_options else criterion)
