"""Untrusted Parquet files, decoded within a memory limit and checked against the types of their schema.

A file of two kilobytes can hold gigabytes: one long value in a dictionary that every row points to, or a page of zeros.
So the pages' own headers are read first, since the footer may say anything, and the rows are decoded a few at a time,
as many as fit the bound if each were as large as its page.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from rubricworks.data.schemas import SCHEMAS

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_MOST_BYTES = 160 * 1024 * 1024
"""Memory limit of the Python objects decoded at a time."""
_CELL_BYTES = 64
"""Overhead of a value as a Python object."""
_BATCH_BYTES = 64 * 1024 * 1024
_MOST_ROWS_AT_ONCE = 16_384
_HEADER_BYTES = (256, 64 * 1024)
"""Bytes read for a page's header; more are read only if it has long statistics."""
_DEEPEST = 8
"""Structs inside each other in a page's header, which has three."""

ReadRange = Callable[[int, int], bytes]
"""Bytes of a file from a place on, so many at most."""


class BadParquet(ValueError):
    """A file is damaged, takes too much memory, or has other columns than its table."""


def decode(
    file: "pq.ParquetFile",
    groups: Sequence[int],
    names: Sequence[str] | None,
    *,
    kind: str | None = None,
    read_range: ReadRange | None = None,
) -> "pa.Table":
    """Columns of some row groups.

    Args:
        names: columns; None for all.
        kind: name of its schema, if it is a table of a run. Numbers that are not finite are then null.
        read_range: bytes of the file, with which page headers are checked.
    Raises:
        BadParquet, pyarrow.ArrowException, OSError: it cannot be read.
    """
    import pyarrow as pa

    batches: list[pa.RecordBatch] = []
    size = 0
    for batch in batches_of(file, groups, names, read_range):
        size += batch.nbytes + _CELL_BYTES * batch.num_rows * batch.num_columns
        if size > _MOST_BYTES:
            raise BadParquet(f"its rows take more than {_MOST_BYTES >> 20} MB of memory")
        batch.validate(full=True)
        batches.append(batch)
    wanted = [name for name in file.schema_arrow.names if names is None or name in names]
    schema = pa.schema([file.schema_arrow.field(name) for name in wanted])
    table = pa.Table.from_batches([batch.select(wanted) for batch in batches], schema)
    return table if kind is None else _checked(table, kind, names)


def batches_of(
    file: "pq.ParquetFile",
    groups: Sequence[int],
    names: Sequence[str] | None,
    read_range: ReadRange | None,
    most_rows: int = _MOST_ROWS_AT_ONCE,
) -> "Iterator[pa.RecordBatch]":
    """Rows of row groups, as many at a time as fit the bound if each value were as large as its page."""
    for group in groups:
        metadata = file.metadata.row_group(group)
        pages = 0
        for chunk in map(metadata.column, range(metadata.num_columns)):
            if names is None or chunk.path_in_schema.partition(".")[0] in names:
                begin = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)), default=0)
                sizes = [chunk.total_uncompressed_size]
                if read_range is not None:
                    sizes = list(_page_sizes(read_range, begin, begin + chunk.total_compressed_size))
                if sum(sizes) > _MOST_BYTES:
                    raise BadParquet(f"column {chunk.path_in_schema} takes more than {_MOST_BYTES >> 20} MB of memory")
                pages += max(sizes, default=0)
        rows = max(1, min(most_rows, _BATCH_BYTES // max(1, pages)))
        for batch in file.iter_batches(rows, row_groups=[group], columns=names and list(names), use_threads=False):
            if metadata.num_rows and not batch.num_rows:  # of a damaged page, Arrow gives none without an end
                raise BadParquet("a page has fewer rows than its row group says")
            yield batch


def check_columns(schema: "pa.Schema", kind: str, names: Sequence[str] | None) -> None:
    """Check that columns of a file have the types of a table's schema or are empty, and that required ones are there.

    Args:
        names: columns that are read; None for all.
    Raises:
        BadParquet: they are not.
    """
    import pyarrow as pa

    for field in SCHEMAS.get(kind, ()):
        if (at := schema.get_field_index(field.name)) < 0:
            if not field.nullable and (names is None or field.name in names):
                raise BadParquet(f"it has no column {field.name}, which {kind} have")
        elif schema.field(at).type != field.type and not (field.nullable and pa.types.is_null(schema.field(at).type)):
            raise BadParquet(f"its column {field.name} is {schema.field(at).type}; in {kind} it is {field.type}")


def _checked(table: "pa.Table", kind: str, names: Sequence[str] | None) -> "pa.Table":
    """A table with its required values there, and its other numbers finite or null.

    Args:
        names: columns that were asked for; None for all, of which those that may be empty are made.
    """
    import pyarrow as pa

    for field in SCHEMAS.get(kind, ()):
        if (at := table.schema.get_field_index(field.name)) < 0:
            if names is None:
                table = table.append_column(field, pa.nulls(table.num_rows, field.type))
            continue
        if pa.types.is_floating(field.type):
            values = table[field.name].to_pylist()
            finite = [value if value is None or math.isfinite(value) else None for value in values]
            if finite != values:
                table = table.set_column(at, pa.field(field.name, field.type), pa.array(finite, field.type))
        if not field.nullable and table[field.name].null_count:
            raise BadParquet(f"its column {field.name} lacks values")
    return table


def _page_sizes(read_range: ReadRange, begin: int, end: int) -> Iterator[int]:
    """Bytes of each page of a column chunk when it is decompressed, by the page's own header."""
    while begin < end:
        uncompressed, compressed, header = _page_header(read_range, begin)
        yield uncompressed
        begin += header + compressed


def _page_header(read_range: ReadRange, begin: int) -> tuple[int, int, int]:
    """Decompressed size, stored size and header size of a page, in bytes."""
    for length in _HEADER_BYTES:
        try:
            fields, header = _struct(read_range(begin, length), 0, 0)
        except IndexError:
            continue
        uncompressed, compressed = fields.get(2, -1), fields.get(3, -1)
        if uncompressed < 0 or compressed < 0:
            break
        return uncompressed, compressed, header
    raise BadParquet("a page has no header")


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, int], int]:
    """Integers of a struct in Thrift's compact protocol by their fields, and the place after it."""
    if depth > _DEEPEST:
        raise BadParquet("a page's header is nested too deeply")
    integers: dict[int, int] = {}
    field = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            field += head >> 4
        else:
            field, at = _zigzag(data, at)
        if head & 15 in (4, 5, 6):
            integers[field], at = _zigzag(data, at)
        else:
            at = _after(head & 15, data, at, depth)
    return integers, at + 1


def _after(kind: int, data: bytes, at: int, depth: int) -> int:
    """Place after a value of Thrift's compact protocol."""
    if kind in (1, 2):  # a boolean stands in its field's head
        return at
    if kind == 3:
        return at + 1
    if kind in (4, 5, 6):
        return _varint(data, at)[1]
    if kind == 7:
        return at + 8
    if kind == 8:
        length, at = _varint(data, at)
        return at + length
    if kind == 12:
        return _struct(data, at, depth + 1)[1]
    raise BadParquet("a page's header is damaged")


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise BadParquet("a page's header is damaged")
