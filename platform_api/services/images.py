"""Images of samples and of responses, read from a run's own files alone."""

import asyncio
import hashlib
import re
from functools import lru_cache
from typing import Any, NamedTuple

from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.services.run_index import read_table
from rubricworks.platform_api.services.runs import check_name, read_file
from rubricworks.runs.store import RunStore, StoredFile

_SAMPLES = re.compile(r"(prepare\w*/part-\d{5}\.parquet)")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_TYPES = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif", b"RIFF": "image/webp"}
"""Formats that a browser shows as images and never runs."""
_CACHED_BYTES = 16 * 1024 * 1024
"""Largest shard whose images are remembered: a page of thumbnails asks for one shard many times."""
_SUFFIXES = {"image/png": "png", "image/jpeg": "jpg"}


class Image(NamedTuple):
    """An image with its type."""

    content: bytes
    media_type: str
    digest: str


async def sample_image(store: RunStore, run: str, sample_id: str) -> Image:
    """Image of a sample.

    Raises:
        NotFound: the run has no such sample, or it has no image.
    """
    check_name(run)
    content = await asyncio.to_thread(_find_sample, store, run, sample_id)
    if content is None:
        raise NotFound(f"{run} has no image of sample {sample_id!r}")
    return _image(content, f"sample {sample_id!r} of {run}")


async def response_image(store: RunStore, run: str, stage: str, digest: str, media_type: str) -> Image:
    """Image that a response is.

    Raises:
        NotFound: the run has no such image.
    """
    suffix = _SUFFIXES.get(media_type)
    if not _DIGEST.fullmatch(digest) or suffix is None:
        raise NotFound(f"{run} has no image {digest!r}")
    name = f"images/{digest[:2]}/{digest}.{suffix}"
    content = await read_file(store, run, f"{stage}/{name}")
    if content is None:  # a stage that scores has its responses in a table of their own
        content = await read_file(store, run, f"{stage}/responses/{name}")
    if content is None or hashlib.sha256(content).hexdigest() != digest:
        raise NotFound(f"{run} has no image {digest!r}, or it is damaged")
    return _image(content, digest)


def _find_sample(store: RunStore, run: str, sample_id: str) -> bytes | None:
    files = store.files(run)
    for path in sorted(path for path in files if _SAMPLES.fullmatch(path)):
        shard: tuple[Any, ...] = (store, run, path, files[path])
        images = _cached_images(*shard) if files[path].size <= _CACHED_BYTES else _read_images(*shard)
        if sample_id in images:
            return images[sample_id]
    return None


def _read_images(store: RunStore, run: str, path: str, file: StoredFile) -> dict[str, bytes | None]:
    table = read_table(store, run, path, columns=["sample_id", "image"])
    return dict(zip(table["sample_id"], table["image"], strict=True)) if table else {}


@lru_cache(maxsize=8)
def _cached_images(*shard: Any) -> dict[str, bytes | None]:
    return _read_images(*shard)


def _image(content: bytes, name: str) -> Image:
    media_type = next((kind for magic, kind in _TYPES.items() if content.startswith(magic)), None)
    if media_type is None:
        raise NotFound(f"the image of {name} has a format that browsers do not show")
    return Image(content, media_type, hashlib.sha256(content).hexdigest())
