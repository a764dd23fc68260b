"""Where samples come from: a folder, Parquet, a Hugging Face dataset on disk, a WebDataset tar; told apart by the path.

`folder:`, `parquet:`, `hf:` or `webdataset:` before the path says it outright. Parquet and datasets hold images or
their URLs; `urls:` is a text file of URLs.
"""

import asyncio
import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from rubricworks.data.columns import find_in_parquet, find_in_saved_dataset
from rubricworks.data.folders import IMAGE_SUFFIXES, find_in_folder
from rubricworks.data.found import Found, FoundImage, Rejected
from rubricworks.data.images import BadImage, image_digest, normalise_image
from rubricworks.data.urls import LIST_SUFFIXES, find_in_lists
from rubricworks.data.webdataset import find_in_tars
from rubricworks.errors import UserError
from rubricworks.storage import local_path

if TYPE_CHECKING:
    from rubricworks.data.remote import Fetcher

KINDS = ("folder", "parquet", "hf", "webdataset", "urls")


class SourceItem(BaseModel):
    """An image of a source, ready to become a sample."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str
    """Names the image within its source, the same whenever the source is read."""
    image: bytes
    """PNG or JPEG, upright RGB."""
    image_digest: str
    references: tuple[str, ...] = ()
    source: str
    """Where it lies, for people."""


def read_source(
    source: str,
    *,
    max_side: int | None = 1_024,
    image_column: str | None = None,
    caption_column: str | None = None,
) -> Iterator[SourceItem | Rejected]:
    """The images of a source in a fixed order, one in memory at a time; those that cannot be used come as Rejected.

    So do those given by URL: only `open_images` fetches.

    Args:
        source: a path or file:// URI, with or without one of the prefixes.
        max_side: larger images are scaled down to it; None keeps every size.
        image_column: for Parquet and datasets; found by name and type if not given.
        caption_column: likewise; its captions become references.
    Raises:
        UserError: nothing is there, or it holds no images at all.
    """
    for found in find_images(source, image_column=image_column, caption_column=caption_column):
        yield open_image(found, max_side=max_side)


def find_images(source: str, *, image_column: str | None = None, caption_column: str | None = None) -> Found:
    """What `read_source` would open, unopened: cheap to run past when most of it is done already."""
    kind, path = _kind_and_path(source)
    columns = {"image_column": image_column, "caption_column": caption_column}
    if kind == "folder":
        found = find_in_folder(path)
    elif kind == "parquet":
        found = find_in_parquet(path, **columns)
    elif kind == "hf":
        found = find_in_saved_dataset(path, **columns)
    elif kind == "urls":
        found = find_in_lists(path)
    else:
        found = find_in_tars(path)
    empty = True
    for item in found:
        empty = False
        yield item
    if empty:
        raise UserError(f"{path}: no images here (read as {kind}); {_what_fits(kind)}")


def open_image(found: FoundImage | Rejected, *, max_side: int | None = 1_024) -> SourceItem | Rejected:
    """Read and normalise one image."""
    if isinstance(found, Rejected):
        return found
    try:
        image = normalise_image(found.read(), max_side=max_side)
    except BadImage as error:
        return Rejected(source=found.source, reason=str(error))
    except OSError as error:
        return Rejected(source=found.source, reason=f"cannot be read: {error.strerror or error}")
    return SourceItem(
        key=found.key, image=image, image_digest=image_digest(image), references=found.references, source=found.source
    )


async def open_images(
    found: Iterable[FoundImage | Rejected], fetcher: "Fetcher", *, max_side: int | None = 1_024
) -> list[SourceItem | Rejected]:
    """Read and normalise images, in order; what lies elsewhere is fetched, several at once, and decoded one by one."""
    fetching, decoding = asyncio.Semaphore(fetcher.at_once), asyncio.Lock()

    async def opened(one: FoundImage | Rejected) -> SourceItem | Rejected:
        if isinstance(one, Rejected) or one.url is None:
            return open_image(one, max_side=max_side)
        async with fetching:
            try:
                content = await fetcher.fetch(one.url)
            except BadImage as error:
                return Rejected(source=one.source, reason=str(error))
            fetched = dataclasses.replace(one, read=lambda: content)
            async with decoding:
                return await asyncio.to_thread(open_image, fetched, max_side=max_side)

    return await asyncio.gather(*map(opened, found))


def _kind_and_path(source: str) -> tuple[str, str]:
    prefix, colon, rest = source.partition(":")
    if colon and prefix in KINDS:
        return prefix, str(local_path(rest))
    if colon and not rest.startswith("//") and not Path(source).exists() and prefix.isalpha() and len(prefix) > 1:
        raise UserError(f"{source}: {prefix!r} is not a kind of source; use {', '.join(f'{kind}:' for kind in KINDS)}")
    path = local_path(source)
    return _kind_of(path), str(path)


def _kind_of(path: Path) -> str:
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


def _what_fits(kind: str) -> str:
    return {
        "folder": f"image files end in {', '.join(IMAGE_SUFFIXES[:4])} …",
        "parquet": "give a Parquet file with rows, or a folder of them",
        "hf": "give a folder that save_to_disk wrote",
        "webdataset": "give a tar whose members are key.jpg and key.txt or key.json",
        "urls": f"give a text file with one URL a line, or a folder of them that end in {', '.join(LIST_SUFFIXES)}",
    }[kind]
