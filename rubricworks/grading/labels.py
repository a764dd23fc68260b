"""What people said: a CSV of labels, one row per person and item.

Columns: sample_id, criterion, label; `response` (the text that was judged) where a sample has several; `rater` where
several people labelled. A label is a number from 0 to 1, or yes/no, pass/fail, true/false; an empty one says nothing.
"""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rubricworks.errors import UserError
from rubricworks.grading.ratings import Item, Ratings, plain
from rubricworks.storage import local_path

_NEEDED = ("sample_id", "criterion", "label")
_WORDS = {"yes": 1.0, "pass": 1.0, "true": 1.0, "no": 0.0, "fail": 0.0, "false": 0.0}


@dataclass(frozen=True)
class Label:
    """One row that says something."""

    line: int
    rater: str
    sample_id: str
    response: str | None
    """None where the file does not say; then the sample has one response."""
    criterion: str
    credit: float


@dataclass(frozen=True)
class Labels:
    """The labels of a file."""

    source: str
    rows: tuple[Label, ...]
    empty: int
    """Rows with an empty label."""


def read_labels(place: str) -> Labels:
    """The labels of a CSV file: UTF-8, also with a byte order mark, CRLF or quoted cells.

    Raises:
        UserError: a column is missing, a label is no credit, a cell is missing, or there is no label at all.
    """
    path = local_path(place)
    rows: list[Label] = []
    empty = 0
    for line, cells in _lines(place, path):
        for column in ("sample_id", "criterion", *({"rater"} & cells.keys())):
            if not cells[column]:
                raise UserError(f"{place}: line {line}: {column} is empty")
        if not cells["label"]:
            empty += 1
            continue
        credit = _credit(cells["label"])
        if credit is None:
            raise UserError(
                f"{place}: line {line}: label {cells['label']!r} is no credit; write a number from 0 to 1, yes or no, "
                "pass or fail, true or false"
            )
        response = cells.get("response") or None
        rows.append(Label(line, cells.get("rater", ""), cells["sample_id"], response, cells["criterion"], credit))
    if not rows:
        found = f"all of its {empty} labels are empty" if empty else "it has no row"
        raise UserError(f"{place}: {found}; write one row per label, with the columns {', '.join(_NEEDED)}")
    return Labels(place, tuple(rows), empty)


def people_of(labels: Labels, judges: Iterable[Ratings]) -> list[Ratings]:
    """The labels of each person, on the judges' responses where the file names none.

    Raises:
        UserError: a sample has several responses and its label does not say which, or a person labels an item twice.
    """
    responses: dict[str, set[str]] = {}
    for judge in judges:
        for item in judge:
            responses.setdefault(item.sample_id, set()).add(item.response)
    people: dict[str, Ratings] = {}
    lines: dict[tuple[str, Item], int] = {}
    for label in labels.rows:
        item = Item(label.sample_id, _response_of(label, responses, labels.source), label.criterion)
        first = lines.setdefault((label.rater, item), label.line)
        if first != label.line:
            who = f"{label.rater!r} labels" if label.rater else "there is a second label for"
            several = "" if label.rater else "; where several people label, a column rater says who"
            raise UserError(
                f"{labels.source}: line {label.line}: {who} {label.criterion!r} of sample {label.sample_id!r}, "
                f"as on line {first} already{several}"
            )
        person = people.setdefault(label.rater, Ratings(label.rater or "people", labels.source))
        person.credits[item] = label.credit
    return list(people.values())


def majority(people: list[Ratings]) -> Ratings:
    """What most people said of each item; where two labels are equally frequent there is none."""
    said: dict[Item, Counter[float]] = {}
    for person in people:
        for item, credit in person.credits.items():
            said.setdefault(item, Counter())[credit] += 1
    ratings = Ratings("people", people[0].source)
    for item, counts in said.items():
        (credit, most), *others = counts.most_common(2)
        if others and others[0][1] == most:
            ratings.left_out[item] = "tied"
        else:
            ratings.credits[item] = credit
    return ratings


def _lines(place: str, path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Line number and cells by column, of the rows that are not blank."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = [name.strip().lower() for name in next(reader, [])]
            if missing := [name for name in _NEEDED if name not in header]:
                has = f"it has {', '.join(map(repr, header))}" if any(header) else "it is empty"
                raise UserError(f"{place}: no column {missing[0]!r}: {has}; it needs {', '.join(_NEEDED)}")
            if repeated := [name for name in header if name and header.count(name) > 1]:
                raise UserError(f"{place}: two columns {repeated[0]!r}; keep one")
            for cells in reader:
                if not any(cell.strip() for cell in cells):
                    continue
                while len(cells) > len(header) and not cells[-1].strip():
                    cells.pop()
                if len(cells) != len(header):
                    raise UserError(
                        f"{place}: line {reader.line_num}: {len(cells)} cells under {len(header)} columns; "
                        "quote a text that holds commas"
                    )
                yield reader.line_num, dict(zip(header, map(plain, cells), strict=True))
    except UnicodeDecodeError as error:
        raise UserError(f"{place}: not UTF-8 at byte {error.start}; save it as CSV UTF-8") from error
    except csv.Error as error:
        raise UserError(f"{place}: line {reader.line_num}: not CSV: {error}") from error


def _credit(text: str) -> float | None:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        credit = float(text)
    except ValueError:
        return None
    return credit if 0 <= credit <= 1 else None


def _response_of(label: Label, responses: dict[str, set[str]], source: str) -> str:
    if label.response is not None:
        return label.response
    found = responses.get(label.sample_id, set())
    if len(found) > 1:
        raise UserError(
            f"{source}: line {label.line}: sample {label.sample_id!r} has {len(found)} responses in the scorecards; "
            "say which in a column response (its whole text)"
        )
    return next(iter(found), "")
