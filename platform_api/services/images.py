"""Images of samples and of responses, read from a run's own files alone."""

import hashlib
import re
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.services.runs import read_file
from rubricworks.platform_api.services.samples import find_image
from rubricworks.runs.store import RunStore

_DIGEST = re.compile(r"[0-9a-f]{64}")
_TYPES = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif", b"RIFF": "image/webp"}
"""Formats that a browser shows as images and never runs."""
_SUFFIXES = {"image/png": "png", "image/jpeg": "jpg"}


class Image(NamedTuple):
    """An image with its type."""

    content: bytes
    media_type: str
    digest: str


async def sample_image(session: AsyncSession, store: RunStore, run: str, sample_id: str) -> Image:
    """Image of a sample.

    Raises:
        NotFound: the run has no such sample, or it has no image.
    """
    content = await find_image(session, store, run, sample_id)
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


def _image(content: bytes, name: str) -> Image:
    media_type = next((kind for magic, kind in _TYPES.items() if content.startswith(magic)), None)
    if media_type is None:
        raise NotFound(f"the image of {name} has a format that browsers do not show")
    return Image(content, media_type, hashlib.sha256(content).hexdigest())
