"""Tables of a run that evaluations and exports read: its samples, rubrics and exams."""

from pathlib import Path

from rubricworks.data.manifest import MANIFEST, read_manifest
from rubricworks.errors import UserError

_STAGES = {
    "samples": ("recap", "open_questions", "prepare_questions", "prepare"),
    "rubrics": ("synthesize_rubrics", "write_checklists", "peer_rubrics"),
    "exams": ("write_exams",),
}
"""Kind of table → stages of a run that write it; the first that a run has counts."""


def is_run(place: Path) -> bool:
    """Return True if the folder is a run's."""
    return place.is_dir() and (place / "recipe.yaml").is_file()


def input_tables(place: Path) -> dict[str, str]:
    """Kind → finished table of a run. For a samples table, only that table; for any other place, nothing.

    Raises:
        UserError: the run has no finished samples.
    """
    if (place / MANIFEST).is_file() and read_manifest(place).table == "samples":
        return {"samples": str(place)}
    if not is_run(place):
        return {}
    tables = {
        kind: next((str(place / stage) for stage in stages if (place / stage / MANIFEST).is_file()), None)
        for kind, stages in _STAGES.items()
    }
    if tables["samples"] is None:
        raise UserError(f"{place}: the run has no finished samples; run it first")
    return {kind: table for kind, table in tables.items() if table}
