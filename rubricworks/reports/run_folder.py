"""A run's folder as values; a missing file is None or empty, never an error.

A run can end anywhere, and people open the report to see where. So only unreadable files are refused; the page says
which ones are missing.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from rubricworks.data.manifest import MANIFEST
from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.strict_yaml import parse_yaml

SOURCE = "source.json"
"""File in the folder of an audit or evaluation that names its data, and says whether the scene world made them."""
Value = TypeVar("Value", bound=BaseModel)


class Promotion(BaseModel):
    """The decision of the promote stage."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    model_name: str = ""
    version: str | None = None
    promoted: bool = False
    passed: bool = False
    reasons: tuple[str, ...] = ()


class DeadLetters(BaseModel):
    """Dead letters of one kind."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stage: str
    purpose: str
    reason: str
    count: int
    example: str
    """The message of the first one."""
    folder: str


class StageRecord(BaseModel):
    """Version, config digest and output digest of a finished stage, from its done.json."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    stage: str
    version: str
    config: str
    digest: str


def table_rows(folder: Path, columns: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """Rows of a table; none if the table is missing or unfinished."""
    if (folder / MANIFEST).is_file():
        yield from read_rows(folder, columns=columns)


def read_recipe(run: Path) -> dict[str, Any]:
    """The recipe as the user wrote it; empty for a run without one."""
    path = run / "recipe.yaml"
    if not path.is_file():
        return {}
    try:
        recipe = parse_yaml(path.read_text(encoding="utf-8")).value
    except ValueError as error:
        raise UserError(f"{path}: not YAML ({error}); mend it and run the report again") from error
    return recipe if isinstance(recipe, dict) else {}


def is_simulated(folder: Path) -> bool:
    """Return True if the scene world stood in for models and data: a run's recipe, or an audit's source, tells.

    Raises:
        UserError: one of the files is damaged.
    """
    source = folder / SOURCE
    if not source.is_file():
        return bool(read_recipe(folder).get("world"))
    try:
        return bool(json.loads(source.read_bytes())["simulated"])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{source}: not what an audit leaves there; move it away, or audit again") from error


def read_promotion(run: Path) -> Promotion | None:
    return read_value(run / "promote" / "promotion.json", Promotion)


def read_ledger(run: Path) -> list[dict[str, Any]]:
    """The ledger's lines in order; a line that a kill truncated is skipped."""
    path = run / "ledger.jsonl"
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    entries = []
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and "stage" in entry:
            entries.append(entry)
    return entries


def read_stage_records(run: Path) -> list[StageRecord]:
    """The finished stages, in order of completion."""
    done = sorted(run.glob("*/done.json"), key=lambda path: (path.stat().st_mtime_ns, path))
    return [record for path in done if (record := read_value(path, StageRecord))]


def read_dead_letters(run: Path) -> list[DeadLetters]:
    """Dead letters by stage, purpose and reason, the most frequent first."""
    counts: Counter[tuple[str, str, str, str]] = Counter()
    examples: dict[tuple[str, str, str, str], str] = {}
    # `peer_rubrics` runs two stages in folders of its own.
    patterns = ("*", "peer_rubrics/*")
    for manifest in sorted(path for stage in patterns for path in run.glob(f"{stage}/dead_letters/{MANIFEST}")):
        folder = manifest.parent
        for row in table_rows(folder, ["stage", "purpose", "reason", "message"]):
            key = (row["stage"], row["purpose"], row["reason"], str(folder.relative_to(run)))
            counts[key] += 1
            examples.setdefault(key, row["message"])
    return [
        DeadLetters(stage=key[0], purpose=key[1], reason=key[2], folder=key[3], count=count, example=examples[key])
        for key, count in counts.most_common()
    ]


def read_rejected(run: Path, stage: str = "prepare") -> list[tuple[str, int, str]]:
    """(reason, count, first source) of rejected data, the most frequent reason first."""
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for row in table_rows(run / stage / "rejected"):
        counts[row["reason"]] += 1
        first.setdefault(row["reason"], row["source"])
    return [(reason, count, first[reason]) for reason, count in counts.most_common(20)]


def read_value(path: Path, kind: type[Value]) -> Value | None:
    """A JSON file's value; None if the file is missing, empty or null.

    Raises:
        UserError: the file holds something else.
    """
    if not path.is_file():
        return None
    content = path.read_bytes()
    if content.strip() in (b"", b"null"):
        return None
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"])) or "the file"
        raise UserError(f"{path}: {where}: {problem['msg']}; run the stage {path.parent.name} again") from error
