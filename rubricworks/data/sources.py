"""Sources of images: a folder, Parquet, a Hugging Face dataset on disk, a WebDataset tar, a list of URLs.

The kind is inferred from the path, or given by a prefix: `folder:`, `parquet:`, `hf:`, `webdataset:`, or `urls:` for
a text file of URLs. Parquet and datasets hold images or their URLs.
"""

import asyncio
import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel, ConfigDict

from rubricworks.data.images import BadImage, image_digest, normalise_image
from rubricworks.data.source_entries import Entries, ImageEntry, RejectedEntry
from rubricworks.data.source_kinds.columns import parquet_entries, saved_dataset_entries
from rubricworks.data.source_kinds.folders import IMAGE_SUFFIXES, folder_entries
from rubricworks.data.source_kinds.urls import LIST_SUFFIXES, url_list_entries
from rubricworks.data.source_kinds.webdataset import tar_entries
from rubricworks.errors import UserError
from rubricworks.storage import local_path

KINDS = ("folder", "parquet", "hf", "webdataset", "urls")


class SourceItem(BaseModel):
    """An image of a source, ready to become a sample."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str
    """Identifies the image within its source; the same on every read."""
    image: bytes
    """PNG or JPEG, upright RGB."""
    image_digest: str
    references: tuple[str, ...] = ()
    prompt: str = ""
    """The captioning prompt that the source gives with the image; empty if it gives none."""
    source: str
    """Location for messages."""


def read_source(
    source: str,
    *,
    max_side: int | None = 1_024,
    image_column: str | None = None,
    caption_column: str | None = None,
) -> Iterator[SourceItem | RejectedEntry]:
    """Iterate over the images of a source in a fixed order, one in memory at a time.

    An unusable image comes as a RejectedEntry, and so does one given by URL: only `open_images` fetches.

    Args:
        source: a path or file:// URI, with or without one of the prefixes.
        max_side: larger images are scaled down to it; None keeps every size.
        image_column: column of a Parquet file or dataset; chosen by type and name by default.
        caption_column: column whose captions become references; chosen by name by default.
    Raises:
        UserError: the path does not exist, or holds no images.
    """
    for entry in image_entries(source, image_column=image_column, caption_column=caption_column):
        yield open_image(entry, max_side=max_side)


def image_entries(source: str, *, image_column: str | None = None, caption_column: str | None = None) -> Entries:
    """Entries of a source without opening the images, so that skipping finished ones is cheap.

    Arguments and errors are those of `read_source`.
    """
    kind, path = source_kind(source)
    columns = {"image_column": image_column, "caption_column": caption_column}
    if kind == "folder":
        entries = folder_entries(path)
    elif kind == "parquet":
        entries = parquet_entries(path, **columns)
    elif kind == "hf":
        entries = saved_dataset_entries(path, **columns)
    elif kind == "urls":
        entries = url_list_entries(path)
    else:
        entries = tar_entries(path)
    empty = True
    for entry in entries:
        empty = False
        yield entry
    if empty:
        raise UserError(f"{path}: no images here (read as {kind}); {source_hint(kind)}")


def open_image(entry: ImageEntry | RejectedEntry, *, max_side: int | None = 1_024) -> SourceItem | RejectedEntry:
    """Read and normalise one image."""
    if isinstance(entry, RejectedEntry):
        return entry
    image = image_bytes(entry, max_side=max_side)
    if isinstance(image, RejectedEntry):
        return image
    return SourceItem(
        key=entry.key,
        image=image,
        image_digest=image_digest(image),
        references=entry.references,
        prompt=entry.prompt,
        source=entry.source,
    )


def image_bytes(entry: ImageEntry, *, max_side: int | None = 1_024) -> bytes | RejectedEntry:
    """Read and normalise one image, without the digest of its pixels."""
    try:
        return normalise_image(entry.read(), max_side=max_side)
    except BadImage as error:
        return RejectedEntry(source=entry.source, reason=str(error))
    except OSError as error:
        return RejectedEntry(source=entry.source, reason=f"cannot be read: {error.strerror or error}")


class FetchesImages(Protocol):
    """Fetcher of remote images: `downloads.fetcher.Fetcher`, or one that stores them."""

    @property
    def concurrency(self) -> int:
        """Images that are fetched at once."""

    async def fetch(self, url: str) -> bytes:
        """Content of a URL; raises BadImage."""


async def open_images(
    entries: Iterable[ImageEntry | RejectedEntry], fetcher: FetchesImages, *, max_side: int | None = 1_024
) -> list[SourceItem | RejectedEntry]:
    """Read and normalise images in order. Remote images are fetched concurrently and decoded one by one."""
    fetch_slots, decode_lock = asyncio.Semaphore(fetcher.concurrency), asyncio.Lock()

    async def read_entry(entry: ImageEntry | RejectedEntry) -> SourceItem | RejectedEntry:
        if isinstance(entry, RejectedEntry) or entry.url is None:
            return open_image(entry, max_side=max_side)
        async with fetch_slots:
            try:
                content = await fetcher.fetch(entry.url)
            except BadImage as error:
                return RejectedEntry(source=entry.source, reason=str(error))
            local_entry = dataclasses.replace(entry, read=lambda: content)
            async with decode_lock:
                return await asyncio.to_thread(open_image, local_entry, max_side=max_side)

    return await asyncio.gather(*map(read_entry, entries))


def source_kind(source: str) -> tuple[str, str]:
    """Kind and path of a source, by its prefix or by what lies there.

    Raises:
        UserError: the prefix is no kind.
    """
    prefix, colon, rest = source.partition(":")
    if colon and prefix in KINDS:
        return prefix, str(local_path(rest))
    if colon and not rest.startswith("//") and not Path(source).exists() and prefix.isalpha() and len(prefix) > 1:
        raise UserError(f"{source}: {prefix!r} is not a kind of source; use {', '.join(f'{kind}:' for kind in KINDS)}")
    path = local_path(source)
    return _infer_kind(path), str(path)


def _infer_kind(path: Path) -> str:
    if path.is_dir():
        if any((path / mark).is_file() for mark in ("dataset_dict.json", "state.json")):
            return "hf"
        if any(path.glob("*.parquet")):
            return "parquet"
        return "webdataset" if any(path.glob("*.tar")) else "folder"
    suffix = path.suffix.lower()
    if suffix == ".arrow":
        return "hf"
    if suffix in (".tar", ".tgz") or path.name.lower().endswith(".tar.gz"):
        return "webdataset"
    return "parquet" if suffix == ".parquet" else "folder"


def source_hint(kind: str) -> str:
    """Advice for a source of a kind that holds no images."""
    return {
        "folder": f"image files end in {', '.join(IMAGE_SUFFIXES[:4])} …",
        "parquet": "give a Parquet file with rows, or a folder of them",
        "hf": "give a folder that save_to_disk wrote",
        "webdataset": "give a tar whose members are key.jpg and key.txt or key.json",
        "urls": f"give a text file with one URL a line, or a folder of them that end in {', '.join(LIST_SUFFIXES)}",
    }[kind]
