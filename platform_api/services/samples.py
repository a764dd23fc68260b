"""Samples of a run, as its pages show them beside a response: found by the index, read from one row group."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import SampleFile, SamplePlace
from rubricworks.platform_api.services.runs import check_name
from rubricworks.platform_api.services.stored_parquet import read_row_group
from rubricworks.runs.store import RunStore

_TEXTS = ["sample_id", "prompt", "question", "image_digest"]
_CACHED_BYTES, _CACHED_GROUPS = 8 * 1024 * 1024, 8
"""Size and number of row groups of images that are remembered: a page of thumbnails asks for one many times."""
_cached: dict[tuple[RunStore, str, "Place"], dict[str, bytes | None]] = {}


class SampleText(NamedTuple):
    """Texts of a sample, and the presence of an image."""

    prompt: str
    question: str
    has_image: bool


class Place(NamedTuple):
    """Row group that holds a sample."""

    path: str
    size: int
    modified: Any
    group: int


async def find_sample(session: AsyncSession, store: RunStore, run: str, sample_id: str) -> SampleText:
    """A sample of a run; one that no table has any more has an image at best."""
    # A sample whose question was rewritten stands in a later table too, which is named after the first.
    for place in reversed(await _places(session, run, sample_id)):
        columns = await asyncio.to_thread(read_row_group, store, run, place.path, place.size, place.group, _TEXTS)
        rows = zip(*(columns[name] for name in _TEXTS), strict=True) if columns else ()
        for found, prompt, question, digest in rows:
            if found == sample_id:
                return SampleText(prompt or "", question or "", digest is not None)
    return SampleText("", "", has_image=True)


async def find_image(session: AsyncSession, store: RunStore, run: str, sample_id: str) -> bytes | None:
    """Image of a sample; None if the run has no such sample, or the sample no image.

    Raises:
        NotFound: the run's name is no folder's.
    """
    check_name(run)
    for place in await _places(session, run, sample_id):
        images = await _images(store, run, place)
        if images.get(sample_id) is not None:
            return images[sample_id]
    return None


async def _places(session: AsyncSession, run: str, sample_id: str) -> Sequence[Place]:
    query = (
        select(SampleFile.path, SampleFile.size, SampleFile.modified, SamplePlace.row_group)
        .join(SamplePlace, SamplePlace.file_id == SampleFile.id)
        .where(SampleFile.run == run, SamplePlace.sample_id == sample_id)
        .order_by(SampleFile.path)
    )
    return [Place(*row) for row in await session.execute(query)]


async def _images(store: RunStore, run: str, place: Place) -> dict[str, bytes | None]:
    key = (store, run, place)
    if key in _cached:
        return _cached[key]
    columns = ["sample_id", "image"]
    found = await asyncio.to_thread(read_row_group, store, run, place.path, place.size, place.group, columns)
    images = dict(zip(*(found[name] for name in columns), strict=True)) if found else {}
    if sum(len(image or b"") for image in images.values()) <= _CACHED_BYTES:
        _cached[key] = images
        while len(_cached) > _CACHED_GROUPS:
            _cached.pop(next(iter(_cached)))
    return images
