"""Images in Arrow columns: Parquet files, and datasets saved by Hugging Face's `save_to_disk`.

Needs pyarrow alone. The image column is binary, a list of bytes as numbers, or a struct with `bytes` as
`datasets.Image` stores it; without one, a column of URLs, data URLs or base64. Any of them may be dictionary-encoded.
"""

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rubricworks.data.images import BadImage
from rubricworks.data.pixels import decode_text, is_byte_list
from rubricworks.data.source_entries import (
    CAPTION_FIELDS,
    Captions,
    Entries,
    ImageEntry,
    RejectedEntry,
    captions_in,
    captions_of,
    prompt_of,
    source_files,
)
from rubricworks.data.source_kinds.urls import url_entry
from rubricworks.errors import UserError

IMAGE_COLUMNS = ("image", "images", "img", "jpg", "png", "picture", "photo")
URL_COLUMNS = ("image_url", "img_url", "imageurl", "url", *IMAGE_COLUMNS)
"""Matched in any case: LAION has URL and TEXT."""
PROMPT_COLUMN = "prompt"
CAPTION_COLUMNS = (*CAPTION_FIELDS, "conversations", "messages")
_BATCH = 64
_IMAGE_NAME = re.compile(r"image|img|jpe?g|png|picture|photo", re.IGNORECASE)
_LEAST_BASE64 = 60
"""Characters; the smallest image files have more."""
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")


def parquet_entries(path: str, *, image_column: str | None = None, caption_column: str | None = None) -> Entries:
    """Entries of a Parquet file, or of a folder's Parquet files in path order."""
    root = Path(path)
    for file in source_files(path, (".parquet",)):
        name = file.relative_to(root).as_posix() if root.is_dir() else file.name
        yield from parquet_file_entries(file, name, image_column=image_column, caption_column=caption_column)


def parquet_file_entries(
    file: Path,
    name: str,
    groups: range | None = None,
    *,
    image_column: str | None = None,
    caption_column: str | None = None,
) -> Entries:
    """Entries of one Parquet file.

    Args:
        name: beginning of its entries' keys.
        groups: row groups to read; all by default.
    """
    try:
        with pq.ParquetFile(file) as parquet:
            columns = _select_columns(parquet.schema_arrow, str(file), image_column, caption_column)
            names = [column for column in columns if column]
            batches = parquet.iter_batches(
                batch_size=_BATCH, columns=names, row_groups=None if groups is None else list(groups)
            )
            first = sum(parquet.metadata.row_group(number).num_rows for number in range(groups.start if groups else 0))
            yield from _rows(batches, columns, name, str(file), first)
    except (pa.ArrowException, OSError) as error:
        yield RejectedEntry(source=str(file), reason=f"damaged Parquet file: {str(error).splitlines()[0]}")


def saved_dataset_entries(path: str, *, image_column: str | None = None, caption_column: str | None = None) -> Entries:
    """Entries of a saved dataset, split by split in the order of its `dataset_dict.json`."""
    for file, name in saved_dataset_files(path):
        yield from arrow_file_entries(file, name, image_column=image_column, caption_column=caption_column)


def saved_dataset_files(path: str) -> Iterator[tuple[Path, str]]:
    """Arrow files of a saved dataset, each with the beginning of its entries' keys."""
    for folder, prefix in _splits(Path(path)):
        for file in _arrow_files(folder):
            yield file, prefix + file.name


def arrow_file_entries(
    file: Path, name: str, *, image_column: str | None = None, caption_column: str | None = None
) -> Entries:
    """Entries of one Arrow file.

    Args:
        name: beginning of its entries' keys.
    """
    try:
        with contextlib.closing(pa.memory_map(str(file))) as source:
            reader = _open_arrow(source)
            columns = _select_columns(reader.schema, str(file), image_column, caption_column)
            batches = (piece.select([c for c in columns if c]) for batch in reader for piece in _pieces(batch))
            yield from _rows(batches, columns, name, str(file))
    except (pa.ArrowException, OSError) as error:
        yield RejectedEntry(source=str(file), reason=f"damaged Arrow file: {str(error).splitlines()[0]}")


def _rows(
    batches: Iterator[pa.RecordBatch],
    columns: tuple[str, str | None, str | None],
    name: str,
    location: str,
    first: int = 0,
) -> Entries:
    image_column, caption_column, prompt_column = columns
    row_number = first
    for batch in batches:
        for row in batch.to_pylist():
            place = f"{location}#{row_number}"
            captions = _captions_of_cell(row[caption_column]) if caption_column else Captions()
            prompt = prompt_of(row[prompt_column]) if prompt_column else captions.prompt
            cell = row[image_column]
            if isinstance(cell, str) and not _is_inline(cell):
                if (
                    row_number == first
                    and "url" not in image_column.lower()
                    and not cell.startswith(("http://", "https://"))
                ):
                    raise UserError(
                        f"{location}: column {image_column!r} holds text, and {cell[:80]!r} is no URL; store the "
                        "images' bytes, as such, in base64 or as data URLs, or their http:// or https:// URLs"
                    )
                yield url_entry(cell, place, captions.references, prompt)
            else:
                yield ImageEntry(f"{name}#{row_number}", place, ImageCell(cell), captions.references, prompt)
            if captions.unread:
                yield RejectedEntry(source=place, reason=f"captions not read: {captions.unread}")
            row_number += 1


def _captions_of_cell(cell: Any) -> Captions:
    """Captions of a cell: a text, a list of texts, or a conversation."""
    if isinstance(cell, list) and cell and isinstance(cell[0], dict):
        return captions_in({"conversations": cell})
    return Captions(captions_of(cell))


def _is_inline(cell: str) -> bool:
    """Return True for a text that holds an image: a data URL, or base64 of more than any URL's first part."""
    return cell.startswith("data:") or (len(cell) >= _LEAST_BASE64 and _BASE64.fullmatch(cell) is not None)


class ImageCell:
    """Callable that returns the bytes of one image cell."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self) -> bytes:
        value = self.value
        if isinstance(value, list) and not is_byte_list(value):
            if len(value) > 1:
                raise BadImage(f"the row holds {len(value)} images; one is read")
            value = value[0] if value else None
        if isinstance(value, dict):
            if value.get("bytes") is None and value.get("path"):
                raise BadImage(f"the row holds a path ({value['path']}), not bytes; save the dataset with its images")
            value = value.get("bytes")
        if not value:
            raise BadImage("the row has no image")
        return decode_text(value) if isinstance(value, str) else bytes(value)


def _select_columns(
    schema: pa.Schema, location: str, image: str | None, caption: str | None
) -> tuple[str, str | None, str | None]:
    """Names of the columns of image, caption and prompt: the requested ones, else chosen by type and name."""
    for requested in (image, caption):
        if requested is not None and requested not in schema.names:
            raise UserError(f"{location}: no column {requested!r}; it has {', '.join(schema.names)}")
    image = image or _image_column(schema, location)
    arrow_type = schema.field(image).type
    if not _holds_image(arrow_type) and not _holds_text(arrow_type):
        raise UserError(f"{location}: column {image!r} is {arrow_type}; images are bytes, structs with bytes, or URLs")
    if caption is None:
        by_name = {name.lower() if _holds_text(arrow_type) else name: name for name in schema.names if name != image}
        caption = next((by_name[name] for name in CAPTION_COLUMNS if name in by_name), None)
    prompt = PROMPT_COLUMN if PROMPT_COLUMN in schema.names and PROMPT_COLUMN not in (image, caption) else None
    return image, caption, prompt


def typed_image_column(schema: pa.Schema) -> str | None:
    """Name of the column with an image type; of several, the first in `IMAGE_COLUMNS`."""
    typed = [
        field.name
        for field in schema
        if _holds_image(field.type) and (not _are_numbers(field.type) or _IMAGE_NAME.search(field.name))
    ]
    return next((name for name in IMAGE_COLUMNS if name in typed), typed[0] if typed else None)


def _image_column(schema: pa.Schema, location: str) -> str:
    if typed := typed_image_column(schema):
        return typed
    texts = {field.name.lower(): field.name for field in schema if _holds_text(field.type)}
    for name in URL_COLUMNS:
        if name in texts:
            return texts[name]
    similar = [name for lowered, name in texts.items() if "image" in lowered or "url" in lowered]
    hint = f"; {similar[0]!r} holds text: if these are the images' URLs, call the column image_url" if similar else ""
    raise UserError(f"{location}: no column holds image bytes or URLs; it has {', '.join(schema.names)}{hint}")


def _holds_image(arrow_type: pa.DataType) -> bool:
    types = pa.types
    if types.is_dictionary(arrow_type):
        return _holds_image(arrow_type.value_type)
    if types.is_list(arrow_type) or types.is_large_list(arrow_type) or types.is_fixed_size_list(arrow_type):
        return types.is_uint8(arrow_type.value_type) or _holds_image(arrow_type.value_type)
    if types.is_struct(arrow_type):
        return any(field.name == "bytes" and _holds_image(field.type) for field in arrow_type.fields)
    binary = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view)
    return any(is_binary(arrow_type) for is_binary in binary)


def _are_numbers(arrow_type: pa.DataType) -> bool:
    """Return True for lists of bytes as numbers, which may be anything else as well, such as labels."""
    value_type = getattr(arrow_type, "value_type", None)
    return value_type is not None and (pa.types.is_uint8(value_type) or _are_numbers(value_type))


def _holds_text(arrow_type: pa.DataType) -> bool:
    if pa.types.is_dictionary(arrow_type):
        return _holds_text(arrow_type.value_type)
    return any(
        is_text(arrow_type) for is_text in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    )


def _splits(folder: Path) -> list[tuple[Path, str]]:
    listing = folder / "dataset_dict.json"
    if not listing.is_file():
        return [(folder, "")]
    try:
        splits = json.loads(listing.read_bytes())["splits"]
        return [(_inside(folder, split), f"{split}/") for split in splits]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UserError(f"{listing}: damaged; save the dataset again with save_to_disk") from None


def _arrow_files(folder: Path) -> list[Path]:
    state = folder / "state.json"
    if not state.is_file():
        return source_files(str(folder), (".arrow",))
    try:
        return [_inside(folder, entry["filename"]) for entry in json.loads(state.read_bytes())["_data_files"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UserError(f"{state}: damaged; save the dataset again with save_to_disk") from None


def _inside(folder: Path, name: str) -> Path:
    """Path of a name in a dataset's folder; raises ValueError for one that leads out of it."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise ValueError(f"{name} leads out of {folder}")
    return folder / name


def _open_arrow(source: pa.MemoryMappedFile) -> Any:
    try:
        return pa.ipc.open_stream(source)
    except pa.ArrowInvalid:
        source.seek(0)
        reader = pa.ipc.open_file(source)
        return _FileBatches(reader)


class _FileBatches:
    """Record batches of an Arrow file, with the interface of an Arrow stream."""

    def __init__(self, reader: pa.RecordBatchFileReader) -> None:
        self.reader, self.schema = reader, reader.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return (self.reader.get_batch(index) for index in range(self.reader.num_record_batches))


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Slices of a record batch, which may hold a thousand images: they become Python bytes a few at a time."""
    return (batch.slice(start, _BATCH) for start in range(0, batch.num_rows, _BATCH))
