"""CSV: one criterion a row, the rows of a sample together; for tables that people write."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from rubricworks.data.rubric_sets.entries import RubricEntry, make_entry
from rubricworks.errors import UserError

_FIELDS = ("criterion", "weight", "description", "evaluation_rule", "essential", "reference", "key")
CSV_COLUMNS = ("sample_id", "prompt", *_FIELDS)
_NEEDED = ("sample_id", "criterion", "weight")
_TRUTH = {"": True, "true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def read_csv_entries(path: Path) -> Iterator[RubricEntry]:
    """Iterate over the samples of a file.

    Raises:
        UserError: the file is no CSV in UTF-8, a column is missing or unknown, or a criterion is invalid.
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file)
        try:
            names = rows.fieldnames or ()
            if missing := [name for name in _NEEDED if name not in names]:
                raise UserError(f"{path}: no column {missing[0]!r}; it needs {', '.join(_NEEDED)}")
            if strange := [name for name in names if name not in CSV_COLUMNS]:
                raise UserError(f"{path}: column {strange[0]!r} is not known; it may have {', '.join(CSV_COLUMNS)}")
            for sample_id, several in groupby(rows, key=lambda row: row["sample_id"]):
                group = list(several)
                yield csv_entry(group, f"{path}: line {rows.line_num}: sample {sample_id!r}")
        except (UnicodeDecodeError, csv.Error) as error:
            raise UserError(f"{path}: after line {rows.line_num}: no CSV in UTF-8 ({error}); save it as such") from None


def csv_entry(rows: Sequence[Mapping[str, str]], where: str) -> RubricEntry:
    """Entry of one sample's rows.

    Raises:
        UserError: a criterion is invalid; the message starts with `where`.
    """
    criteria: list[tuple[dict[str, Any], dict[str, Any]]] = []
    if not rows[0]["sample_id"]:
        raise UserError(f"{where}: no sample_id; each row names its sample")
    for row in rows:
        if None in row:
            raise UserError(f"{where}: it has more cells than there are columns; quote texts with commas")
        fields = {name: row[name] for name in _FIELDS if row.get(name)}
        essential = (row.get("essential") or "").strip().lower()
        if essential not in _TRUTH:
            raise UserError(f"{where}: essential is {essential!r}; write yes or no")
        criteria.append((fields | {"essential": _TRUTH[essential]}, {}))
    return make_entry("csv", where, rows[0]["sample_id"], criteria, prompt=rows[0].get("prompt") or "")


def csv_rows(entry: RubricEntry) -> Iterator[dict[str, str]]:
    """Rows of one sample."""
    for criterion in entry.rubric.criteria:
        values = {name: getattr(criterion, name) for name in _FIELDS}
        yield {
            "sample_id": entry.sample_id,
            "prompt": entry.prompt,
            **{name: str(value) for name, value in values.items()},
            "essential": "yes" if criterion.essential else "no",
            "weight": repr(criterion.weight),
        }
