"""Manifest of a table: contents and provenance. It is written last, so a table that has one is complete."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rubricworks.errors import UserError
from rubricworks.storage import local_path

_Count = Annotated[int, Field(ge=0, lt=2**31)]
MANIFEST = ".manifest.json"
PLAN = ".plan.json"
"""Hidden names, which pandas, PyArrow, `datasets` and DuckDB skip when they read a table's folder."""


class Shard(BaseModel):
    """One Parquet file of a table."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^([\w-][\w.-]*/)?[\w-][\w.-]*$", max_length=100)]
    """A file in the manifest's own folder, or in one below it (`shards.TableFolder`)."""
    rows: _Count
    sha256: str


class Manifest(BaseModel):
    """A finished table."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    table: str
    schema_version: int
    rows: _Count
    shards: tuple[Shard, ...]
    made_by: dict[str, object]
    """Provenance: stage, config digest, manifest digests of the inputs, library version."""

    @property
    def digest(self) -> str:
        """Digest of the table's content and provenance; the `inputs` of derived tables refer to it."""
        return hashlib.sha256(canonical_json(self.model_dump(mode="json"))).hexdigest()


def canonical_json(value: object) -> bytes:
    """Encode as JSON with sorted keys and no spaces: equal values give equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def table_plan(table: str, schema_version: int, made_by: Mapping[str, object], shard_size: int) -> bytes:
    """Content of a table's plan file: shards next to a different plan belong to a different table."""
    plan = {
        "table": table,
        "schema_version": schema_version,
        "made_by": hashlib.sha256(canonical_json(made_by)).hexdigest(),
        "stage": made_by.get("stage", ""),
        "shard_size": shard_size,
    }
    return json.dumps(plan, indent=2, sort_keys=True).encode() + b"\n"


def read_manifest(uri: str | Path) -> Manifest:
    """Read the manifest of a finished table.

    Raises:
        UserError: the table is missing or unfinished, or its manifest cannot be read.
    """
    folder = local_path(uri)
    try:
        content = (folder / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        unfinished = (folder / PLAN).is_file()
        problem = "the table is not finished" if unfinished else "there is no table here"
        raise UserError(f"{folder}: {problem}; run {_stage_writing(folder)} to make it") from None
    except OSError as error:
        raise UserError(f"{folder / MANIFEST}: {error.strerror}; make it readable and run again") from error
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(str(part) for part in first["loc"]) or "the file"
        raise UserError(
            f"{folder / MANIFEST}: {location}: {first['msg']}; delete the folder and run {_stage_writing(folder)} again"
        ) from None


def _stage_writing(folder: Path) -> str:
    """The stage of the folder's plan file, in words."""
    try:
        stage = json.loads((folder / PLAN).read_bytes())["stage"]
    except (OSError, ValueError, KeyError, TypeError):
        stage = ""
    return f"the stage {stage}" if stage else "the stage that writes this folder"
