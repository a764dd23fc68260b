"""Ratings of judges, read from tables of scorecards, by item.

A table is a folder written by a stage (`scorecards`, `scores`) or a Parquet file of `rubricworks grade`. Only the
column `scorecard` is read, or the evidence of the scorer `rubric`.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from rubricworks.data.manifest import MANIFEST, read_manifest
from rubricworks.data.rows import iter_rows
from rubricworks.errors import UserError
from rubricworks.llm.endpoint import short_digest
from rubricworks.llm.identity import IDENTITY_FILE, PinnedEntry, read_identities
from rubricworks.rubrics import Scorecard
from rubricworks.storage import local_path


class Item(NamedTuple):
    """A rated item: one criterion on one response. Texts are trimmed, and lines end in a line feed."""

    sample_id: str
    response: str
    """Text, or digest of an image."""
    criterion: str


@dataclass
class Ratings:
    """Ratings of one rater. An item has a credit, or a reason for having none, never both."""

    name: str
    source: str
    """File or folder of the ratings."""
    credits: dict[Item, float] = field(default_factory=dict)
    unrated: dict[Item, str] = field(default_factory=dict)
    """Items without a credit, with the reason: the error class of a failed judge, or "tied" for people."""
    repeated: int = 0
    """Verdicts on an item that already has a credit; the first counts."""
    judge: str = ""
    """Name of the grading model, as its scorecards have it; empty for people."""
    identities: tuple[PinnedEntry, ...] = ()
    """Identities of the judge's models, pinned in a file next to the table; empty without a file."""
    of_images: bool = False
    """True if a response is an image, which its items name by digest."""

    def __contains__(self, item: Item) -> bool:
        return item in self.credits or item in self.unrated

    def __iter__(self) -> Iterator[Item]:
        return itertools.chain(self.credits, self.unrated)

    def __len__(self) -> int:
        return len(self.credits) + len(self.unrated)


def normalise_text(text: str) -> str:
    """Normal form of a text for matching: a spreadsheet may change line ends and surrounding white space."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def read_judges(uris: Iterable[str]) -> list[Ratings]:
    """Read every judge of every table; a judge in several tables becomes one rater per table, named with the table.

    Raises:
        UserError: a table is missing, damaged, without scorecards, or given twice.
    """
    judges: list[Ratings] = []
    uri_by_path: dict[Path, str] = {}
    for uri in uris:
        path = local_path(uri)
        if (earlier := uri_by_path.setdefault(path.resolve(), uri)) is not uri:
            raise UserError(f"{uri} is the same table as {earlier}; a judge agrees with itself: give each table once")
        judges += _judges_of(uri)
    _disambiguate_names(judges)
    return judges


def _entries_of(rater: str, pinned: Mapping[str, Sequence[PinnedEntry]]) -> Sequence[PinnedEntry]:
    """Pinned entries of a judge; `genrm@DIGEST` is a model that its run served, which has an entry for each version."""
    model, _, digest = rater.rpartition("@")
    served = [entry for entry in pinned.get(model, ()) if short_digest(entry.revision) == digest]
    return served or pinned.get(rater, ())


def _judges_of(uri: str) -> list[Ratings]:
    judges: dict[str, Ratings] = {}
    pinned = _pinned_beside(local_path(uri))
    for row_number, text in _scorecard_texts(uri):
        card = _scorecard(text, f"{uri}: row {row_number}")
        judge = judges.get(card.judge)
        if judge is None:
            raters = re.split(" [+>] ", card.judge)
            identities = tuple(entry for rater in raters for entry in _entries_of(rater, pinned))
            judge = judges[card.judge] = Ratings(card.judge, uri, judge=card.judge, identities=identities)
        judge.of_images |= card.response.is_image
        for verdict in card.verdicts:
            item = Item(
                normalise_text(card.sample_id), normalise_text(card.response.key), normalise_text(verdict.criterion)
            )
            if item in judge.credits:
                judge.repeated += 1
            elif verdict.credit is not None:
                judge.credits[item] = verdict.credit
                judge.unrated.pop(item, None)
            elif verdict.error is not None:
                judge.unrated[item] = verdict.error.value
    if not judges:
        raise UserError(f"{uri}: no row has a scorecard; give a table that `rubricworks grade` or a run has written")
    return list(judges.values())


def _scorecard_texts(uri: str) -> Iterator[tuple[int, Any]]:
    """Number of a row and its scorecard; in a table of scores it is the evidence of the scorer `rubric`."""
    folder = local_path(uri)
    if (folder / MANIFEST).is_file() and read_manifest(folder).table == "scores":
        for number, row in enumerate(iter_rows(uri, ["scorer", "evidence"])):
            if row["scorer"] == "rubric" and row["evidence"] is not None:
                yield number, row["evidence"]
        return
    for number, row in enumerate(iter_rows(uri, ["scorecard"])):
        if row["scorecard"] is not None:
            yield number, row["scorecard"]


def _scorecard(text: Any, location: str) -> Scorecard:
    if not isinstance(text, str | bytes):
        raise UserError(f"{location}: scorecard is {type(text).__name__}, not JSON text")
    try:
        return Scorecard.model_validate_json(text, extra="ignore")
    except ValidationError as error:
        first = error.errors()[0]
        field_name = ".".join(map(str, first["loc"]))
        raise UserError(f"{location}: scorecard{'.' * bool(field_name)}{field_name}: {first['msg']}") from error


def _pinned_beside(table: Path) -> dict[str, list[PinnedEntry]]:
    """Entries by name of the model, from the file beside a table, or in the run whose stage has written it."""
    for folder in (table.parent, *table.parent.parents[:2]):
        if (folder / IDENTITY_FILE).is_file():
            return read_identities(folder / IDENTITY_FILE)
    return {}


def _disambiguate_names(judges: list[Ratings]) -> None:
    """Append the file name to judges of the same name, or the whole path if the file names are the same, too."""
    files = [local_path(judge.source).name for judge in judges]
    names = [judge.name for judge in judges]
    pairs = list(zip(names, files, strict=True))
    for judge, name, file in zip(judges, names, files, strict=True):
        if names.count(name) > 1:
            judge.name = f"{name} ({file if pairs.count((name, file)) == 1 else judge.source})"
