"""Formats with one sample a row, as JSON lines or Parquet: ours, HealthBench, ResearchRubrics, RaR, RubricHub.

- `rubricworks`: columns `sample_id` and `rubric`, as `rubricworks synthesize` writes them; `prompt`, `reference` and
  `extras` where the file has them.
- `healthbench`: `prompt_id`, `prompt` (messages), `rubrics` of `criterion`, `points`, `tags` (openai/simple-evals).
- `researchrubrics`: `sample_id`, `prompt`, `rubrics` of `criterion`, `weight`, `axis` (ScaleAI/researchrubrics).
- `rar` (Rubrics as Rewards): `question`, `reference_answer`, `rubric` of `title`, `description`, `weight`; the
  description begins with "Essential Criteria:", "Important …", "Optional …" or "Pitfall …" (arXiv:2507.17746).
- `rubrichub`: `question`, `id`, `rubrics` of `criterion`, `points`, or the same list below `reward_model` in rows for
  verl, with `prompt` (messages), as RuscaRL and RubricHub's RuRL have them (arXiv:2601.08430).
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rubricworks.data.rubric_sets.entries import (
    Note,
    RubricEntry,
    criteria_list,
    description,
    make_entry,
    parse_rubric,
    required,
    rubric_of_column,
    sample_name,
    signed_criteria,
    split_negation,
    statement,
    table,
    text_of,
)
from rubricworks.errors import UserError
from rubricworks.rubrics import Criterion

Row = Mapping[str, Any]
_COPIES = ("prompt", "reward_model")


def read_own(row: Row, where: str, number: int, note: Note) -> RubricEntry:
    given, extras = required(row, "rubric", where), row.get("extras") or "{}"
    try:
        given = json.loads(given) if isinstance(given, str) else given
        extras_given = json.loads(extras) if isinstance(extras, str) else extras
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: its rubric or extras are not JSON ({error})") from None
    if not isinstance(given, list | Mapping):
        raise UserError(f"{where}: its rubric is {given!r:.60}; it is a list of criteria, or an object that has one")
    fields = rubric_of_column(given)
    fields["criteria"] = criteria_list(fields.get("criteria"), where)
    return RubricEntry(
        sample_name(row, "sample_id", where),
        parse_rubric(fields, where),
        conversation_text(messages_of(row, where)) if row.get("prompt") is not None else "",
        text_of(row.get("reference"), "reference", where),
        _own_extras(extras_given, where),
    )


def _own_extras(value: Any, where: str) -> dict[str, object]:
    extras = table(value, "extras", where)
    table(extras.get("row"), "extras.row", where)
    for title, fields in table(extras.get("criteria"), "extras.criteria", where).items():
        table(fields, f"extras.criteria of {title!r:.60}", where)
    for title, met in table(extras.get("pitfalls"), "extras.pitfalls", where).items():
        if met not in ("good", "unknown"):
            raise UserError(f"{where}: extras.pitfalls of {title!r:.60} is {met!r:.40}; write good or unknown")
    return extras


def write_own(entry: RubricEntry, number: int, note: Note) -> dict[str, object]:
    return {
        "sample_id": entry.sample_id,
        "prompt": entry.prompt,
        "reference": entry.reference,
        "rubric": entry.rubric.model_dump_json(),
        "extras": json.dumps(entry.extras, ensure_ascii=False, default=str) if entry.extras else "",
    }


def read_healthbench(row: Row, where: str, number: int, note: Note) -> RubricEntry:
    ideal = row.get("ideal_completions_data")
    answer = ideal.get("ideal_completion") if isinstance(ideal, Mapping) else None
    aside = {name: value for name, value in row.items() if name not in ("prompt_id", "rubrics")}
    return make_entry(
        "healthbench",
        where,
        sample_name(row, "prompt_id", where),
        point_criteria(row.get("rubrics"), where),
        prompt=conversation_text(messages_of(row, where)),
        reference=text_of(answer, "ideal_completion", where),
        row=aside,
    )


def write_healthbench(entry: RubricEntry, number: int, note: Note) -> dict[str, object]:
    aside = entry.row_extras("healthbench")
    prompt = aside.pop("prompt", None)
    if prompt is None or conversation_text(prompt) != entry.prompt:
        prompt = [{"role": "user", "content": entry.prompt}]
    rubrics = [
        {**_pointed(criterion), "tags": [], **entry.criterion_extras("healthbench", criterion)}
        for criterion in signed_criteria(entry, "healthbench", note)
    ]
    ideal = {"ideal_completion": entry.reference} if entry.reference else None
    defaults: dict[str, object] = {"example_tags": [], "ideal_completions_data": ideal}
    return {**defaults, **aside, "prompt": prompt, "prompt_id": entry.sample_id, "rubrics": rubrics}


def read_researchrubrics(row: Row, where: str, number: int, note: Note) -> RubricEntry:
    return make_entry(
        "researchrubrics",
        where,
        sample_name(row, "sample_id", where),
        point_criteria(row.get("rubrics"), where, "weight"),
        prompt=conversation_text(messages_of(row, where)),
        row={name: value for name, value in row.items() if name not in ("sample_id", "prompt", "rubrics")},
    )


def write_researchrubrics(entry: RubricEntry, number: int, note: Note) -> dict[str, object]:
    rubrics = [
        {
            "criterion": statement(criterion),
            "weight": criterion.weight,
            "axis": "",
            **entry.criterion_extras("researchrubrics", criterion),
        }
        for criterion in signed_criteria(entry, "researchrubrics", note)
    ]
    return {
        "prompt": entry.prompt,
        "sample_id": entry.sample_id,
        **entry.row_extras("researchrubrics"),
        "rubrics": rubrics,
    }


def read_rar(row: Row, where: str, number: int, note: Note) -> RubricEntry:
    criteria = []
    for place, item in placed_criteria(row.get("rubric"), where):
        text, rule = split_negation(text_of(required(item, "description", place), "description", place))
        fields = {
            "criterion": text_of(item.get("title"), "title", place) or text,
            "description": text,
            "evaluation_rule": rule,
            "weight": weight_of(item, "weight", place),
            "essential": _is_essential(text),
        }
        criteria.append((fields, {name: item[name] for name in item if name not in ("title", "description", "weight")}))
    known = ("question", "reference_answer", "rubric", "id")
    return make_entry(
        "rar",
        where,
        name_of(row, "id", number, where),
        criteria,
        prompt=text_of(required(row, "question", where), "question", where),
        reference=text_of(row.get("reference_answer"), "reference_answer", where),
        row={name: value for name, value in row.items() if name not in known},
    )


def write_rar(entry: RubricEntry, number: int, note: Note) -> dict[str, object]:
    aside = entry.row_extras("rar")
    named = {} if entry.sample_id == row_name(number) else {"id": entry.sample_id}
    rubric = [
        {
            "description": _with_importance(criterion),
            "title": criterion.criterion,
            "weight": plain_number(criterion.weight),
            **entry.criterion_extras("rar", criterion),
        }
        for criterion in signed_criteria(entry, "rar", note)
    ]
    counted = {"rubric_count": len(rubric)}
    return {
        **named,
        "question": entry.prompt,
        "reference_answer": entry.reference,
        **aside,
        "rubric": rubric,
        **counted,
    }


def read_rubrichub(row: Row, where: str, number: int, note: Note) -> RubricEntry:
    for_verl = row.get("reward_model")
    if isinstance(for_verl, Mapping):
        return _read_for_verl(row, for_verl, where, number, note)
    return make_entry(
        "rubrichub",
        where,
        name_of(row, "id", number, where),
        _ruled(row.get("rubrics"), where, note),
        prompt=text_of(required(row, "question", where), "question", where),
        row={name: value for name, value in row.items() if name not in ("question", "id", "rubrics")},
    )


def _read_for_verl(row: Row, for_verl: Row, where: str, number: int, note: Note) -> RubricEntry:
    aside = dict(row) | {"reward_model": {name: value for name, value in for_verl.items() if name != "rubrics"}}
    info = row.get("extra_info")
    if isinstance(info, Mapping):
        # Its copies of prompt and rubric are written from the rubric again.
        aside["extra_info"] = {name: None if name in _COPIES else value for name, value in info.items()}
    return make_entry(
        "rubrichub",
        where,
        name_of(info if isinstance(info, Mapping) else {}, "index", number, where),
        _ruled(for_verl.get("rubrics"), where, note),
        prompt=conversation_text(messages_of(row, where)),
        row=aside,
    )


def write_rubrichub(entry: RubricEntry, number: int, note: Note) -> dict[str, object]:
    aside = entry.row_extras("rubrichub")
    rubrics = [
        {**_pointed(criterion), **entry.criterion_extras("rubrichub", criterion)}
        for criterion in signed_criteria(entry, "rubrichub", note)
    ]
    if not isinstance(for_verl := aside.get("reward_model"), Mapping):
        name = "" if entry.sample_id == row_name(number) else entry.sample_id
        return {"question": entry.prompt, "id": name, **aside, "rubrics": rubrics}
    if conversation_text(aside.get("prompt")) != entry.prompt:
        aside["prompt"] = [{"role": "user", "content": entry.prompt}]
    aside["reward_model"] = {"rubrics": rubrics, **for_verl}
    if isinstance(info := aside.get("extra_info"), Mapping):
        aside["extra_info"] = {name: aside.get(name) if name in _COPIES else value for name, value in info.items()}
    return aside


def _ruled(rubrics: Any, where: str, note: Note) -> list[tuple[dict[str, object], dict[str, object]]]:
    criteria = point_criteria(rubrics, where)
    if any(isinstance(aside.get("tags"), Mapping) and aside["tags"].get("verifier") == "rule" for _, aside in criteria):
        note("criteria of a rule (tags.verifier) are judged by their words here; the rule's function is not run")
    return criteria


def conversation_text(messages: Any) -> str:
    """Text of a conversation: a single message's own, else `role: content` by turns, as HealthBench's grader reads."""
    if isinstance(messages, str):
        return messages
    turns = [turn for turn in messages if isinstance(turn, Mapping)] if isinstance(messages, list | tuple) else []
    if len(turns) == 1:
        return _content(turns[0])
    return "\n\n".join(f"{turn.get('role')}: {_content(turn)}" for turn in turns)


def _content(turn: Row) -> str:
    """Text of a message, whose content may be a list of parts; a part without text is named by its type."""
    content = turn.get("content")
    if not isinstance(content, list | tuple):
        return "" if content is None else str(content)
    parts = [part if isinstance(part, Mapping) else {"text": part} for part in content]
    texts = (part["text"] if part.get("text") is not None else f"[{part.get('type')}]" for part in parts)
    return "\n".join(map(str, texts))


def messages_of(row: Row, where: str) -> Any:
    """Prompt of a row.

    Raises:
        UserError: it is neither a text nor a list of messages.
    """
    prompt = required(row, "prompt", where)
    is_list = isinstance(prompt, list | tuple) and all(isinstance(turn, Mapping) for turn in prompt)
    if not is_list and not isinstance(prompt, str):
        raise UserError(f"{where}: prompt is {prompt!r:.60}; it is a text or a list of messages")
    return prompt


def placed_criteria(criteria: Any, where: str) -> Iterator[tuple[str, Row]]:
    """Criteria, each with its place for messages."""
    for number, item in enumerate(criteria_list(criteria, where), start=1):
        yield f"{where}: criterion {number}", item


def point_criteria(
    criteria: Any, where: str, field: str = "points", text_field: str = "criterion"
) -> list[tuple[dict[str, object], dict[str, Any]]]:
    """Fields of criteria that have one text and a number, and what else each has.

    Args:
        field, text_field: names of the number and of the text.
    """
    read = []
    for place, item in placed_criteria(criteria, where):
        text, rule = split_negation(text_of(required(item, text_field, place), text_field, place))
        fields = {
            "criterion": text,
            "evaluation_rule": rule,
            "weight": weight_of(item, field, place),
            "essential": False,
        }
        aside = {name: value for name, value in item.items() if name not in (text_field, field) and value is not None}
        read.append((fields, aside))
    return read


def _pointed(criterion: Criterion) -> dict[str, object]:
    return {"criterion": statement(criterion), "points": plain_number(criterion.weight)}


def weight_of(item: Row, name: str, where: str) -> float:
    """Number of a criterion's field.

    Raises:
        UserError: it is missing, or no number.
    """
    value = required(item, name, where)
    if isinstance(value, bool | str) or not isinstance(value, int | float):
        raise UserError(f"{where}: {name} is {value!r:.40}, not a number")
    try:
        return float(value)
    except OverflowError:
        raise UserError(f"{where}: {name} is too large a number") from None


def plain_number(weight: float) -> float | int:
    """A weight as files write it: whole where it is."""
    return int(weight) if weight.is_integer() else weight


def name_of(row: Row, field: str, number: int, where: str) -> str:
    """Name of a row's sample from `field`; `row-NUMBER` if the row has none."""
    return text_of(row.get(field), field, where) or row_name(number)


def row_name(number: int) -> str:
    """Name of a sample that has none in its source, by its place in the set."""
    return f"row-{number}"


def _with_importance(criterion: Criterion) -> str:
    text = description(criterion)
    is_marked = not criterion.essential or criterion.weight < 0 or _is_essential(text)
    return text if is_marked else f"Essential Criteria: {text}"


def _is_essential(text: str) -> bool:
    return text.lower().startswith("essential")
