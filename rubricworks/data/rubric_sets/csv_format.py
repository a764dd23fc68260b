"""CSV: one criterion a row; for tables that people write. The rows of a sample need not stand together.

A cell that a spreadsheet would carry out as a formula is written with an apostrophe before it; reading takes it away.
"""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

from rubricworks.data.rubric_sets.entries import RubricEntry, make_entry
from rubricworks.data.spreadsheet_cells import guard_cell, unguard_cell
from rubricworks.errors import UserError

_FIELDS = ("criterion", "weight", "description", "evaluation_rule", "essential", "reference", "key")
CSV_COLUMNS = ("sample_id", "prompt", *_FIELDS)
_NEEDED = ("sample_id", "criterion", "weight")
_TRUTH = {"": True, "true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def read_csv_entries(path: Path) -> Iterator[RubricEntry]:
    """Iterate over the samples of a file, in the order of their first rows.

    Raises:
        UserError: the file is no CSV in UTF-8, a column is missing or unknown, or a criterion is invalid.
    """
    samples: dict[str, dict[int, Mapping[str, str]]] = {}
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file)
        try:
            names = list(rows.fieldnames or ())
            if missing := [name for name in _NEEDED if name not in names]:
                raise UserError(
                    f"{path}: no column {missing[0]!r}, only {', '.join(map(repr, names)) or 'an empty line'}; it "
                    f"needs {', '.join(_NEEDED)}, with commas between them"
                )
            if strange := [name for name in names if name not in CSV_COLUMNS]:
                raise UserError(f"{path}: column {strange[0]!r} is not known; it may have {', '.join(CSV_COLUMNS)}")
            if twice := [name for name in names if names.count(name) > 1]:
                raise UserError(f"{path}: column {twice[0]!r} stands twice; leave one out")
            for row in rows:
                if not any(row.values()):
                    continue  # a row that a spreadsheet left empty
                samples.setdefault(row["sample_id"], {})[rows.line_num] = row
        except (UnicodeDecodeError, csv.Error) as error:
            raise UserError(f"{path}: after line {rows.line_num}: no CSV in UTF-8 ({error}); save it as such") from None
    for sample_id, numbered in samples.items():
        yield csv_entry(numbered, f"{path}: line {min(numbered)}: sample {sample_id!r}")


def csv_entry(rows: Mapping[int, Mapping[str, str]], where: str) -> RubricEntry:
    """Entry of one sample's rows, by their line. Its prompt may stand in any of them.

    Raises:
        UserError: a criterion is invalid, or two prompts differ; the message starts with `where`.
    """
    criteria: list[tuple[dict[str, object], dict[str, object]]] = []
    prompts: dict[str, int] = {}
    for line, row in rows.items():
        if None in row:
            raise UserError(f"{where}: line {line} has more cells than there are columns; quote texts with commas")
        cells = {name: unguard_cell(text or "") for name, text in row.items()}
        if not cells["sample_id"]:
            raise UserError(f"{where}: it has no sample_id; each row names its sample")
        essential = cells.get("essential", "").strip().lower()
        if essential not in _TRUTH:
            raise UserError(f"{where}: essential is {essential!r} in line {line}; write yes or no")
        if prompt := cells.get("prompt"):
            prompts.setdefault(prompt, line)
        fields = {name: cells[name] for name in _FIELDS if cells.get(name)}
        criteria.append((fields | {"essential": _TRUTH[essential]}, {}))
    if len(prompts) > 1:
        first, second, *_ = prompts.values()
        raise UserError(f"{where}: its prompts in lines {first} and {second} differ; a sample has one")
    return make_entry("csv", where, cells["sample_id"], criteria, prompt=next(iter(prompts), ""))


def csv_rows(entry: RubricEntry) -> Iterator[dict[str, str]]:
    """Rows of one sample, in cells that no spreadsheet carries out as a formula."""
    for criterion in entry.rubric.criteria:
        cells = {
            "sample_id": entry.sample_id,
            "prompt": entry.prompt,
            **{name: str(getattr(criterion, name)) for name in _FIELDS},
            "essential": "yes" if criterion.essential else "no",
            "weight": repr(criterion.weight),
        }
        yield {name: guard_cell(cell) for name, cell in cells.items()}
