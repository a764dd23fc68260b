"""Human labels: a CSV with one row per person and item.

Columns: sample_id, criterion, label; `response` (the text that was judged) if a sample has several; `rater` if several
people labelled. A label is a number from 0 to 1, or yes/no, pass/fail, true/false; an empty label is skipped.
"""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rubricworks.data.spreadsheet_cells import unguard_cell
from rubricworks.errors import UserError
from rubricworks.grading.agreement.ratings import Item, Ratings, normalise_text
from rubricworks.storage import local_path

_REQUIRED_COLUMNS = ("sample_id", "criterion", "label")
_CREDIT_BY_WORD = {"yes": 1.0, "pass": 1.0, "true": 1.0, "no": 0.0, "fail": 0.0, "false": 0.0}


@dataclass(frozen=True)
class Label:
    """One row with a label."""

    line: int
    rater: str
    sample_id: str
    response: str | None
    """None if the file does not give it; the sample then has a single response."""
    criterion: str
    credit: float


@dataclass(frozen=True)
class Labels:
    """Labels of a file."""

    source: str
    rows: tuple[Label, ...]
    empty: int
    """Number of rows with an empty label."""


def read_labels(uri: str) -> Labels:
    """Read the labels of a CSV file: UTF-8, with or without byte order mark, CRLF or quoted cells.

    Raises:
        UserError: a column or a cell is missing, a label is not a credit, or there is no label.
    """
    path = local_path(uri)
    rows: list[Label] = []
    empty = 0
    for line, cells in _lines(uri, path):
        for column in ("sample_id", "criterion", *({"rater"} & cells.keys())):
            if not cells[column]:
                raise UserError(f"{uri}: line {line}: {column} is empty")
        if not cells["label"]:
            empty += 1
            continue
        credit = _credit(cells["label"])
        if credit is None:
            raise UserError(
                f"{uri}: line {line}: label {cells['label']!r} is no credit; write a number from 0 to 1, yes or no, "
                "pass or fail, true or false"
            )
        response = cells.get("response") or None
        rows.append(Label(line, cells.get("rater", ""), cells["sample_id"], response, cells["criterion"], credit))
    if not rows:
        problem = f"all of its {empty} labels are empty" if empty else "it has no row"
        raise UserError(f"{uri}: {problem}; write one row per label, with the columns {', '.join(_REQUIRED_COLUMNS)}")
    return Labels(uri, tuple(rows), empty)


def human_ratings(labels: Labels, judges: Iterable[Ratings]) -> list[Ratings]:
    """Group labels by person. A label without a response refers to the judges' only response of its sample.

    Raises:
        UserError: a sample has several responses and its label names none, or a person labels an item twice.
    """
    responses: dict[str, set[str]] = {}
    for judge in judges:
        for item in judge:
            responses.setdefault(item.sample_id, set()).add(item.response)
    raters: dict[str, Ratings] = {}
    lines: dict[tuple[str, Item], int] = {}
    for label in labels.rows:
        item = Item(label.sample_id, _response_of(label, responses, labels.source), label.criterion)
        first = lines.setdefault((label.rater, item), label.line)
        if first != label.line:
            subject = f"{label.rater!r} labels" if label.rater else "there is a second label for"
            hint = "" if label.rater else "; where several people label, a column rater says who"
            raise UserError(
                f"{labels.source}: line {label.line}: {subject} {label.criterion!r} of sample {label.sample_id!r}, "
                f"as on line {first} already{hint}"
            )
        rater = raters.setdefault(label.rater, Ratings(label.rater or "people", labels.source))
        rater.credits[item] = label.credit
    return list(raters.values())


def majority(raters: list[Ratings]) -> Ratings:
    """Majority label of each item; an item whose two most frequent labels tie has none."""
    counts_by_item: dict[Item, Counter[float]] = {}
    for rater in raters:
        for item, credit in rater.credits.items():
            counts_by_item.setdefault(item, Counter())[credit] += 1
    ratings = Ratings("people", raters[0].source)
    for item, counts in counts_by_item.items():
        (credit, top), *others = counts.most_common(2)
        if others and others[0][1] == top:
            ratings.unrated[item] = "tied"
        else:
            ratings.credits[item] = credit
    return ratings


def _lines(uri: str, path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Line number and cells by column of each non-blank row."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = [name.strip().lower() for name in next(reader, [])]
            if missing := [name for name in _REQUIRED_COLUMNS if name not in header]:
                header_text = f"it has {', '.join(map(repr, header))}" if any(header) else "it is empty"
                raise UserError(
                    f"{uri}: no column {missing[0]!r}: {header_text}; it needs {', '.join(_REQUIRED_COLUMNS)}"
                )
            if repeated := [name for name in header if name and header.count(name) > 1]:
                raise UserError(f"{uri}: two columns {repeated[0]!r}; keep one")
            for cells in reader:
                if not any(cell.strip() for cell in cells):
                    continue
                while len(cells) > len(header) and not cells[-1].strip():
                    cells.pop()
                if len(cells) != len(header):
                    raise UserError(
                        f"{uri}: line {reader.line_num}: {len(cells)} cells under {len(header)} columns; "
                        "quote a text that holds commas"
                    )
                yield (
                    reader.line_num,
                    dict(zip(header, (normalise_text(unguard_cell(cell)) for cell in cells), strict=True)),
                )
    except UnicodeDecodeError as error:
        raise UserError(f"{uri}: not UTF-8 at byte {error.start}; save it as CSV UTF-8") from error
    except csv.Error as error:
        raise UserError(f"{uri}: line {reader.line_num}: not CSV: {error}") from error


def _credit(text: str) -> float | None:
    if text.lower() in _CREDIT_BY_WORD:
        return _CREDIT_BY_WORD[text.lower()]
    try:
        credit = float(text)
    except ValueError:
        return None
    return credit if 0 <= credit <= 1 else None


def _response_of(label: Label, responses: dict[str, set[str]], source: str) -> str:
    if label.response is not None:
        return label.response
    texts = responses.get(label.sample_id, set())
    if len(texts) > 1:
        raise UserError(
            f"{source}: line {label.line}: sample {label.sample_id!r} has {len(texts)} responses in the scorecards; "
            "say which in a column response (its whole text)"
        )
    return next(iter(texts), "")
