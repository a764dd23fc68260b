"""Entries of a rubric set, and what the formats share: criteria from foreign fields, and their text.

A criterion of ours has a title that is unique within its rubric, a description and a rule. Other formats have one text
(HealthBench, RubricHub), or a name and a text. A text becomes the title; where it is too long or repeated, the title is
shortened or numbered and the text stands whole in the description.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pydantic import ValidationError

from rubricworks.data.rubric_sets.polarity import Polarity, phrased
from rubricworks.data.tables import Sample
from rubricworks.errors import UserError
from rubricworks.rubrics import Criterion, Rubric

NEGATED = "Passes if the statement does not hold of the response."
"""Rule of a criterion that another format marks as negated: its weight is earned where the statement is false."""
_MAX_TITLE = 2_000
_SIGN_IS_OPEN = ("rar",)
"""Formats whose pitfalls are both faults and what a response must not do."""
_SIGN_IS_THE_AUTHORS = ("csv", "rewardkit", "verifiers")
"""Formats in which people write our own signs, or say by a field of its own what is negated."""
_NUMBERED = re.compile(r"(?:…|(?:…)? \(\d+\))$")

Note = Callable[[str], object]
"""Takes a message about something that a format cannot hold."""


@dataclass(frozen=True, slots=True)
class RubricEntry:
    """The rubric of one sample."""

    sample_id: str
    rubric: Rubric
    prompt: str = ""
    reference: str = ""
    """Reference answer."""
    extras: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the source without a place here: `format`, `row` and, by title, `criteria`. An export to the same
    format writes them back. And, by title, `pitfalls`: `good` for a negative weight that earns here, `unknown` for one
    of which the phrasing does not tell.
    """

    @property
    def pitfalls(self) -> "list[Pitfall]":
        """Criteria that take away, and those that did in their source."""
        marks = self.extras.get("pitfalls") or {}
        return [
            Pitfall(criterion, marks.get(criterion.criterion, "bad"))
            for criterion in self.rubric.criteria
            if criterion.weight < 0 or criterion.criterion in marks
        ]

    def with_polarity(self, met: Mapping[str, Polarity], where: str = "") -> "RubricEntry":
        """The entry with other polarities of its pitfalls, by title: one that is good to meet earns its weight.

        Raises:
            UserError: without them nothing could be earned; the message starts with `where`.
        """
        marks = {
            pitfall.criterion.criterion: met.get(pitfall.criterion.criterion, pitfall.met) for pitfall in self.pitfalls
        }
        criteria = [
            criterion.model_copy(
                update={
                    "weight": abs(criterion.weight) if marks[criterion.criterion] == "good" else -abs(criterion.weight)
                }
            )
            if criterion.criterion in marks
            else criterion
            for criterion in self.rubric.criteria
        ]
        pitfalls = {title: mark for title, mark in marks.items() if mark != "bad"}
        extras = {name: value for name, value in self.extras.items() if name != "pitfalls"}
        rubric = parse_rubric({"criteria": criteria}, where or f"sample {self.sample_id!r}")
        return replace(self, rubric=rubric, extras=extras | ({"pitfalls": pitfalls} if pitfalls else {}))

    def to_sample(self) -> Sample:
        """Sample with what a judge of answers is shown: the prompt and the reference answer."""
        return Sample(sample_id=self.sample_id, prompt=self.prompt, answer=self.reference or None)

    def row_extras(self, format_name: str) -> dict[str, object]:
        """Fields of the row that an export to `format_name` writes back."""
        return dict(self.extras.get("row") or {}) if self.extras.get("format") == format_name else {}

    def criterion_extras(self, format_name: str, criterion: Criterion) -> dict[str, object]:
        """Fields of a criterion that an export to `format_name` writes back."""
        criteria = self.extras.get("criteria") or {}
        return dict(criteria.get(criterion.criterion) or {}) if self.extras.get("format") == format_name else {}


class Pitfall(NamedTuple):
    """A criterion with a negative weight in its source."""

    criterion: Criterion
    met: Polarity


def make_entry(
    format_name: str,
    where: str,
    sample_id: Any,
    criteria: Sequence[tuple[Mapping[str, object], Mapping[str, object]]],
    *,
    prompt: str = "",
    reference: str = "",
    row: Mapping[str, object] | None = None,
) -> RubricEntry:
    """Build an entry from fields of `Criterion` and, of each, the fields to keep aside.

    A negative weight whose criterion says what a response must not do becomes positive (see `polarity`).

    Raises:
        UserError: a criterion or the rubric is invalid; the message starts with `where`.
    """
    titles = _unique_titles([str(fields.get("criterion", "")) for fields, _ in criteria])
    built: list[Criterion] = []
    marks: dict[str, Polarity] = {}
    for number, (title, (fields, _)) in enumerate(zip(titles, criteria, strict=True), start=1):
        text = str(fields.get("criterion", "")).strip()
        described = {"description": text} if title != text and not fields.get("description") else {}
        try:
            criterion = Criterion(**{**fields, **described, "criterion": title})
        except ValidationError as error:
            raise UserError(f"{where}: criterion {number}: {_first_problem(error)}") from None
        if (met := _polarity(format_name, criterion)) != "bad":
            marks[title] = met
            if met == "good":
                criterion = criterion.model_copy(update={"weight": -criterion.weight})
        built.append(criterion)
    rubric = parse_rubric({"criteria": built}, where)
    asides = {title: dict(aside) for title, (_, aside) in zip(titles, criteria, strict=True) if aside}
    extras: dict[str, object] = {"format": format_name}
    if row:
        extras["row"] = dict(row)
    if asides:
        extras["criteria"] = asides
    if marks:
        extras["pitfalls"] = marks
    return RubricEntry(str(sample_id), rubric, prompt, reference, extras if len(extras) > 1 else {})


def _polarity(format_name: str, criterion: Criterion) -> Polarity:
    """Polarity of a criterion as its format gives it; `bad` for what is no pitfall."""
    if criterion.weight > 0 or criterion.evaluation_rule == NEGATED or format_name in _SIGN_IS_THE_AUTHORS:
        return "bad"
    return phrased(criterion.description or criterion.criterion, defined=format_name not in _SIGN_IS_OPEN)


def parse_rubric(value: Any, where: str) -> Rubric:
    """Validate a rubric.

    Raises:
        UserError: it is no rubric; the message starts with `where`.
    """
    try:
        return Rubric.model_validate(value)
    except ValidationError as error:
        raise UserError(f"{where}: {_first_problem(error)}") from None


def without_negation(criterion: Criterion) -> Criterion:
    """Criterion for a format that marks negation beside the text, or by a sign: its words without the rule."""
    return criterion.model_copy(update={"evaluation_rule": ""}) if criterion.evaluation_rule == NEGATED else criterion


def signed_criteria(entry: RubricEntry, format_name: str, note: Note) -> list[Criterion]:
    """Criteria for formats without negation: a negated one with the opposite weight, so that its statement takes away.

    Where no positive weight would be left, negated criteria keep theirs, and say in words that they are negated. A
    pitfall that this format gave a negative weight gets it back.
    """
    criteria = list(entry.rubric.criteria)
    signed = [
        without_negation(criterion).model_copy(update={"weight": -criterion.weight})
        if criterion.evaluation_rule == NEGATED
        else criterion
        for criterion in criteria
    ]
    if signed != criteria and all(criterion.weight < 0 for criterion in signed):
        note("negated criteria are alone, so that none could earn without them: their text says that they are negated")
        signed = criteria
    elif signed != criteria:
        note("a negated criterion is written to take its weight away where it is met: the same order, other values")
    marks = entry.extras.get("pitfalls") or {} if entry.extras.get("format") == format_name else {}
    return [
        criterion.model_copy(update={"weight": -abs(criterion.weight)})
        if marks.get(criterion.criterion) == "good"
        else criterion
        for criterion in signed
    ]


def earning_criteria(entry: RubricEntry, format_name: str, note: Note) -> list[Criterion]:
    """Criteria for formats without negative weights: a pitfall earns by not being met, and says so in words."""
    if entry.rubric.has_pitfalls:
        note(f"{format_name} knows no negative weight: a pitfall is written to earn by not being met")
    criteria = []
    for criterion in entry.rubric.criteria:
        if criterion.weight < 0:
            rule = criterion.evaluation_rule
            turned = "" if rule == NEGATED else "\n".join(filter(None, (rule, NEGATED)))
            criterion = criterion.model_copy(update={"weight": -criterion.weight, "evaluation_rule": turned})
        criteria.append(criterion)
    return criteria


def split_negation(text: str) -> tuple[str, str]:
    """Text of a criterion without its rule `NEGATED`, and that rule if the text ends in it, as ours does."""
    stem = "" if text == NEGATED else text.removesuffix(f"\n{NEGATED}")
    return stem, "" if stem == text else NEGATED


def statement(criterion: Criterion) -> str:
    """Criterion as one text, for formats without titles."""
    stem = _NUMBERED.sub("", criterion.criterion)
    if criterion.description.startswith(stem):
        return "\n".join(filter(None, (criterion.description, criterion.evaluation_rule)))
    return "\n".join(filter(None, (criterion.criterion, criterion.description, criterion.evaluation_rule)))


def description(criterion: Criterion) -> str:
    """Text of a criterion beside its title, for formats that hold both; the title if there is no other."""
    return "\n".join(filter(None, (criterion.description or criterion.criterion, criterion.evaluation_rule)))


def required(row: Mapping[str, object], name: str, where: str) -> Any:
    """Value of a field that the row must have.

    Raises:
        UserError: the row has no such field.
    """
    if row.get(name) is None:
        raise UserError(f"{where}: no {name!r}, only {', '.join(map(str, row)) or 'nothing'}")
    return row[name]


def text_of(value: Any, name: str, where: str) -> str:
    """Text of a field, which may be a number or a date; empty if it is not there.

    Raises:
        UserError: it is something else, whose Python form would otherwise be shown to a judge.
    """
    if value is None or value != value:  # NaN, which pandas writes where a text is missing
        return ""
    if isinstance(value, bool | bytes | list | tuple | Mapping):
        raise UserError(f"{where}: {name} is {value!r:.60}, not a text")
    return str(value)


def sample_name(row: Mapping[str, object], field: str, where: str) -> str:
    """Name of a row's sample.

    Raises:
        UserError: the row has none, or it is no text.
    """
    name = text_of(required(row, field, where), field, where)
    if not name:
        raise UserError(f"{where}: its {field} is empty; each sample has a name")
    return name


def table(value: Any, name: str, where: str) -> dict[str, Any]:
    """Table or object of a document; empty if it is not there.

    Raises:
        UserError: it is something else.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise UserError(f"{where}: {name} is {value!r:.60}; it is a table of fields")
    return dict(value)


def rubric_of_column(value: Any) -> Any:
    """Fields of a rubric, or of a list of criteria, as a column of a table holds one, without what Arrow adds."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, Mapping) and "criteria" in value:
        return {name: cell for name, cell in value.items() if cell is not None} | {
            "criteria": criteria_of_column(value["criteria"])
        }
    criteria = criteria_of_column(value)
    return dict(value) if criteria is value and isinstance(value, Mapping) else {"criteria": criteria}


def criteria_of_column(value: Any) -> Any:
    """Criteria as a column of a table holds them, without what Arrow adds; another value as it is.

    A column of structs has null where a criterion has no such field, and where a shorter list is filled up; `datasets`
    makes one struct of lists of a `Sequence` of structs.
    """
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, Mapping):
        lists = {
            name: cell.tolist() if hasattr(cell, "tolist") else cell for name, cell in value.items() if cell is not None
        }
        lengths = {len(values) if isinstance(values, list | tuple) else None for values in lists.values()}
        if len(lengths) != 1 or None in lengths:
            return value
        value = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
    if not isinstance(value, list | tuple):
        return value
    rows = [row for row in value if row is not None]
    return [_without_nulls(row) if isinstance(row, Mapping) else row for row in rows]


def _without_nulls(row: Mapping[str, object]) -> dict[str, object]:
    return {
        name: value.tolist() if hasattr(value, "tolist") else value for name, value in row.items() if value is not None
    }


def criteria_list(value: Any, where: str) -> list[Mapping[str, object]]:
    """List of criteria, which some files hold as JSON text.

    Raises:
        UserError: it is no list of objects, or an empty one.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = None
    value = criteria_of_column(value)
    if not isinstance(value, list) or not value or not all(isinstance(item, Mapping) for item in value):
        given = "it has no criteria" if value is None else f"its criteria are {value!r:.60}"
        raise UserError(f"{where}: {given}; give a list of objects, at least one")
    return value


def _unique_titles(texts: Sequence[str]) -> list[str]:
    titles: list[str] = []
    for text in texts:
        stem = text.strip()
        if len(stem) > _MAX_TITLE:
            stem = f"{stem[:200]}…"
        title, number = stem, 1
        while title in titles:
            number += 1
            title = f"{stem[: _MAX_TITLE - 10]} ({number})"
        titles.append(title)
    return titles


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place, message = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
    return f"{place}: {message}" if place else message
