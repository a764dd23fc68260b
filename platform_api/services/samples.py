"""Samples and images of a run for its pages: found by the index, read only from the run's own files."""

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable, Collection
from typing import NamedTuple, TypeVar

from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import SampleFile, SamplePlace
from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.services.runs import check_name, read_file
from rubricworks.runs.store import RunStore
from rubricworks.runs.tables import TableFile, UnreadableTable

T = TypeVar("T")
_TEXTS = ["sample_id", "prompt", "question", "image_digest"]
_DIGEST = re.compile(r"[0-9a-f]{64}")
_TYPES = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif", b"RIFF": "image/webp"}
"""Formats that a browser shows as images and never runs."""
_SUFFIXES = {"image/png": "png", "image/jpeg": "jpg"}
_log = logging.getLogger(__name__)


class SampleText(NamedTuple):
    """Texts of a sample, and the presence of an image."""

    prompt: str
    question: str
    has_image: bool


class Image(NamedTuple):
    """An image with its type."""

    content: bytes
    media_type: str
    digest: str


async def find_sample(session: AsyncSession, store: RunStore, run: str, sample_id: str) -> SampleText:
    """A sample of a run; a sample without a table has at most an image."""

    def read(file: TableFile, group: int) -> SampleText | None:
        for row in file.columns(_TEXTS, [group]).to_pylist():
            if row["sample_id"] == sample_id:
                return SampleText(row["prompt"] or "", row["question"] or "", row["image_digest"] is not None)
        return None

    # A sample whose question was rewritten stands in a later table too, which is named after the first.
    places = (await _places(session, store, run, sample_id))[::-1]
    return await _first(places, read) or SampleText("", "", has_image=True)


async def file_names(session: AsyncSession, run: str, sample_ids: Collection[str]) -> dict[str, str]:
    """sample_id → name of the picture's file, or its place in one; for pages, which fall back on the id."""
    query = (
        select(SamplePlace.sample_id, SamplePlace.file_name)
        .join(SampleFile, SamplePlace.file_id == SampleFile.id)
        .where(SampleFile.run == run, SamplePlace.sample_id.in_(list(sample_ids)), SamplePlace.file_name != "")
    )
    return {sample_id: file_name for sample_id, file_name in await session.execute(query)}


def samples_called(run: str, text: str) -> Select[str]:
    """Query of the samples whose file's name holds a text, in either case, or whose id is the text."""
    named = SamplePlace.file_name.icontains(text, autoescape=True)
    return (
        select(SamplePlace.sample_id)
        .join(SampleFile, SamplePlace.file_id == SampleFile.id)
        .where(SampleFile.run == run, named | (SamplePlace.sample_id == text))
    )


async def find_image(session: AsyncSession, store: RunStore, run: str, sample_id: str) -> bytes | None:
    """Image of a sample; None if the run has no such sample, or the sample no image.

    Raises:
        NotFound: the run's name is no folder's.
    """
    check_name(run)
    places = await _places(session, store, run, sample_id)
    return await _first(places, lambda file, group: file.image(group, sample_id))


async def sample_image(session: AsyncSession, store: RunStore, run: str, sample_id: str) -> Image:
    """Image of a sample with its type.

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


async def _places(session: AsyncSession, store: RunStore, run: str, sample_id: str) -> list[tuple[TableFile, int]]:
    """Files and row groups that hold a sample."""
    query = (
        select(SampleFile.path, SampleFile.size, SampleFile.modified, SamplePlace.row_group)
        .join(SamplePlace, SamplePlace.file_id == SampleFile.id)
        .where(SampleFile.run == run, SamplePlace.sample_id == sample_id)
        .order_by(SampleFile.path)
    )
    return [
        (TableFile(store, run, path, (size, modified), ranged_size=size, kind="samples"), group)
        for path, size, modified, group in await session.execute(query)
    ]


async def _first(places: list[tuple[TableFile, int]], read: Callable[[TableFile, int], T | None]) -> T | None:
    """Content of the first readable place; unreadable places are logged."""
    for place in places:
        try:
            value = await asyncio.to_thread(read, *place)
        except UnreadableTable as error:
            _log.warning("%s", error)
            continue
        if value is not None:
            return value
    return None


def _image(content: bytes, name: str) -> Image:
    media_type = next((kind for magic, kind in _TYPES.items() if content.startswith(magic)), None)
    if media_type is None:
        raise NotFound(f"the image of {name} has a format that browsers do not show")
    return Image(content, media_type, hashlib.sha256(content).hexdigest())
