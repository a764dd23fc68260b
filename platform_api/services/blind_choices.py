"""Choices between two sides without their names: the order that a person sees, the standing so far, rows of a CSV."""

import csv
import hashlib
import io
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from rubricworks.data.spreadsheet_cells import guard_cell, unguard_cell
from rubricworks.metrics import Interval, mean_interval
from rubricworks.platform_api.problems import BadRequest

_WINS = {"first": 1.0, "second": 0.0}
"""What a choice counts for the first side; any other one counts one half."""


class Choice(Protocol):
    """A stored choice."""

    sample_id: str
    choice: str
    rater: str


class Standing(NamedTuple):
    """Result of two sides."""

    share: Interval | None
    """Share of the choices for the first; those for neither side count one half."""
    wins: int
    equal: int
    losses: int
    raters: int


def standing_of(choices: Sequence[Choice]) -> Standing:
    """Result of some choices, with an interval over samples."""
    wins, losses = (sum(one.choice == side for one in choices) for side in _WINS)
    values, clusters = [_WINS.get(one.choice, 0.5) for one in choices], [one.sample_id for one in choices]
    return Standing(
        mean_interval(values, clusters=clusters) if choices else None,
        wins=wins,
        equal=len(choices) - wins - losses,
        losses=losses,
        raters=len({one.rater for one in choices}),
    )


def is_swapped(*place: str) -> bool:
    """Return True if the second side stands on the left: by chance, and always the same for a place and a person."""
    return hashlib.sha256("\0".join(place).encode()).digest()[0] % 2 == 1


def turn_of(rater: str, item: str) -> bytes:
    """Place of an item in the order in which a person is shown all of them."""
    return hashlib.sha256(f"{rater}\0{item}".encode()).digest()


def choice_of(side: str, swapped: bool) -> str:
    """What a side stands for: `left` and `right` → `first` or `second`; any other choice stays."""
    if side not in ("left", "right"):
        return side
    return "first" if (side == "left") != swapped else "second"


def write_rows(columns: Sequence[str], rows: Iterable[object]) -> str:
    """Some attributes of rows as CSV."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(columns)
    for one in rows:
        writer.writerow([guard_cell(getattr(one, name)) for name in columns])
    return out.getvalue()


def read_rows(
    text: bytes, columns: Sequence[str], choices: Collection[str], *, may_be_empty: Collection[str] = ("rater",)
) -> Iterator[tuple[int, dict[str, str]]]:
    """Line and cells of each row of a CSV file with choices.

    Raises:
        BadRequest: it is no CSV, a cell is missing, or a choice is none of these.
    """
    try:
        reader = csv.DictReader(io.StringIO(text.decode("utf-8-sig"), newline=""), strict=True)
        header, rows = reader.fieldnames or (), list(reader)
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadRequest(f"the file is no CSV in UTF-8: {error}") from error
    if absent := [name for name in columns if name not in header and name != "rater"]:
        raise BadRequest(f"line 1: there is no column {absent[0]!r}; the columns are {', '.join(columns)}")
    for line, row in enumerate(rows, start=2):
        cells = {name: unguard_cell(row.get(name) or "") for name in columns}
        if missing := [name for name in columns if not cells[name] and name not in may_be_empty]:
            raise BadRequest(f"line {line}: {missing[0]} is missing; the columns are {', '.join(columns)}")
        if cells["choice"] not in choices:
            raise BadRequest(f"line {line}: choice is {cells['choice']!r}; write {', '.join(choices)}")
        yield line, cells
