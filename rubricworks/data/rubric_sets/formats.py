"""Table of the formats of rubric sets, and how one is told by a file's ending and its first row."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rubricworks.data.rubric_sets.benchmark_formats import (
    fact_problem,
    read_deepresearchbench,
    read_frontierscience,
    read_healthbench_professional,
    read_prbench,
    read_profbench,
    write_deepresearchbench,
    write_frontierscience,
    write_healthbench_professional,
    write_prbench,
    write_profbench,
)
from rubricworks.data.rubric_sets.document_formats import (
    autorubric_criteria,
    autorubric_rows,
    read_autorubric,
    read_paperbench,
    write_autorubric,
    write_paperbench,
)
from rubricworks.data.rubric_sets.entries import Note, RubricEntry
from rubricworks.data.rubric_sets.row_formats import (
    read_healthbench,
    read_own,
    read_rar,
    read_researchrubrics,
    read_rubrichub,
    write_healthbench,
    write_own,
    write_rar,
    write_researchrubrics,
    write_rubrichub,
)


class RowFormat(NamedTuple):
    """A format with one sample a row."""

    read: Callable[[Mapping[str, object], str, int, Note], RubricEntry]
    write: Callable[[RubricEntry, int, Note], dict[str, object]]


ROW_FORMATS = {
    "rubricworks": RowFormat(read_own, write_own),
    "healthbench": RowFormat(read_healthbench, write_healthbench),
    "researchrubrics": RowFormat(read_researchrubrics, write_researchrubrics),
    "rar": RowFormat(read_rar, write_rar),
    "rubrichub": RowFormat(read_rubrichub, write_rubrichub),
    "healthbench_professional": RowFormat(read_healthbench_professional, write_healthbench_professional),
    "prbench": RowFormat(read_prbench, write_prbench),
    "profbench": RowFormat(read_profbench, write_profbench),
    "frontierscience": RowFormat(read_frontierscience, write_frontierscience),
    "deepresearchbench": RowFormat(read_deepresearchbench, write_deepresearchbench),
    "paperbench": RowFormat(read_paperbench, write_paperbench),
    "autorubric": RowFormat(read_autorubric, write_autorubric),
}
FORMATS = (*ROW_FORMATS, "csv", "rewardkit", "verifiers")
OF_SUFFIX = {
    ".parquet": tuple(ROW_FORMATS),
    ".jsonl": tuple(ROW_FORMATS),
    ".toml": ("rewardkit", "verifiers", "rubricworks", "healthbench"),
    ".csv": ("csv",),
    ".json": (*ROW_FORMATS, "rewardkit", "verifiers"),
}
"""Formats that are read from files of an ending; of a folder, files of the first ending that it has are read."""
_BY_FIELDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("healthbench_professional", ("conversation", "rubric_items")),
    ("deepresearchbench", ("criterions", "dimension_weight")),
    ("paperbench", ("requirements", "sub_tasks")),
    ("rubricworks", ("sample_id", "rubric")),
    ("healthbench", ("prompt_id", "rubrics")),
    ("researchrubrics", ("sample_id", "rubrics")),
    ("rar", ("question", "rubric")),
    ("rubrichub", ("question", "rubrics")),
    ("prbench", ("prompt_0", "rubric")),
    ("profbench", ("task_id", "rubrics")),
    ("frontierscience", ("problem", "answer")),
)
"""Formats by fields that no other one has together, tried in this order."""


def row_format(row: Any) -> str | None:
    """Format of a row by its fields; None if it is no row of a known one."""
    if not isinstance(row, Mapping):
        return None
    for name, fields in _BY_FIELDS:
        if all(field in row for field in fields):
            return name
    if isinstance(row.get("reward_model"), Mapping) and "rubrics" in row["reward_model"]:
        return "rubrichub"
    return "autorubric" if autorubric_criteria(row) else None


def rows_of_document(document: Any, name: str) -> list[Any]:
    """Rows of a JSON document: its list, or itself; of autorubric's, one a sample.

    Args:
        name: of a document that has none.
    """
    return autorubric_rows(document, name) or (document if isinstance(document, list) else [document])


def why_no_rubric(row: Mapping[str, object]) -> str:
    """Reason why a row of a known project has no rubric; empty if it is of no known one."""
    return fact_problem(row)
