"""Folder of a table being written: plan, shards, lock and manifest."""

import contextlib
import fcntl
import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rubricworks.data.manifest import MANIFEST, PLAN, Manifest, Shard, canonical_json, read_manifest, table_plan
from rubricworks.data.schemas import SCHEMA_VERSION, SCHEMAS, table_from_rows
from rubricworks.errors import UserError
from rubricworks.storage import write_atomic
from rubricworks.storage.files import remove_temporary_files


class TableFolder:
    """Steps of writing a table; a kill after any of them loses at most the open shard."""

    def __init__(
        self, folder: Path, table: str, made_by: Mapping[str, object], shard_size: int, *, shared: bool = False
    ) -> None:
        """
        Args:
            shared: the folder holds more than this table, as a stage's does; shards then lie in a folder below it that
                bears the table's name, which other programs can read as a whole. Implied by any other folder name.
        """
        if table not in SCHEMAS:
            raise ValueError(f"no table {table!r}; the tables are {', '.join(SCHEMAS)}")
        if shard_size < 1:
            raise ValueError(f"shard_size is {shard_size}; a shard holds at least 1 item")
        self.folder, self.table = folder, table
        self._shards = folder / table if shared or folder.name != table else folder
        self.made_by = json.loads(canonical_json(made_by))
        self.plan = table_plan(table, SCHEMA_VERSION, self.made_by, shard_size)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against a second run. The kernel releases the lock when the process dies."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise UserError(
                f"cannot make {self.folder}: {error.strerror}; choose a folder that can be written"
            ) from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"{self.folder}: another run is writing this table; wait for it or stop it") from None
            except OSError:
                pass  # a network file system without locks on folders
            yield
        finally:
            os.close(descriptor)

    def finished(self) -> Manifest | None:
        """Manifest of the table if it is complete and has the same provenance, else None."""
        try:
            manifest = read_manifest(self.folder)
        except UserError:
            return None
        same = (manifest.table, manifest.schema_version, manifest.made_by) == (self.table, SCHEMA_VERSION, self.made_by)
        complete = all((self.folder / shard.name).is_file() for shard in manifest.shards)
        return manifest if same and complete else None

    def begin(self) -> None:
        """Write the plan. First delete the files of another plan, the manifest before the shards it lists."""
        for place in {self.folder, self._shards}:
            remove_temporary_files(place)
        (self.folder / MANIFEST).unlink(missing_ok=True)
        plan = self.folder / PLAN
        if not plan.is_file() or plan.read_bytes() != self.plan:
            for shard in self._shards.glob("part-*.parquet"):
                shard.unlink()
            write_atomic(plan, self.plan)

    def has_shard(self, number: int) -> bool:
        """Return True if a shard is committed and readable."""
        return self._row_count(self._shard_path(number)) is not None

    def commit_shard(self, number: int, rows: list[dict[str, object]]) -> None:
        """Write one shard atomically."""
        write_atomic(self._shard_path(number), to_parquet(table_from_rows(self.table, rows)))

    def finish(self, shard_count: int) -> Manifest:
        """Write the manifest of a table with this many shards."""
        shards = []
        for number in range(shard_count):
            path = self._shard_path(number)
            rows = self._row_count(path)
            if rows is None:
                raise UserError(f"{path}: gone or damaged since it was written; run again")
            with path.open("rb") as file:
                shards.append(
                    Shard(
                        name=str(path.relative_to(self.folder)),
                        rows=rows,
                        sha256=hashlib.file_digest(file, "sha256").hexdigest(),
                    )
                )
        names = {shard.name for shard in shards}
        for stray in self._shards.glob("part-*.parquet"):
            if str(stray.relative_to(self.folder)) not in names:
                stray.unlink()
        manifest = Manifest(
            table=self.table,
            schema_version=SCHEMA_VERSION,
            rows=sum(shard.rows for shard in shards),
            shards=tuple(shards),
            made_by=self.made_by,
        )
        content = json.dumps(manifest.model_dump(mode="json"), indent=2, sort_keys=True, ensure_ascii=False)
        write_atomic(self.folder / MANIFEST, content.encode() + b"\n")
        return manifest

    def _shard_path(self, number: int) -> Path:
        return self._shards / f"part-{number:05d}.parquet"

    def _row_count(self, path: Path) -> int | None:
        """Number of rows of a shard, or None if the file is missing, damaged or of another schema."""
        try:
            with pq.ParquetFile(path) as shard:
                return shard.metadata.num_rows if shard.schema_arrow.equals(SCHEMAS[self.table]) else None
        except (pa.ArrowException, OSError):
            return None


def to_parquet(table: pa.Table) -> bytes:
    """The Parquet file of a shard, in row groups of which readers keep one in memory: images are large.

    A group of rollouts is looked up in a shard of all steps between two checkpoints, so text has small row groups too.
    """
    binary = [field.name for field in table.schema if pa.types.is_binary(field.type)]
    buffer = io.BytesIO()
    pq.write_table(
        table,
        buffer,
        compression="zstd",
        use_dictionary=[name for name in table.schema.names if name not in binary],
        row_group_size=64 if binary else 256,
    )
    return buffer.getvalue()
