"""Rows of a command-line argument: a table's folder, any file of Parquet or JSON lines, or a data set of the Hub."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from rubricworks.data.hub import hub_folder, hub_reading, hub_source
from rubricworks.data.json_faults import json_fault
from rubricworks.data.ledger import LEDGER_FILE
from rubricworks.data.manifest import MANIFEST, PLAN
from rubricworks.data.source_entries import source_files
from rubricworks.data.tables import Row, read_rows, shard_paths
from rubricworks.errors import UserError
from rubricworks.storage import local_path

_ROWS = (".parquet", ".jsonl")


def iter_rows(place: str | Path, columns: list[str], *, optional: Sequence[str] = ()) -> Iterator[Row]:
    """Iterate over the rows in order, with the given columns, a few in memory at a time.

    Args:
        place: a table's folder, a Parquet file, JSON lines, or such files of a data set of the Hub (`data.hub`).
        optional: columns that are given where the file has them.

    Raises:
        UserError: the table or file is missing or damaged, or lacks a column; as for `hub_folder`.
        TransientError: the Hub does not answer.
    """
    if on_hub := hub_source(str(place)):
        files = [file for file in source_files(str(hub_folder(on_hub)), _ROWS) if file.suffix in _ROWS]
        if not files:
            raise UserError(f"{place}: no Parquet and no JSON lines are in it")
        for file in files:
            yield from _file_rows(file, file, columns, optional)
        return
    path = local_path(place)
    if not path.exists():
        raise UserError(f"{place}: there is no such file or folder{hub_reading(str(place))}")
    if path.is_dir() and (written := only_file(path)):
        path = written
    if path.is_dir():
        _check_is_table(path, place)
        try:
            yield from read_rows(path, columns=[*columns, *(name for name in optional if name in _table_columns(path))])
        except UserError:
            raise
        except ValueError as error:
            raise UserError(f"{error}; it needs {', '.join(columns)}") from error
        return
    yield from _file_rows(path, place, columns, optional)


def only_file(folder: Path) -> Path | None:
    """The file that `caption` or `synthesize` wrote into a folder: the only one with rows, where there is no table."""
    if (folder / MANIFEST).exists() or (folder / PLAN).exists():
        return None
    files = [file for file in folder.iterdir() if file.suffix in _ROWS and file.name != LEDGER_FILE]
    return files[0] if len(files) == 1 else None


def _check_is_table(folder: Path, place: str | Path) -> None:
    """Refuse a folder that no stage has begun to write, with the files in it that could be named."""
    if (folder / MANIFEST).exists() or (folder / PLAN).exists():
        return
    files = sorted(file.name for file in folder.iterdir() if file.suffix in _ROWS)
    remedy = f"name a file in it, such as {files[0]}" if files else "name a .parquet or .jsonl file"
    raise UserError(f"{place}: there is no table here; {remedy}, or the folder that a stage of a run wrote")


def _file_rows(path: Path, place: str | Path, columns: list[str], optional: Sequence[str]) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.suffix == ".jsonl":
        yield from _json_rows(path, columns, optional)
        return
    try:
        with pq.ParquetFile(path) as file:
            columns = [*columns, *(name for name in optional if name in file.schema_arrow.names)]
            if missing := [column for column in columns if column not in file.schema_arrow.names]:
                raise UserError(f"{place}: no column {missing[0]!r}; it needs {', '.join(columns)}")
            for batch in file.iter_batches(columns=columns):
                yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{place}: cannot be read as Parquet ({str(error).splitlines()[0]})") from error


def _table_columns(folder: Path) -> list[str]:
    import pyarrow.parquet as pq

    return list(pq.read_schema(shard_paths(folder)[0]).names) if shard_paths(folder) else []


def _json_rows(path: Path, columns: Sequence[str], optional: Sequence[str]) -> Iterator[Row]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise UserError(f"{path}:{number}: {json_fault(error)}") from error
            if missing := [name for name in columns if not isinstance(row, dict) or name not in row]:
                raise UserError(f"{path}:{number}: no {missing[0]!r}; each line needs {', '.join(columns)}")
            yield {name: row[name] for name in (*columns, *optional) if name in row}
