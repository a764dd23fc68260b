"""Reading and writing of rubric sets: the format by name, or found by a file's ending and its first row."""

import csv
import io
import itertools
import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rubricworks.data.hub import hub_folder, hub_reading, hub_source
from rubricworks.data.json_faults import json_fault
from rubricworks.data.rubric_sets.csv_format import CSV_COLUMNS, csv_entry, csv_rows, read_csv_entries
from rubricworks.data.rubric_sets.entries import Note, RubricEntry
from rubricworks.data.rubric_sets.file_formats import (
    read_rewardkit,
    read_verifiers,
    verifiers_document,
    write_rewardkit,
    write_verifiers,
)
from rubricworks.data.rubric_sets.formats import (
    FORMATS,
    OF_SUFFIX,
    ROW_FORMATS,
    row_format,
    rows_of_document,
    why_no_rubric,
)
from rubricworks.data.rubric_sets.losses import losses
from rubricworks.data.rubric_sets.row_formats import read_healthbench, read_own
from rubricworks.data.source_entries import source_files
from rubricworks.data.tables import shard_paths
from rubricworks.errors import UserError
from rubricworks.storage import local_path, write_atomic

_BATCH = 1_000
_MAX_NAME = 200
"""Bytes of a file's name; systems take 255, with its ending."""
_SIMPLEST = "any rubric can be a .csv with a row for each criterion: sample_id, criterion, weight"
"""Advice where a format is not known."""


def read_rubric_set(source: str | Path, format: str | None = None, *, note: Note = print) -> Iterator[RubricEntry]:
    """Iterate over the entries of a file, or of a folder of Parquet or of one rubric a file.

    Args:
        source: `.parquet`, `.jsonl`, `.json`, `.toml`, `.csv`, a table of this project, a folder of such files (of the
            first of these kinds that it has), a `*` pattern of them, or a data set of the Hub (`data.hub`). Rows
            without a name are numbered across the files.
        format: one of `FORMATS`; by default it is found.
        note: called with each thing that is read another way than it was meant.
    Raises:
        UserError: there is no such file, it has another format, a rubric is invalid, or a sample comes twice.
    """
    if format not in (None, *FORMATS):
        raise UserError(f"format {format!r}: choose {', '.join(FORMATS)}")
    on_hub = hub_source(str(source))
    path = hub_folder(on_hub) if on_hub else local_path(source)
    files = [path] if path.exists() else source_files(str(path), tuple(OF_SUFFIX)) if "*" in str(path) else []
    if not files:
        raise UserError(f"{source}: there is no such file or folder{hub_reading(str(source))}")
    seen: set[str] = set()
    numbers = itertools.count()
    for entry in itertools.chain.from_iterable(_entries(file, format, note, numbers) for file in files):
        if entry.sample_id in seen:
            raise UserError(f"{source}: two rubrics are of sample {entry.sample_id!r}; leave one out")
        seen.add(entry.sample_id)
        yield entry
    if not seen:
        raise UserError(f"{source}: no rubric is in it")


def write_rubric_set(entries: Iterable[RubricEntry], path: Path, format: str, *, note: Note = print) -> int:
    """Write a set in a format; return the number of its rubrics.

    A format with one rubric a file writes a folder of them, or one file where `path` ends in .toml or .json.

    Raises:
        UserError: the path's ending does not fit the format, or several rubrics would go into one file.
    """
    suffix = path.suffix.lower()
    if format in ROW_FORMATS:
        if suffix not in (".jsonl", ".parquet"):
            raise UserError(f"{path}: {format} is written as .jsonl or .parquet; let the name end so")
        rows = _checked_rows(entries, format, note)
        return _write_parquet(rows, path) if suffix == ".parquet" else _write_lines(rows, path)
    if format == "csv":
        if suffix != ".csv":
            raise UserError(f"{path}: csv is written as .csv; let the name end so")
        return _write_csv(entries, path, note)
    if format not in ("rewardkit", "verifiers"):
        raise UserError(f"format {format!r}: choose {', '.join(FORMATS)}")
    return _write_documents(entries, path, format, note)


def _entries(path: Path, format: str | None, note: Note, numbers: Iterator[int]) -> Iterator[RubricEntry]:
    if path.is_dir():
        if (path / "done.json").is_file():
            _check_suffix(path, ".parquet", format)
            yield from _row_entries(_parquet_rows(shard_paths(path)), path, format, note, numbers)
            return
        if (written := path / "rubrics.parquet").is_file():  # by `synthesize`, beside its stages
            yield from _entries(written, format, note, numbers)
            return
        suffixes = [suffix for suffix, formats in OF_SUFFIX.items() if format is None or format in formats]
        files = next(filter(None, (sorted(path.rglob(f"*{suffix}")) for suffix in suffixes)), [])
        if not files:
            raise UserError(f"{path}: no {' or '.join(suffixes)} is in this folder")
        for file in files:
            yield from _entries(file, format, note, numbers)
        return
    _check_suffix(path, path.suffix.lower(), format)
    match path.suffix.lower():
        case ".parquet":
            yield from _row_entries(_parquet_rows([path]), path, format, note, numbers)
        case ".jsonl":
            yield from _row_entries(_json_lines(path), path, format, note, numbers)
        case ".csv":
            yield from read_csv_entries(path)
        case ".toml":
            yield _document_entry(_parse(path, tomllib.loads), path, format, note)
        case ".json":
            document = _parse(path, json.loads)
            rows = rows_of_document(document, path.stem)
            if rows and row_format(rows[0]) is not None:
                yield from _row_entries(iter(rows), path, format, note, numbers)
            else:
                yield _document_entry(document, path, format, note)


def _check_suffix(path: Path, suffix: str, format: str | None) -> None:
    """Raise UserError unless files of this ending are read, and as this format if one is named."""
    if suffix not in OF_SUFFIX:
        raise UserError(f"{path}: {suffix or 'no ending'} is not read; give .parquet, .jsonl, .json, .toml or .csv")
    if format is not None and format not in OF_SUFFIX[suffix]:
        read_as = " or ".join(OF_SUFFIX[suffix])
        fitting = " or ".join(ending for ending, formats in OF_SUFFIX.items() if format in formats)
        raise UserError(f"{path}: a {suffix} is read as {read_as}, not as {format}, whose files are {fitting}")


def _row_entries(
    rows: Iterator[Any], path: Path, format: str | None, note: Note, numbers: Iterator[int]
) -> Iterator[RubricEntry]:
    reader = None
    for place, (row, number) in enumerate(zip(rows, numbers, strict=False), start=1):
        where = f"{path}: row {place}"
        if not isinstance(row, Mapping):
            raise UserError(f"{where}: {row!r:.60} is no object")
        if reader is None:
            name = format or row_format(row)
            if format is not None and name not in ROW_FORMATS:
                raise UserError(f"{where}: no rubric of {format}; its fields are those of {row_format(row)}")
            if name not in ROW_FORMATS:
                reason = why_no_rubric(row) or (
                    f"its fields are {', '.join(map(str, row)) or 'none'}, which is no known format of rubrics "
                    f"({', '.join(FORMATS)}); {_SIMPLEST}"
                )
                raise UserError(f"{where}: {reason}")
            reader = ROW_FORMATS[name].read
        yield reader(row, where, number, note)


def _document_entry(document: Any, path: Path, format: str | None, note: Note) -> RubricEntry:
    where, name = str(path), path.stem
    items = document.get("criteria") if isinstance(document, Mapping) else document
    first = items[0] if isinstance(items, list) and items and isinstance(items[0], Mapping) else {}
    if isinstance(document, Mapping) and "criterion" in document and format in (None, "rewardkit"):
        return read_rewardkit(document, where, name, note)
    if "text" in first and format in (None, "verifiers"):
        return read_verifiers(document, where, name, note)
    if "criterion" in first and "points" in first and format in (None, "healthbench"):
        return read_healthbench({"prompt_id": name, "prompt": "", "rubrics": items}, where, 0, note)
    if "criterion" in first and format in (None, "rubricworks"):
        return read_own({"sample_id": name, "rubric": items}, where, 0, note)
    kind = f"no rubric of {format}" if format else f"no rubric of a known format ({', '.join(FORMATS)})"
    raise UserError(
        f"{where}: {kind}; one rubric a file has criterion tables (rewardkit) or criteria (verifiers, ours), and "
        f"{_SIMPLEST}"
    )


def _parse(path: Path, parse: Callable[[str], Any]) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
        return _checked_text(parse(text), text.encode())
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: cannot be read as {path.suffix[1:].upper()} ({str(error).splitlines()[0]})") from None


def _json_lines(path: Path) -> Iterator[Any]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    yield _checked_text(json.loads(line), line)
                except (ValueError, RecursionError) as error:
                    raise UserError(f"{path}:{number}: {json_fault(error)}") from None


def _checked_text(value: Any, content: bytes) -> Any:
    """Return what was parsed from the content.

    Raises:
        ValueError: a text of it holds half a character (a lone surrogate), which no file can hold.
    """
    if b"\\ud" in content.lower() or b"\xed" in content:
        try:
            json.dumps(value, ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError as error:
            half = error.object[error.start]
            raise ValueError(f"a text holds {half!r}, half of a character of UTF-16; write the whole one") from None
    return value


def _parquet_rows(paths: Iterable[Path]) -> Iterator[Any]:
    for path in paths:
        try:
            with pq.ParquetFile(path) as file:
                has_decimals = "decimal" in str(file.schema_arrow)
                for batch in file.iter_batches(batch_size=_BATCH):
                    rows = batch.to_pylist()
                    yield from _without_decimals(rows) if has_decimals else rows
        except (pa.ArrowException, OSError) as error:
            raise UserError(f"{path}: cannot be read as Parquet ({str(error).splitlines()[0]})") from None


def _without_decimals(value: Any) -> Any:
    """Rows with the numbers of databases, DECIMAL columns, as those of JSON."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dict):
        return {name: _without_decimals(item) for name, item in value.items()}
    return [_without_decimals(item) for item in value] if isinstance(value, list) else value


@contextmanager
def _whole_file(path: Path) -> Iterator[Path]:
    """Place to write a file that appears under its name when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _write_parquet(rows: Iterator[dict[str, object]], path: Path) -> int:
    count, writer = 0, None
    with _whole_file(path) as partial:
        try:
            while batch := [row for _, row in zip(range(_BATCH), rows, strict=False)]:
                table = _table(batch, writer.schema if writer else None)
                writer = writer or pq.ParquetWriter(partial, table.schema)
                writer.write_table(table)
                count += len(batch)
        except (pa.ArrowException, OverflowError) as error:
            raise UserError(f"{path}: its rows have not the same fields ({error}); write .jsonl instead") from None
        finally:
            if writer:
                writer.close()
    return count


def _table(rows: Sequence[Mapping[str, object]], schema: pa.Schema | None) -> pa.Table:
    """Rows with the fields of all of them: by itself, pyarrow drops what the first row, or the schema, has not.

    Args:
        schema: that of the file's first rows, which sets the types.
    Raises:
        pa.ArrowException: the rows do not fit together, or not into the schema.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    table = pa.Table.from_pylist([{name: row.get(name) for name in names} for row in rows])
    if schema is None or table.schema == schema:
        return table
    if pa.unify_schemas([schema, table.schema], promote_options="permissive") != schema:
        raise pa.ArrowInvalid(f"after the first {_BATCH:,} there are others")
    return pa.Table.from_pylist(list(rows), schema=schema)


def _write_lines(rows: Iterator[dict[str, object]], path: Path) -> int:
    count = 0
    with _whole_file(path) as partial, partial.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")
            count += 1
    return count


def _checked_rows(entries: Iterable[RubricEntry], format: str, note: Note) -> Iterator[dict[str, object]]:
    for number, entry in enumerate(entries):
        row = ROW_FORMATS[format].write(entry, number, note)
        _note_losses(entry, format, note, partial(ROW_FORMATS[format].read, row, "", number, str))
        yield row


def _note_losses(entry: RubricEntry, format: str, note: Note, read_back: Callable[[], RubricEntry]) -> None:
    """Note each field that what was written does not hold, found by reading it again."""
    try:
        for message in losses(entry, read_back(), format):
            note(message)
    except UserError as error:
        note(f"{format}: import refuses what is written here{error}")


def _write_csv(entries: Iterable[RubricEntry], path: Path, note: Note) -> int:
    text, count = io.StringIO(), 0
    writer = csv.DictWriter(text, CSV_COLUMNS)
    writer.writeheader()
    for entry in entries:
        rows = list(csv_rows(entry))
        _note_losses(entry, "csv", note, partial(csv_entry, dict(enumerate(rows)), ""))
        writer.writerows(rows)
        count += 1
    write_atomic(path, text.getvalue().encode())
    return count


def _write_documents(entries: Iterable[RubricEntry], path: Path, format: str, note: Note) -> int:
    suffix = path.suffix.lower()
    as_json = suffix == ".json"
    if as_json and format == "rewardkit":
        raise UserError(f"{path}: rewardkit is written as .toml; let the name end so, or give a folder")
    count = 0
    for entry in entries:
        if as_json:
            text = json.dumps(verifiers_document(entry, note), ensure_ascii=False, indent=2, default=str) + "\n"
        else:
            text = write_rewardkit(entry, note) if format == "rewardkit" else write_verifiers(entry, note)
        target = path if suffix in (".toml", ".json") else path / f"{_file_name(entry)}.toml"
        if target == path and count:
            raise UserError(
                f"{path}: one rubric a file, and there are several; give a folder, or choose one by --sample"
            )
        if count and target.exists() and target.read_text(encoding="utf-8") != text:
            raise UserError(f"{target}: two samples would have this file; rename sample {entry.sample_id!r}")
        document = (json if as_json else tomllib).loads(text)
        _note_losses(entry, format, note, partial(_document_entry, document, target, format, str))
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, text.encode())
        count += 1
    return count


def _file_name(entry: RubricEntry) -> str:
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in entry.sample_id).strip(".")
    return safe.encode()[:_MAX_NAME].decode(errors="ignore") or "rubric"
