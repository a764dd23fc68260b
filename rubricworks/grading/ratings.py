"""What judges said, read back from tables of scorecards, item by item.

A table is a folder that a stage wrote (`scorecards`, `evaluations`) or a Parquet file of `rubricworks grade`. Only its
column `scorecard` is read.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from rubricworks.data.rows import iter_rows
from rubricworks.errors import UserError
from rubricworks.rubrics import Scorecard
from rubricworks.storage import local_path


class Item(NamedTuple):
    """What is rated: one criterion on one response. Texts are trimmed, and their lines end in a line feed."""

    sample_id: str
    response: str
    criterion: str


@dataclass
class Ratings:
    """What one rater said. An item has a credit or a reason why it has none, never both."""

    name: str
    source: str
    """The file or folder that it was read from."""
    credits: dict[Item, float] = field(default_factory=dict)
    left_out: dict[Item, str] = field(default_factory=dict)
    """Items without a number: the error's class of a judge that failed, "tied" where people are evenly divided."""
    repeated: int = 0
    """Verdicts on an item that has its credit already; the first counts."""

    def __contains__(self, item: Item) -> bool:
        return item in self.credits or item in self.left_out

    def __iter__(self) -> Iterator[Item]:
        return itertools.chain(self.credits, self.left_out)

    def __len__(self) -> int:
        return len(self.credits) + len(self.left_out)


def plain(text: str) -> str:
    """A text as items are matched by: a spreadsheet may have changed its line ends and the space around it."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def read_judges(places: Iterable[str]) -> list[Ratings]:
    """Every judge of every table; a judge that stands in several tables is one judge in each, named with its table.

    Raises:
        UserError: a table is missing, damaged, has no scorecards, or is given twice.
    """
    judges: list[Ratings] = []
    seen: dict[Path, str] = {}
    for place in places:
        path = local_path(place)
        if (same := seen.setdefault(path.resolve(), place)) is not place:
            raise UserError(f"{place} is the same table as {same}; a judge agrees with itself: give each table once")
        judges += _judges_of(place)
    _tell_apart(judges)
    return judges


def _judges_of(place: str) -> list[Ratings]:
    judges: dict[str, Ratings] = {}
    for number, row in enumerate(iter_rows(place, ["scorecard"])):
        if (text := row["scorecard"]) is None:
            continue
        card = _scorecard(text, f"{place}: row {number}")
        judge = judges.setdefault(card.judge, Ratings(card.judge, place))
        for verdict in card.verdicts:
            item = Item(plain(card.sample_id), plain(card.response), plain(verdict.criterion))
            if item in judge.credits:
                judge.repeated += 1
            elif verdict.credit is not None:
                judge.credits[item] = verdict.credit
                judge.left_out.pop(item, None)
            elif verdict.error is not None:
                judge.left_out[item] = verdict.error.value
    if not judges:
        raise UserError(f"{place}: no row has a scorecard; give a table that `rubricworks grade` or a run has written")
    return list(judges.values())


def _scorecard(text: Any, where: str) -> Scorecard:
    if not isinstance(text, str | bytes):
        raise UserError(f"{where}: scorecard is {type(text).__name__}, not JSON text")
    try:
        return Scorecard.model_validate_json(text, extra="ignore")
    except ValidationError as error:
        first = error.errors()[0]
        field_name = ".".join(map(str, first["loc"]))
        raise UserError(f"{where}: scorecard{'.' * bool(field_name)}{field_name}: {first['msg']}") from error


def _tell_apart(judges: list[Ratings]) -> None:
    """Judges of one name get their file's name too, or its whole path where that is the same as well."""
    files = [local_path(judge.source).name for judge in judges]
    names = [judge.name for judge in judges]
    both = list(zip(names, files, strict=True))
    for judge, name, file in zip(judges, names, files, strict=True):
        if names.count(name) > 1:
            judge.name = f"{name} ({file if both.count((name, file)) == 1 else judge.source})"
